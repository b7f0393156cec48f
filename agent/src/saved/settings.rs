//! The settings that a saved window and an agent must share: how sketches are built, the length of
//! the window, and which packets are in it.

use crane_model::Secret;

use crate::config::Config;

/// Lines like `window.length=60s` in a fixed order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings(pub String);

impl Settings {
    /// The settings of this configuration, key and weights.
    pub fn of(config: &Config, secret: &Secret, weights: &str) -> Self {
        let (capture, sketch) = (&config.capture, &config.sketch);
        // The id of a name that no packet can have identifies the key without revealing it.
        let key = secret.id(&[u64::MAX; 4]);
        Self(format!(
            "key={key:016x}\n\
             sketch.profile={}\n\
             sketch.weights={weights}\n\
             sketch.memory={}\n\
             sketch.node_percent={}\n\
             window.length={}\n\
             capture.sample={}\n\
             capture.filter={:?}\n\
             capture.direction={:?}\n\
             capture.decap={:?}\n\
             capture.ipv6={}\n\
             capture.promiscuous={}\n",
            sketch.profile.name(),
            sketch.memory.0,
            sketch.node_percent,
            config.window.length,
            capture.sample,
            capture.filter,
            capture.direction,
            capture.decap,
            capture.ipv6,
            capture.promiscuous,
        ))
    }

    /// The first key with another value. `None` if all are equal.
    pub fn difference<'a>(&'a self, other: &'a str) -> Option<&'a str> {
        if self.0 == other {
            return None;
        }
        let mut lines = self.0.lines().zip(other.lines());
        let line = lines.find(|(own, other)| own != other);
        let key = line.and_then(|(own, _)| own.split_once('='));
        Some(key.map_or("number of settings", |(key, _)| key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Profile;

    #[test]
    fn the_first_different_setting_is_named() {
        let of = |change: fn(&mut Config), seed| {
            let mut config = Config::default();
            change(&mut config);
            Settings::of(&config, &Secret::from_seed(seed), "w")
        };
        let own = of(|_| {}, 1);
        assert_eq!(own.difference(&of(|_| {}, 1).0), None);
        assert_eq!(own.difference(&of(|_| {}, 2).0), Some("key"));
        let filtered = of(|config| config.capture.filter = Some("a\nb=".into()), 1);
        assert_eq!(own.difference(&filtered.0), Some("capture.filter"));
        let sampled = of(|config| config.capture.sample = 7, 1);
        assert_eq!(own.difference(&sampled.0), Some("capture.sample"));
        let paper = of(|config| config.sketch.profile = Profile::Paper, 1);
        assert_eq!(own.difference(&paper.0), Some("sketch.profile"));
        assert_eq!(own.difference(""), Some("number of settings"));
    }
}
