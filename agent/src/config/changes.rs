//! What differs between two configurations.

use super::Config;

/// Keys that only a start applies: a device is opened once, and so is the directory, which
/// the key comes from.
const AT_START: [&str; 2] = ["sketch.device", "state.directory"];

macro_rules! compare {
    ($before:ident, $after:ident: $($section:ident { $($key:ident)* })*) => {
        [$($((
            concat!(stringify!($section), ".", stringify!($key)),
            $before.$section.$key != $after.$section.$key,
        ),)*)*]
    };
}

impl Config {
    /// Takes the place of `before` in a running agent; all keys that are other now.
    /// Those that need a start keep their values, and are the second list.
    pub fn succeed(&mut self, before: &Self) -> (Vec<&'static str>, Vec<&'static str>) {
        let changed = self.changed(before);
        self.sketch.device = before.sketch.device;
        self.state.directory.clone_from(&before.state.directory);
        changed.into_iter().partition(|key| !AT_START.contains(key))
    }

    fn changed(&self, before: &Self) -> Vec<&'static str> {
        let names = before.networks != self.networks;
        let keys = compare!(before, self:
            capture {
                interfaces exclude filter snaplen promiscuous sample buffer_total ring_slots
                decap ipv6 direction
            }
            window { length }
            sketch {
                profile device weights memory memory_total node_percent batch linger_ms
            }
            export { listen socket web_config hosts anonymise top watch }
            state { directory interval }
        );
        let keys = [("names", names)].into_iter().chain(keys);
        let changed = keys.filter(|(_, changed)| *changed);
        changed.map(|(key, _)| key).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::variables::SECTIONS;
    use super::*;

    /// The keys that the source above compares.
    #[test]
    fn every_key_is_compared() {
        let source = include_str!("changes.rs");
        let compared = source.split("compare!(before, self:").nth(1).unwrap();
        for (section, keys) in SECTIONS {
            let listed = compared.split(&format!("{section} {{")).nth(1).unwrap();
            let listed = listed.split('}').next().unwrap();
            let listed: Vec<&str> = listed.split_whitespace().collect();
            assert_eq!(listed, keys, "{section}");
        }
    }

    #[test]
    fn a_device_stays_until_the_next_start() {
        let before = Config::default();
        let mut after = before.clone();
        assert_eq!(after.succeed(&before), (Vec::new(), Vec::new()));
        after.capture.snaplen = 100;
        after.sketch.device = crane_model::DeviceChoice::Cpu;
        let (changed, at_start) = after.succeed(&before);
        assert_eq!(changed, ["capture.snaplen"]);
        assert_eq!(at_start, ["sketch.device"]);
        assert_eq!(after.sketch, before.sketch);
    }
}
