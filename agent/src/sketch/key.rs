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
        Self::with(Self::draw_secret()?)
    }

    /// What a secret can be made of that nobody knows.
    pub fn draw_secret() -> anyhow::Result<[u8; 16]> {
        random()
    }

    /// The one of this secret. Which packets are looked at is drawn anew.
    pub fn with(secret: [u8; 16]) -> anyhow::Result<Self> {
        Ok(Self {
            secret: Secret::new(secret),
            sampling: u64::from_le_bytes(random()?),
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

/// Random bytes, few enough to come all at once.
fn random<const COUNT: usize>() -> anyhow::Result<[u8; COUNT]> {
    const NONE: &str = "the operating system has no random numbers";
    let mut bytes = [0; COUNT];
    let drawn = rustix::rand::getrandom(&mut bytes, GetRandomFlags::empty()).context(NONE)?;
    anyhow::ensure!(drawn == COUNT, NONE);
    Ok(bytes)
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
