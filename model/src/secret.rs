//! The secret: a key of 128 bits that all positions in a sketch depend on.
//!
//! Ids are SipHash-1-3 of names. Without the secret, names whose ids collide cannot be
//! chosen, even after seeing answers of the sketch. SipHash was chosen by measurement: it
//! needs no special instructions, and hashing eight ids at a time takes about as long as
//! a single hash of a kind without this protection (docs/speed.md).

use multiversion::multiversion;

use crate::name::{AnyName, Name, Narrow, Wide};

/// A key of 128 bits. Anyone who has it can choose edges that collide, so it should not
/// be disclosed. `Debug` does not show it.
///
/// ```
/// use crane_model::Secret;
///
/// let secret = Secret::new([7; 16]);
/// assert_eq!(secret.id(&[1]), secret.id(&[1]));
/// assert!(!secret.is_public());
/// // Reproducible, so anyone who knows the seed knows the key.
/// assert!(Secret::from_seed(1).is_public());
/// assert_eq!(format!("{secret:?}"), "Secret(…)");
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret {
    key: [u64; 2],
    /// Whether the key was derived from a seed, which others may know.
    public: bool,
}

/// Ids that are computed at the same time.
const LANES: usize = 8;

impl Secret {
    /// The secret with these bytes, which should come from the random number generator of
    /// the operating system.
    pub fn new(bytes: [u8; 16]) -> Self {
        let key = u128::from_le_bytes(bytes);
        Self {
            key: [key as u64, (key >> 64) as u64],
            public: false,
        }
    }

    /// A secret that is derived from a seed. It makes results reproducible and protects
    /// against nothing.
    pub fn from_seed(seed: u64) -> Self {
        let open = [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344];
        Self {
            key: [hash(open, &[seed, 1]), hash(open, &[seed, 2])],
            public: true,
        }
    }

    /// Whether the key was derived from a seed. With the seed, two names with the same id
    /// can be found by search, so equal ids do not prove equal names.
    pub fn is_public(&self) -> bool {
        self.public
    }

    /// The id of a name. It depends on the secret but not on the window.
    #[inline]
    pub fn id<N: Name>(&self, name: &N) -> u64 {
        match name.any() {
            AnyName::Narrow(name) => hash(self.key, &name),
            AnyName::Wide(name) => hash(self.key, &name),
        }
    }

    /// The ids of many short names. Replaces the contents of `ids`.
    pub fn ids_narrow(&self, names: &[Narrow], ids: &mut Vec<u64>) {
        ids.clear();
        ids.resize(names.len(), 0);
        hash_narrow(self.key, names, ids);
    }

    /// The ids of many long names. Replaces the contents of `ids`.
    pub fn ids_wide(&self, names: &[Wide], ids: &mut Vec<u64>) {
        ids.clear();
        ids.resize(names.len(), 0);
        hash_wide(self.key, names, ids);
    }

    /// A further secret number for a purpose. It is the hash of 16 bytes, while names
    /// have 8 or 32 bytes, so it is independent of all ids.
    pub(crate) fn derive(&self, number: u64, purpose: u64) -> u64 {
        hash(self.key, &[number, purpose])
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[multiversion(targets("x86_64+avx512f+avx512vl+avx512dq", "x86_64+avx2"))]
fn hash_narrow(key: [u64; 2], names: &[Narrow], ids: &mut [u64]) {
    hash_all(key, names, ids);
}

#[multiversion(targets("x86_64+avx512f+avx512vl+avx512dq", "x86_64+avx2"))]
fn hash_wide(key: [u64; 2], names: &[Wide], ids: &mut [u64]) {
    hash_all(key, names, ids);
}

#[inline(always)]
fn hash_all<const WORDS: usize>(key: [u64; 2], names: &[[u64; WORDS]], ids: &mut [u64]) {
    let (groups, rest) = names.as_chunks::<LANES>();
    let (into, last) = ids.as_chunks_mut::<LANES>();
    for (names, ids) in groups.iter().zip(into) {
        *ids = sip::<WORDS, LANES>(key, std::array::from_fn(|at| names.map(|name| name[at])));
    }
    for (name, id) in rest.iter().zip(last) {
        *id = hash(key, name);
    }
}

#[inline(always)]
fn hash<const WORDS: usize>(key: [u64; 2], words: &[u64; WORDS]) -> u64 {
    let [id] = sip(key, words.map(|word| [word]));
    id
}

/// SipHash-1-3 of `N` messages of `WORDS` words at the same time.
#[inline(always)]
fn sip<const WORDS: usize, const N: usize>(key: [u64; 2], words: [[u64; N]; WORDS]) -> [u64; N] {
    let mut state = [
        [key[0] ^ 0x736f_6d65_7073_6575; N],
        [key[1] ^ 0x646f_7261_6e64_6f6d; N],
        [key[0] ^ 0x6c79_6765_6e65_7261; N],
        [key[1] ^ 0x7465_6462_7974_6573; N],
    ];
    let length = [(8 * WORDS as u64) << 56; N];
    for word in words.into_iter().chain([length]) {
        each(&mut state[3], &word, |v, word| v ^ word);
        round(&mut state);
        each(&mut state[0], &word, |v, word| v ^ word);
    }
    each(&mut state[2], &[0xff; N], |v, end| v ^ end);
    for _ in 0..3 {
        round(&mut state);
    }
    let [mut a, b, c, d] = state;
    for other in [b, c, d] {
        each(&mut a, &other, |x, y| x ^ y);
    }
    a
}

#[inline(always)]
fn round<const N: usize>([a, b, c, d]: &mut [[u64; N]; 4]) {
    let turned_xor = |turn: u32| move |x: u64, y: u64| x.rotate_left(turn) ^ y;
    each(a, b, u64::wrapping_add);
    each(b, a, turned_xor(13));
    turn(a);
    each(c, d, u64::wrapping_add);
    each(d, c, turned_xor(16));
    each(a, d, u64::wrapping_add);
    each(d, a, turned_xor(21));
    each(c, b, u64::wrapping_add);
    each(b, c, turned_xor(17));
    turn(c);
}

#[inline(always)]
fn each<const N: usize>(into: &mut [u64; N], from: &[u64; N], with: impl Fn(u64, u64) -> u64) {
    for (into, from) in into.iter_mut().zip(from) {
        *into = with(*into, *from);
    }
}

#[inline(always)]
fn turn<const N: usize>(words: &mut [u64; N]) {
    for word in words {
        *word = word.rotate_left(32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hash::Hasher;

    /// The standard library's hasher is SipHash-1-3 with a key of zeros.
    #[test]
    fn ids_are_siphash() {
        let none = Secret::new([0; 16]);
        for n in 0..50u64 {
            let wide = [n, !n, n << 7, 3];
            for words in [&[n][..], &wide, &[n, 7]] {
                #[allow(deprecated)]
                let mut reference = std::collections::hash_map::DefaultHasher::new();
                let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
                reference.write(&bytes);
                let id = match words.len() {
                    1 => none.id(&[n]),
                    2 => none.derive(n, 7),
                    _ => none.id(&wide),
                };
                assert_eq!(id, reference.finish());
            }
        }
    }

    #[test]
    fn ids_of_many_names_equal_those_of_single_names() {
        let secret = Secret::from_seed(3);
        for count in [0, 1, 7, 8, 9, 100] {
            let narrow: Vec<Narrow> = (0..count).map(|n| [n * 77]).collect();
            let wide: Vec<Wide> = (0..count).map(|n| [n, 1, n * n, 9]).collect();
            let mut ids = Vec::new();
            secret.ids_narrow(&narrow, &mut ids);
            assert!(
                narrow
                    .iter()
                    .map(|name| secret.id(name))
                    .eq(ids.iter().copied())
            );
            secret.ids_wide(&wide, &mut ids);
            assert!(
                wide.iter()
                    .map(|name| secret.id(name))
                    .eq(ids.iter().copied())
            );
        }
    }

    #[test]
    fn ids_differ_for_every_seed_and_key_and_debug_hides_the_key() {
        let name = [7];
        let of = |seed| Secret::from_seed(seed).id(&name);
        assert!(of(1) != of(2) && of(1) == of(1));
        let mut key = [9; 16];
        let one = Secret::new(key);
        key[15] ^= 1;
        assert_ne!(one.id(&name), Secret::new(key).id(&name));
        assert_eq!(format!("{one:?}"), "Secret(…)");
        assert!(Secret::from_seed(1).is_public() && !one.is_public());
    }
}
