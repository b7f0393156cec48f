//! The key from which all randomness of the agent is derived.

use anyhow::Context;
use crane_model::Secret;
use rustix::rand::GetRandomFlags;

pub struct Key {
    /// Secret from which ids are made.
    pub secret: Secret,
    /// Seed that selects the packets of a sample.
    pub sampling: u64,
}

impl Key {
    /// A random key from the operating system.
    pub fn random() -> anyhow::Result<Self> {
        Self::with(Self::random_secret()?)
    }

    /// Random bytes for a secret.
    pub fn random_secret() -> anyhow::Result<[u8; 16]> {
        random()
    }

    /// A key with this secret. The seed of the sample is random.
    pub fn with(secret: [u8; 16]) -> anyhow::Result<Self> {
        Ok(Self {
            secret: Secret::new(secret),
            sampling: u64::from_le_bytes(random()?),
        })
    }

    /// The same key for the same seed.
    pub fn of_seed(seed: u64) -> Self {
        Self {
            secret: Secret::from_seed(seed),
            sampling: seed,
        }
    }
}

/// Random bytes from the operating system. `COUNT` is small enough to get all of them at once.
fn random<const COUNT: usize>() -> anyhow::Result<[u8; COUNT]> {
    const NONE: &str = "the operating system has no random numbers";
    let mut bytes = [0; COUNT];
    let count = rustix::rand::getrandom(&mut bytes, GetRandomFlags::empty()).context(NONE)?;
    anyhow::ensure!(count == COUNT, NONE);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_keys_differ_and_a_seed_always_gives_the_same_key() {
        let keys: Vec<Key> = (0..4).map(|_| Key::random().unwrap()).collect();
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
