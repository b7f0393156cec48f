//! Other methods to summarise an edge stream, which Crane is compared with. They are for
//! evaluation only; the agent does not use them.
//!
//! | method | memory is counted as |
//! |---|---|
//! | [`count_min`] | 4 bytes per counter |
//! | [`tcm`] | 4 bytes per cell of its square matrices |
//! | [`gss`] | 7 bytes per room (two fingerprints, indices, weight) |
//! | [`auxo`] | 7 bytes per room, as GSS, and 8 bytes of links for each matrix |
//! | [`exact`] | 16 bytes per edge in a hash table with a load of at most 7/8 |
//! | [`one`] | nothing |

pub mod auxo;
pub mod count_min;
pub mod exact;
pub mod gss;
pub mod one;
pub mod tcm;

use crane_model::{Amount, Edge, Error, Result, Weighted};

/// The role of a node in its edges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeRole {
    /// Edges that start at the node.
    Source,
    /// Edges that end at the node.
    Destination,
}

/// A summary of an edge stream.
pub trait Rival {
    /// Stores arrivals.
    fn store(&mut self, batch: &[Weighted]) -> Result<()>;

    /// The estimate for each edge.
    fn query(&self, edges: &[Edge]) -> Result<Vec<f64>>;

    /// Flux of a node, if the method can answer that by itself.
    fn flux(&self, _node: u32, _role: NodeRole) -> Option<f64> {
        None
    }

    /// Estimates with intervals and guaranteed bounds, if the method has any.
    fn amounts(&self, _edges: &[Edge]) -> Result<Option<Vec<Amount>>> {
        Ok(None)
    }

    /// All edges that the method knows by name, if it knows any.
    fn named(&self) -> Option<Vec<(Edge, Amount)>> {
        None
    }

    /// Bytes of the method's state.
    fn memory_bytes(&self) -> usize;

    /// The state of the method.
    fn save(&self) -> Result<Vec<u8>>;

    /// Continues from a saved state of the same size.
    fn load(&mut self, state: &[u8]) -> Result<()>;
}

/// A 64-bit hash of an edge. Each seed gives another hash function.
pub fn hash(edge: Edge, seed: u64) -> u64 {
    mix((u64::from(edge.src) << 32 | u64::from(edge.dst)) ^ mix(seed))
}

/// A 64-bit hash of a node.
pub fn hash_node(node: u32, seed: u64) -> u64 {
    mix(u64::from(node) ^ mix(seed))
}

/// A bijection of 64 bits in which every input bit changes half of the output bits.
fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Maps a hash evenly to 0..n.
pub(crate) fn reduce(hash: u64, n: usize) -> usize {
    ((u128::from(hash) * n as u128) >> 64) as usize
}

/// Counters as little-endian bytes.
pub(crate) fn to_bytes(counters: &[u32]) -> Vec<u8> {
    counters
        .iter()
        .flat_map(|counter| counter.to_le_bytes())
        .collect()
}

/// Fills `counters` from bytes of exactly their size.
pub(crate) fn from_bytes(counters: &mut [u32], bytes: &[u8]) -> Result<()> {
    let (words, rest) = bytes.as_chunks::<4>();
    if words.len() != counters.len() || !rest.is_empty() {
        let expected = 4 * counters.len();
        return Err(Error::State(format!(
            "it has {} bytes, expected are {expected}",
            bytes.len()
        )));
    }
    for (counter, word) in counters.iter_mut().zip(words) {
        *counter = u32::from_le_bytes(*word);
    }
    Ok(())
}

/// The error for a budget below the smallest size of a method.
pub(crate) fn too_small(bytes: usize, least: usize) -> Error {
    Error::Setting {
        name: "memory",
        value: format!("{bytes} bytes"),
        allowed: format!("{least} bytes or more, for this method"),
    }
}
