//! The key that everything random follows from.

use anyhow::Context;
use crane_model::Secret;
use rustix::rand::GetRandomFlags;

/// What everything random follows from.
pub struct Key {
    /// What ids are made with.
    pub secret: Secret,
    /// Which packets are looked at, if not all are.
    pub sampling: u64,
}

impl Key {
    /// One that nobody knows, from the operating system.
    pub fn draw() -> anyhow::Result<Self> {
        let mut bytes = [0; 24];
        // So few bytes come all at once.
        let drawn = rustix::rand::getrandom(&mut bytes, GetRandomFlags::empty());
        let drawn = drawn.context("the operating system has no random numbers")?;
        anyhow::ensure!(
            drawn == bytes.len(),
            "the operating system has no random numbers"
        );
        let (secret, sampling) = bytes.split_at(16);
        Ok(Self {
            secret: Secret::new(secret.try_into()?),
            sampling: u64::from_le_bytes(sampling.try_into()?),
        })
    }

    /// The same for the same seed.
    pub fn of_seed(seed: u64) -> Self {
        Self {
            secret: Secret::from_seed(seed),
            sampling: seed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_agents_draw_the_same_key_and_a_seed_always_gives_the_same() {
        let keys: Vec<Key> = (0..4).map(|_| Key::draw().unwrap()).collect();
        for (at, key) in keys.iter().enumerate() {
            assert!(keys[..at].iter().all(|other| other.secret != key.secret));
            assert!(
                keys[..at]
                    .iter()
                    .all(|other| other.sampling != key.sampling)
            );
        }
        assert!(Key::of_seed(3).secret == Key::of_seed(3).secret);
    }
}
