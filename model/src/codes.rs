//! Codes: numbers derived from ids that say where an edge is stored in one window.
//!
//! An id is a keyed hash of a name ([`crate::secret`]), so ids look random for every
//! stream and star-shaped traffic does not crowd a few cells. Every position in a sketch
//! follows from the id and the number of the window: two edges that collide in one window
//! do not collide in the next.
//!
//! Tables and narrow layers identify an edge by 32 bits of its id, its *tag*. Of D edges
//! about D²/2^33 pairs share their tag and therefore all their cells: one pair in 93,000
//! edges, 120 in a million. The layers cannot tell such edges apart and answer for each
//! of them with the sum of both counts. The position of an edge in the crown is its *spot*.

use crate::name::{AnyName, Name};
use crate::secret::Secret;

/// Makes ids, tags and spots from a secret, for one window.
#[derive(Clone)]
pub struct Codes {
    secret: Secret,
    /// These four keys are derived from the secret and the number of the window.
    tags: u64,
    cells: u64,
    spots: u64,
    sample: u64,
}

impl Codes {
    /// Codes of the window numbered `window`.
    pub fn new(secret: Secret, window: u64) -> Self {
        Self {
            secret,
            tags: secret.derive(window, 1),
            cells: secret.derive(window, 2),
            spots: secret.derive(window, 3),
            sample: secret.derive(window, 4),
        }
    }

    /// The key that cell positions are derived from.
    pub(crate) fn cells(&self) -> u64 {
        self.cells
    }

    /// The seed of the random numbers of a sample.
    pub(crate) fn sample(&self) -> u64 {
        self.sample
    }

    /// Whether the secret may be known to others, see [`Secret::is_public`].
    pub(crate) fn is_public(&self) -> bool {
        self.secret.is_public()
    }

    /// A fingerprint of the secret and the window. A saved state with another fingerprint
    /// is refused.
    pub fn check(&self) -> u64 {
        mix(self.cells, SALT)
    }

    /// The id of a name. It depends on the secret alone.
    #[inline]
    pub fn id<N: Name>(&self, name: &N) -> u64 {
        self.secret.id(name)
    }

    /// The id of a name of either length.
    pub fn id_of_any(&self, name: &AnyName) -> u64 {
        match name {
            AnyName::Narrow(name) => self.id(name),
            AnyName::Wide(name) => self.id(name),
        }
    }

    /// The 32 bits that the table and the layers identify an edge by in this window.
    #[inline]
    pub fn tag(&self, id: u64) -> u32 {
        (mix(id ^ self.tags, ODD) >> 32) as u32
    }

    /// The position of an edge in the crown in this window.
    #[inline]
    pub fn spot(&self, id: u64) -> u64 {
        mix(id ^ self.spots, ODD)
    }
}

/// Changes an input of [`mix`] so that the same number gives a second, independent hash.
pub const SALT: u64 = 0x243f_6a88_85a3_08d3;
/// The usual second argument of [`mix`].
pub const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

/// XOR of the high and the low half of the 128-bit product. One multiplication mixes all
/// bits.
#[inline]
pub fn mix(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product >> 64) as u64 ^ product as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes(seed: u64, window: u64) -> Codes {
        Codes::new(Secret::from_seed(seed), window)
    }

    /// If the seed is known, edges that share all their cells can be found by search, as
    /// in this test. They share them in one window and under one secret only.
    #[test]
    fn edges_with_equal_tags_have_other_tags_in_another_window_or_under_another_secret() {
        let known = codes(1, 5);
        let mut tags: Vec<(u32, u64)> = (0..400_000u64)
            .map(|n| (known.tag(known.id(&[n])), n))
            .collect();
        tags.sort_unstable();
        let twins: Vec<(u64, u64)> = tags
            .windows(2)
            .filter(|pair| pair[0].0 == pair[1].0)
            .map(|pair| (pair[0].1, pair[1].1))
            .collect();
        // 400,000² / 2^33, as the head of this module says.
        assert!((8..35).contains(&twins.len()), "{}", twins.len());
        for other in [codes(1, 6), codes(2, 5)] {
            let meet =
                |(a, b): &(u64, u64)| other.tag(other.id(&[*a])) == other.tag(other.id(&[*b]));
            assert!(!twins.iter().any(meet));
        }
    }
}
