//! Which interfaces are meant.

use super::netlink::Known;
use crate::config;
use crate::config::pattern::Pattern;

/// The interfaces that are meant, whether or not there are any.
#[derive(Debug, Clone, PartialEq)]
pub struct Wanted {
    include: Vec<Pattern>,
    exclude: Vec<Pattern>,
}

impl From<&config::Capture> for Wanted {
    fn from(config: &config::Capture) -> Self {
        Self {
            include: config.interfaces.clone(),
            exclude: config.exclude.clone(),
        }
    }
}

impl Wanted {
    /// Which of these are meant. When none are named: all that are up, without
    /// loopback; loopback alone if there is nothing else. One that is
    /// `captured` already stays so when it goes down.
    pub fn among<'a>(
        &self,
        links: &'a [(String, Known)],
        captured: impl Fn(&str) -> bool,
    ) -> Vec<&'a str> {
        // A pattern means what can be captured; a name is taken at its word.
        let useful = |name: &str, known: &Known| known.up || captured(name);
        let links = links
            .iter()
            .filter(|(name, _)| !self.exclude.iter().any(|pattern| pattern.matches(name)));
        if self.include.is_empty() {
            let of_kind = |loopback: bool| {
                let useful = links.clone().filter(|(name, known)| useful(name, known));
                let of_kind = useful.filter(move |(_, known)| known.loopback == loopback);
                of_kind.map(|(name, _)| name.as_str()).collect::<Vec<_>>()
            };
            let others = of_kind(false);
            return if others.is_empty() {
                of_kind(true)
            } else {
                others
            };
        }
        let is_meant = |(name, known): &&(String, Known)| {
            let mut meant = self.include.iter().filter(|pattern| pattern.matches(name));
            meant.any(|pattern| pattern.is_name() || useful(name, known))
        };
        links
            .filter(is_meant)
            .map(|(name, _)| name.as_str())
            .collect()
    }

    /// What is waited for when these are captured or about to be: names
    /// that are not among them; where there are none at all, anything.
    pub fn missing(&self, captured: &[&str]) -> Vec<String> {
        let is_missing = |pattern: &&Pattern| !captured.iter().any(|name| pattern.matches(name));
        let missing = self.include.iter().filter(is_missing);
        match captured {
            [] if self.include.is_empty() => vec!["any interface that is up".into()],
            [] => missing.map(ToString::to_string).collect(),
            _ => {
                let names = missing.filter(|pattern| pattern.is_name());
                names.map(ToString::to_string).collect()
            }
        }
    }

    /// Refuses what no interface will ever be.
    pub fn check(&self) -> anyhow::Result<()> {
        anyhow::ensure!(
            !self.is_impossible(),
            "no interface is left to capture: all that are named are excluded"
        );
        Ok(())
    }

    /// Whether all that are named are excluded, so that none will ever do.
    fn is_impossible(&self) -> bool {
        let is_excluded = |pattern: &Pattern| {
            let name = pattern.to_string();
            pattern.is_name() && self.exclude.iter().any(|other| other.matches(&name))
        };
        !self.include.is_empty() && self.include.iter().all(is_excluded)
    }

    /// Patterns that none of these interfaces matches.
    pub fn unmatched(&self, links: &[(String, Known)]) -> Vec<&Pattern> {
        let matched = |pattern: &&Pattern| links.iter().any(|(name, _)| pattern.matches(name));
        self.include.iter().filter(|p| !matched(p)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(include: &[&str], exclude: &[&str]) -> Wanted {
        let patterns = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        Wanted {
            include: patterns(include),
            exclude: patterns(exclude),
        }
    }

    fn links(links: &[(&str, bool)]) -> Vec<(String, Known)> {
        let link = |(index, (name, up)): (u32, &(&str, bool))| {
            let known = Known {
                index,
                up: *up,
                loopback: *name == "lo",
            };
            ((*name).to_owned(), known)
        };
        (1..).zip(links).map(link).collect()
    }

    #[test]
    fn without_names_loopback_stands_in_until_there_is_another() {
        let boot = links(&[("lo", true), ("eth0", false)]);
        let later = links(&[("lo", true), ("eth0", true)]);
        let all = wanted(&[], &[]);
        let none = |_: &str| false;
        assert_eq!(all.among(&boot, none), ["lo"]);
        assert_eq!(all.among(&later, none), ["eth0"]);
        assert_eq!(
            all.among(&boot, |name| name == "eth0"),
            ["eth0"],
            "it stays"
        );
        assert_eq!(wanted(&[], &["lo"]).among(&boot, none), [""; 0]);
        assert_eq!(all.missing(&[]), ["any interface that is up"]);
    }

    #[test]
    fn names_are_taken_at_their_word_and_waited_for() {
        let there = links(&[("lo", true), ("eth0", false), ("eth1", true)]);
        let none = |_: &str| false;
        assert_eq!(wanted(&["eth0"], &[]).among(&there, none), ["eth0"]);
        assert_eq!(wanted(&["eth*"], &[]).among(&there, none), ["eth1"]);
        assert_eq!(wanted(&["eth*"], &["eth1"]).among(&there, none), [""; 0]);
        assert!(wanted(&["eth0"], &["eth*"]).is_impossible());
        assert!(!wanted(&["eth0", "eth*"], &["eth0"]).is_impossible());
        let wanted = wanted(&["eth1", "tun0", "veth*"], &[]);
        assert_eq!(wanted.missing(&["eth1"]), ["tun0"]);
        assert_eq!(wanted.missing(&[]), ["eth1", "tun0", "veth*"]);
        let unmatched = wanted.unmatched(&there);
        assert_eq!(unmatched.len(), 2, "{unmatched:?}");
    }
}
