//! Compares the interfaces of the machine with those that are captured: which are new,
//! which have changed or vanished, and which no longer match the configuration.
//!
//! The comparison runs on every change and takes time linear in the number of interfaces,
//! because a host with many containers has thousands.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use super::network::LinkState;
use super::patterns::InterfacePatterns;
use crate::traffic::tally::Tally;

/// An interface that is captured, or that vanished less than two windows ago.
pub struct Captured {
    /// Index of the capture thread.
    pub thread: usize,
    pub link_state: LinkState,
    pub tally: Arc<Tally>,
    /// When the interface vanished. `None` while it exists.
    pub gone: Option<Instant>,
    /// Whether the interface is being removed. It stays in the list until the worker has
    /// ended it; a new interface of the same name is only added after that.
    pub leaving: bool,
}

/// What has to be done after a comparison.
#[derive(Debug, Default, PartialEq)]
pub struct Difference {
    /// Captured interfaces whose state has changed.
    pub changed: Vec<String>,
    /// Captured interfaces that no longer match the configuration. They are marked as
    /// `leaving`.
    pub excluded: Vec<String>,
    /// Interfaces that match the configuration and are not captured yet.
    pub new: Vec<(String, LinkState)>,
}

impl Difference {
    /// Compares all `links` of the machine with those that are `captured`. An interface
    /// that has vanished is still included for the time `keep`.
    pub fn find(
        links: Vec<(String, LinkState)>,
        captured: &mut BTreeMap<String, Captured>,
        patterns: &InterfacePatterns,
        keep: Duration,
    ) -> Self {
        let mut difference = Self::default();
        let there: HashMap<&str, LinkState> = links
            .iter()
            .map(|(name, link_state)| (name.as_str(), *link_state))
            .collect();
        for (name, one) in captured.iter_mut() {
            if one.update(there.get(name.as_str()).copied()) {
                difference.changed.push(name.clone());
            }
        }
        let mut all = links;
        for (name, one) in captured.iter() {
            if one.gone.is_some_and(|since| since.elapsed() < keep) {
                all.push((name.clone(), one.link_state));
            }
        }
        let matching = patterns.matching(&all, |name| captured.contains_key(name));
        let matching: HashSet<&str> = matching.into_iter().collect();
        for (name, one) in captured.iter_mut() {
            if !one.leaving && !matching.contains(name.as_str()) {
                one.leaving = true;
                difference.excluded.push(name.clone());
            }
        }
        let is_new = |name: &str| matching.contains(name) && !captured.contains_key(name);
        let new = all.iter().filter(|(name, _)| is_new(name));
        difference.new = new.cloned().collect();
        difference
    }
}

impl Captured {
    /// Stores the current state of the interface, `None` if it has vanished. Returns
    /// whether it differs from the state before.
    fn update(&mut self, link_state: Option<LinkState>) -> bool {
        let before = (self.link_state, self.gone.is_some());
        self.gone = match link_state {
            Some(_) => None,
            None => self.gone.or_else(|| Some(Instant::now())),
        };
        self.link_state = link_state.unwrap_or(self.link_state);
        self.tally.gone.store(self.gone.is_some(), Relaxed);
        before != (self.link_state, self.gone.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;

    const KEEP: Duration = Duration::from_secs(100);

    fn link(index: u32) -> (String, LinkState) {
        let link_state = LinkState {
            index,
            up: true,
            loopback: false,
        };
        (format!("veth{index}"), link_state)
    }

    fn captured(indices: impl Iterator<Item = u32>) -> BTreeMap<String, Captured> {
        let one = |(name, link_state)| {
            let captured = Captured {
                thread: 0,
                link_state,
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
    fn new_changed_and_vanished_interfaces_are_found() {
        let all = InterfacePatterns::from(&config::Capture::default());
        let mut captured = captured(1..4);
        let mut links: Vec<_> = [1, 2, 5].map(link).into();
        links[1].1.up = false;
        let found = Difference::find(links.clone(), &mut captured, &all, KEEP);
        assert_eq!(found.changed, names(&[2, 3]));
        assert_eq!(
            found.excluded, [""; 0],
            "a vanished interface is kept for a while"
        );
        assert_eq!(found.new, [link(5)]);
        let found = Difference::find(links, &mut captured, &all, Duration::ZERO);
        assert_eq!(found.changed, [""; 0]);
        assert_eq!(found.excluded, names(&[3]));
        assert!(captured["veth3"].leaving);
    }

    /// A quadratic search took a minute for this.
    #[test]
    fn many_interfaces_are_compared_in_seconds() {
        const MANY: u32 = 50_000;
        let all = InterfacePatterns::from(&config::Capture::default());
        let mut captured = captured(1..MANY);
        let links = (1000..MANY + 1000).map(link).collect();
        let start = Instant::now();
        let found = Difference::find(links, &mut captured, &all, KEEP);
        assert_eq!((found.changed.len(), found.new.len()), (999, 1000));
        let took = start.elapsed();
        assert!(took < Duration::from_secs(4), "{took:?}");
    }
}
