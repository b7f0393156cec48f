//! Compares two configurations.

use super::{Config, Reload};

impl Config {
    /// Prepares this configuration to replace `before` in a running agent. Returns the keys
    /// that have changed, and those that need a restart, which keep their old values.
    pub fn replace(&mut self, before: &Self) -> (Vec<&'static str>, Vec<&'static str>) {
        let (mut changed, mut at_start) = (Vec::new(), Vec::new());
        if self.networks != before.networks {
            changed.push("names");
        }
        for key in self.changed_keys(before) {
            match key.reload {
                Reload::Restart => at_start.push(key.path()),
                _ => changed.push(key.path()),
            }
        }
        // The same file may have other contents.
        let (old, new) = (&before.databases, &self.databases);
        for (key, differs) in [
            ("lookup.asn", old.asns != new.asns),
            ("lookup.country", old.countries != new.countries),
        ] {
            if differs && !changed.contains(&key) {
                changed.push(key);
            }
        }
        // The device is opened once, and the key is read from the directory once.
        self.sketch.device = before.sketch.device;
        self.state.directory.clone_from(&before.state.directory);
        (changed, at_start)
    }
}

#[cfg(test)]
mod tests {
    use super::super::keys;
    use super::*;

    #[test]
    fn keys_that_need_a_restart_keep_their_values() {
        let before = Config::default();
        let mut after = before.clone();
        assert_eq!(after.replace(&before), (Vec::new(), Vec::new()));
        after.capture.snaplen = 100;
        after.sketch.device = crane_model::DeviceChoice::Cpu;
        after.state.directory = Some("/elsewhere".into());
        let (changed, at_start) = after.replace(&before);
        assert_eq!(changed, ["capture.snaplen"]);
        let restart = keys().filter(|key| key.reload == Reload::Restart);
        assert_eq!(at_start, restart.map(|key| key.path()).collect::<Vec<_>>());
        assert_eq!(
            (&after.sketch, &after.state),
            (&before.sketch, &before.state)
        );
    }
}
