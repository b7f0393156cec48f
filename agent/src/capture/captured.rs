//! What there is beside what is captured: which interfaces came, which went, which nobody
//! wants any more. Linear in their number, as it is done again and again, and a machine
//! with many containers has thousands.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use super::netlink::Known;
use super::wanted::Wanted;
use crate::tally::Tally;

/// An interface that is captured, or was a while ago.
pub struct Captured {
    /// Which thread captures it.
    pub thread: usize,
    /// What is known of it.
    pub known: Known,
    /// Its books.
    pub tally: Arc<Tally>,
    /// Since when it is gone.
    pub gone: Option<Instant>,
    /// Whether it is being forgotten: until the worker has ended it, another of
    /// its name would be a second one.
    pub leaving: bool,
}

/// What is to be done about interfaces.
#[derive(Debug, Default, PartialEq)]
pub struct Difference {
    /// Captured ones of which there is news.
    pub changed: Vec<String>,
    /// Captured ones that nobody wants any more. They are leaving from now on.
    pub unwanted: Vec<String>,
    /// Wanted ones that are not captured yet.
    pub new: Vec<(String, Known)>,
}

impl Difference {
    /// Compares all `links` there are with those that are `captured`. One that is gone is
    /// still wanted for as long as it is kept.
    pub fn find(
        links: Vec<(String, Known)>,
        captured: &mut BTreeMap<String, Captured>,
        wanted: &Wanted,
        keep: Duration,
    ) -> Self {
        let mut difference = Self::default();
        let there: HashMap<&str, Known> = links
            .iter()
            .map(|(name, known)| (name.as_str(), *known))
            .collect();
        for (name, one) in captured.iter_mut() {
            if one.note(there.get(name.as_str()).copied()) {
                difference.changed.push(name.clone());
            }
        }
        let mut all = links;
        for (name, one) in captured.iter() {
            if one.gone.is_some_and(|since| since.elapsed() < keep) {
                all.push((name.clone(), one.known));
            }
        }
        let wanted = wanted.among(&all, |name| captured.contains_key(name));
        let wanted: HashSet<&str> = wanted.into_iter().collect();
        for (name, one) in captured.iter_mut() {
            if !one.leaving && !wanted.contains(name.as_str()) {
                one.leaving = true;
                difference.unwanted.push(name.clone());
            }
        }
        let is_new = |name: &str| wanted.contains(name) && !captured.contains_key(name);
        let new = all.iter().filter(|(name, _)| is_new(name));
        difference.new = new.cloned().collect();
        difference
    }
}

impl Captured {
    /// Notes what is known of the interface now; whether that is news.
    fn note(&mut self, known: Option<Known>) -> bool {
        let before = (self.known, self.gone.is_some());
        self.gone = match known {
            Some(_) => None,
            None => self.gone.or_else(|| Some(Instant::now())),
        };
        self.known = known.unwrap_or(self.known);
        self.tally.gone.store(self.gone.is_some(), Relaxed);
        before != (self.known, self.gone.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;

    const KEEP: Duration = Duration::from_secs(100);

    fn link(index: u32) -> (String, Known) {
        let known = Known {
            index,
            up: true,
            loopback: false,
        };
        (format!("veth{index}"), known)
    }

    fn captured(indices: impl Iterator<Item = u32>) -> BTreeMap<String, Captured> {
        let one = |(name, known)| {
            let captured = Captured {
                thread: 0,
                known,
                tally: Arc::default(),
                gone: None,
                leaving: false,
            };
            (name, captured)
        };
        indices.map(link).map(one).collect()
    }

    fn names(of: &[u32]) -> Vec<String> {
        of.iter().map(|index| link(*index).0).collect()
    }

    #[test]
    fn what_comes_goes_or_changes_is_found() {
        let all = Wanted::from(&config::Capture::default());
        let mut captured = captured(1..4);
        let mut links: Vec<_> = [1, 2, 5].map(link).into();
        links[1].1.up = false;
        let found = Difference::find(links.clone(), &mut captured, &all, KEEP);
        assert_eq!(found.changed, names(&[2, 3]));
        assert_eq!(found.unwanted, [""; 0], "it may come back");
        assert_eq!(found.new, [link(5)]);
        let found = Difference::find(links, &mut captured, &all, Duration::ZERO);
        assert_eq!(found.changed, [""; 0]);
        assert_eq!(found.unwanted, names(&[3]));
        assert!(captured["veth3"].leaving);
    }

    /// Where each was sought among all, this took a minute.
    #[test]
    fn many_interfaces_are_compared_in_no_time() {
        const MANY: u32 = 50_000;
        let all = Wanted::from(&config::Capture::default());
        let mut captured = captured(1..MANY);
        let links = (1000..MANY + 1000).map(link).collect();
        let start = Instant::now();
        let found = Difference::find(links, &mut captured, &all, KEEP);
        assert_eq!((found.changed.len(), found.new.len()), (999, 1000));
        let took = start.elapsed();
        assert!(took < Duration::from_secs(4), "{took:?}");
    }
}
