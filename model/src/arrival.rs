//! Arrivals: the input of a sketch. One arrival holds all packets that an edge has in a
//! batch.

use crate::name::Name;
use crate::secret::Secret;

/// Packets of one edge in a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival<N> {
    /// Name of the edge.
    pub name: N,
    /// The id of the name under the secret of the sketch ([`Secret::id`]).
    pub id: u64,
    /// Number of packets.
    pub packets: u64,
    /// Number of bytes of these packets.
    pub bytes: u64,
}

impl<N: Name> Arrival<N> {
    /// Packets of the edge `name` for a sketch with this secret.
    pub fn new(secret: &Secret, name: N, packets: u64, bytes: u64) -> Self {
        Self {
            name,
            id: secret.id(&name),
            packets,
            bytes,
        }
    }
}
