//! Arrivals: what reaches a sketch, folded and with ids.

use crate::name::Name;
use crate::secret::Secret;

/// Packets of one edge in a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival<N> {
    /// Name of the edge.
    pub name: N,
    /// What the sketch's own secret makes of the name.
    pub id: u64,
    /// How many packets.
    pub packets: u64,
    /// How many bytes they have together.
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
