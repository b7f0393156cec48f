//! Edges in the form in which the ring stores them.

use crane_model::name::AnyName;

use crate::traffic::edge::Edge;
use crate::traffic::service::{self, Service};

/// An edge in 24 bytes, or one half of an IPv6 edge, which takes two slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Slot([u64; 3]);

/// Set if the edge continues in the next slot.
const CONTINUES: u64 = 1 << 32;
/// Bit offset of the service, after the length.
const SERVICE: u32 = 33;
const _: () = assert!(SERVICE + service::BITS <= u64::BITS);

impl Slot {
    /// Appends an edge.
    #[inline]
    pub fn write(edge: &Edge, slots: &mut Vec<Self>) {
        let head = u64::from(edge.service.code()) << SERVICE | u64::from(edge.bytes);
        match edge.name {
            AnyName::Narrow([name]) => slots.push(Self([head, edge.time, name])),
            AnyName::Wide([first, rest @ ..]) => {
                slots.extend([Self([head | CONTINUES, edge.time, first]), Self(rest)]);
            }
        }
    }

    /// Splits off the first edge. Returns `None` if it is incomplete.
    #[inline]
    pub fn split_first(slots: &[Self]) -> Option<(Edge, &[Self])> {
        let (Self([head, time, first]), mut rest) = slots.split_first()?;
        let name = if head & CONTINUES == 0 {
            AnyName::Narrow([*first])
        } else {
            let (Self([b, c, d]), behind) = rest.split_first()?;
            rest = behind;
            AnyName::Wide([*first, *b, *c, *d])
        };
        let edge = Edge {
            name,
            service: Service::of_code((*head >> SERVICE) as u32),
            bytes: *head as u32,
            time: *time,
        };
        Some((edge, rest))
    }

    /// Returns all complete edges.
    pub fn edges(mut slots: &[Self]) -> impl Iterator<Item = Edge> {
        std::iter::from_fn(move || {
            let (edge, rest) = Self::split_first(slots)?;
            slots = rest;
            Some(edge)
        })
    }

    /// Returns how many of the first `most` slots hold complete edges.
    pub fn whole(slots: &[Self], most: usize) -> usize {
        let mut rest = slots;
        while let Some((_, behind)) = Self::split_first(rest) {
            if slots.len() - behind.len() > most {
                break;
            }
            rest = behind;
        }
        slots.len() - rest.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::edge::tests::pairs;

    #[test]
    fn edges_of_both_ip_versions_are_written_and_read_whole() {
        assert_eq!(size_of::<Slot>(), 24);
        let edges = pairs().map(|pair| Edge {
            name: pair.name(),
            service: Service::FRAGMENT,
            bytes: u32::MAX,
            time: u64::MAX,
        });
        let mut slots = Vec::new();
        edges.iter().for_each(|edge| Slot::write(edge, &mut slots));
        assert_eq!(slots.len(), 6);
        assert!(Slot::edges(&slots).eq(edges));
        let whole = [0, 1, 1, 3, 4, 4, 6];
        for (most, whole) in whole.into_iter().enumerate() {
            assert_eq!(Slot::whole(&slots, most), whole, "of {most}");
            assert_eq!(Slot::whole(&slots[..most], 9), whole, "in {most}");
        }
    }
}
