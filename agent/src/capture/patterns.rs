//! Selects interfaces by the patterns of the configuration.

use super::network::LinkState;
use crate::config;
use crate::config::pattern::Pattern;

/// Patterns of interfaces to capture and to exclude.
#[derive(Debug, Clone, PartialEq)]
pub struct InterfacePatterns {
    include: Vec<Pattern>,
    exclude: Vec<Pattern>,
}

impl From<&config::Capture> for InterfacePatterns {
    fn from(config: &config::Capture) -> Self {
        Self {
            include: config.interfaces.clone(),
            exclude: config.exclude.clone(),
        }
    }
}

impl InterfacePatterns {
    /// Returns the interfaces that match. Without include patterns these are all that are
    /// up, except loopback; loopback is used only if there is no other. An interface that
    /// is already `captured` stays selected when it goes down.
    pub fn matching<'a>(
        &self,
        links: &'a [(String, LinkState)],
        captured: impl Fn(&str) -> bool,
    ) -> Vec<&'a str> {
        // A pattern selects interfaces that are up; a plain name selects its interface in
        // any state.
        let useful = |name: &str, link_state: &LinkState| link_state.up || captured(name);
        let links = links
            .iter()
            .filter(|(name, _)| !self.exclude.iter().any(|pattern| pattern.matches(name)));
        if self.include.is_empty() {
            let of_kind = |loopback: bool| {
                let useful = links
                    .clone()
                    .filter(|(name, link_state)| useful(name, link_state));
                let of_kind = useful.filter(move |(_, link_state)| link_state.loopback == loopback);
                of_kind.map(|(name, _)| name.as_str()).collect::<Vec<_>>()
            };
            let others = of_kind(false);
            return if others.is_empty() {
                of_kind(true)
            } else {
                others
            };
        }
        let is_selected = |(name, link_state): &&(String, LinkState)| {
            let mut matching = self.include.iter().filter(|pattern| pattern.matches(name));
            matching.any(|pattern| pattern.is_name() || useful(name, link_state))
        };
        links
            .filter(is_selected)
            .map(|(name, _)| name.as_str())
            .collect()
    }

    /// Returns the names that match none of the `captured` interfaces. If nothing is
    /// captured, returns all patterns.
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

    /// Returns an error if no interface can ever match.
    pub fn check(&self) -> anyhow::Result<()> {
        anyhow::ensure!(
            !self.is_impossible(),
            "no interface is left to capture: all that are named are excluded"
        );
        Ok(())
    }

    /// Whether all included names are excluded, so that no interface can ever match.
    fn is_impossible(&self) -> bool {
        let is_excluded = |pattern: &Pattern| {
            let name = pattern.to_string();
            pattern.is_name() && self.exclude.iter().any(|other| other.matches(&name))
        };
        !self.include.is_empty() && self.include.iter().all(is_excluded)
    }

    /// Returns the patterns that match none of these interfaces.
    pub fn unmatched(&self, links: &[(String, LinkState)]) -> Vec<&Pattern> {
        let matched = |pattern: &&Pattern| links.iter().any(|(name, _)| pattern.matches(name));
        self.include.iter().filter(|p| !matched(p)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(include: &[&str], exclude: &[&str]) -> InterfacePatterns {
        let patterns = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        InterfacePatterns {
            include: patterns(include),
            exclude: patterns(exclude),
        }
    }

    fn links(links: &[(&str, bool)]) -> Vec<(String, LinkState)> {
        let link = |(index, (name, up)): (u32, &(&str, bool))| {
            let link_state = LinkState {
                index,
                up: *up,
                loopback: *name == "lo",
            };
            ((*name).to_owned(), link_state)
        };
        (1..).zip(links).map(link).collect()
    }

    #[test]
    fn without_names_loopback_is_captured_until_another_interface_is_up() {
        let boot = links(&[("lo", true), ("eth0", false)]);
        let later = links(&[("lo", true), ("eth0", true)]);
        let all = patterns(&[], &[]);
        let none = |_: &str| false;
        assert_eq!(all.matching(&boot, none), ["lo"]);
        assert_eq!(all.matching(&later, none), ["eth0"]);
        assert_eq!(
            all.matching(&boot, |name| name == "eth0"),
            ["eth0"],
            "a captured interface stays selected"
        );
        assert_eq!(patterns(&[], &["lo"]).matching(&boot, none), [""; 0]);
        assert_eq!(all.missing(&[]), ["any interface that is up"]);
    }

    #[test]
    fn a_plain_name_selects_an_interface_that_is_down_or_missing() {
        let there = links(&[("lo", true), ("eth0", false), ("eth1", true)]);
        let none = |_: &str| false;
        assert_eq!(patterns(&["eth0"], &[]).matching(&there, none), ["eth0"]);
        assert_eq!(patterns(&["eth*"], &[]).matching(&there, none), ["eth1"]);
        assert_eq!(
            patterns(&["eth*"], &["eth1"]).matching(&there, none),
            [""; 0]
        );
        assert!(patterns(&["eth0"], &["eth*"]).is_impossible());
        assert!(!patterns(&["eth0", "eth*"], &["eth0"]).is_impossible());
        let patterns = patterns(&["eth1", "tun0", "veth*"], &[]);
        assert_eq!(patterns.missing(&["eth1"]), ["tun0"]);
        assert_eq!(patterns.missing(&[]), ["eth1", "tun0", "veth*"]);
        let unmatched = patterns.unmatched(&there);
        assert_eq!(unmatched.len(), 2, "{unmatched:?}");
    }
}
