//! Upper bounds for edges that have no entry in the crown.
//!
//! When an edge without an entry arrived for the last time, it was either not admitted,
//! or it was admitted and later evicted. At that moment an upper bound of its packets was
//! known; the maximum of all these bounds holds for every edge without an entry. For
//! bytes, the size of the last arrival is known and no earlier packet was larger than the
//! largest packet.
//!
//! A caller may know further names and ask for their counts. For all remaining edges the
//! largest cell that belongs to no known edge is an upper bound that is likely to hold.

use super::Layered;
use crate::Result;
use crate::arrival::Arrival;
use crate::crown::{Count, Crown, MOST_BYTES};
use crate::layers::BoundsKind;
use crate::name::{AnyName, Narrow, Wide};
use crate::sizes::PacketSizes;
use crate::table::Total;

impl Total {
    /// Raises the bounds for an edge that arrived and was not admitted to the crown; the
    /// layers give the upper bound `bound` for its packets.
    #[inline]
    pub(super) fn raise_for_rejected<N>(
        &mut self,
        arrival: &Arrival<N>,
        bound: u64,
        sizes: &PacketSizes,
    ) {
        let earlier = bound.saturating_sub(arrival.packets);
        self.raise_to(bound, arrival.bytes, earlier, sizes);
    }

    /// Raises the bounds for an edge that was evicted from the crown.
    pub(super) fn raise_for_evicted(&mut self, count: &Count, sizes: &PacketSizes) {
        let bytes = match count.bytes {
            MOST_BYTES => u64::MAX,
            bytes => bytes,
        };
        let earlier = count.bound() - count.counted();
        self.raise_to(count.bound(), bytes, earlier, sizes);
    }

    /// Raises the bounds to those of an edge with at most `packets` packets. `bytes` is
    /// known for all but `earlier` of them.
    #[inline]
    fn raise_to(&mut self, packets: u64, bytes: u64, earlier: u64, sizes: &PacketSizes) {
        let bytes = bytes.saturating_add(earlier.saturating_mul(sizes.most));
        self.packets = self.packets.max(packets);
        self.bytes = self.bytes.max(bytes);
    }
}

impl Layered {
    /// Upper bounds of the packets and bytes of an edge without an entry in the crown.
    /// `u64::MAX` if a cell is at its limit, because such a cell may stand for any count.
    pub(super) fn most_unnamed(&self) -> Total {
        let most = match self.layers.bounds_kind() {
            BoundsKind::Guaranteed if self.layers.is_at_limit(self.unnamed.packets) => Total {
                packets: u64::MAX,
                bytes: u64::MAX,
            },
            BoundsKind::Guaranteed => self.unnamed,
            BoundsKind::Likely => self.likely_most_unnamed(),
        };
        // Packets that the entries have counted belong to no other edge.
        let counted = |(packets, bytes): (u64, u64), (_, count): (AnyName, Count)| {
            let packets = packets.saturating_add(count.counted());
            (packets, bytes.saturating_add(count.bytes))
        };
        let (packets, bytes) = self.crown.entries().fold((0, 0), counted);
        Total {
            packets: most.packets.min(self.total.packets.saturating_sub(packets)),
            bytes: most.bytes.min(self.total.bytes.saturating_sub(bytes)),
        }
    }

    /// Upper bound of the packets of an edge that is neither in the crown nor among
    /// `known`. The bound fails for an edge all of whose cells belong to known edges: if
    /// known edges occupy a share s of the cells of a layer, that is true for s³ of all
    /// other edges.
    pub(super) fn most_unknown(&self, known: &[AnyName]) -> Result<u64> {
        let crowned = self.crown.entries().map(|(name, _)| name);
        let names = crowned.chain(known.iter().copied());
        let ids: Vec<u64> = names.map(|name| self.codes.id_of_any(&name)).collect();
        let bound = self.layers.largest_bound_besides(&ids)?;
        let most = self.most_unnamed().packets;
        Ok(bound.map_or(most, |bound| bound.min(most)))
    }

    /// The same for layers whose bounds may be wrong: an edge without an entry has not
    /// outranked the lightest entry that it may replace, apart from packets that were
    /// taken for noise.
    fn likely_most_unnamed(&self) -> Total {
        let entries = || self.crown.entries().map(|(name, _)| name);
        let spots = entries().map(|name| self.codes.spot(self.codes.id_of_any(&name)));
        let is_wide = |name: AnyName| matches!(name, AnyName::Wide(_));
        // A long name takes the place of two entries and has to outrank both.
        let lightest = match entries().any(is_wide) {
            true => Crown::lightest::<Wide>,
            false => Crown::lightest::<Narrow>,
        };
        let lightest = spots.map(|spot| lightest(&self.crown, spot)).max();
        let lightest = lightest.unwrap_or(0);
        // An edge that reaches a higher layer because of noise is also subject to the
        // noise of that layer.
        let with_noise = |bound| lightest.saturating_add(self.layers.noise(bound).middle);
        let packets = with_noise(with_noise(lightest));
        Total {
            packets,
            bytes: packets.saturating_mul(self.sizes.most),
        }
    }
}
