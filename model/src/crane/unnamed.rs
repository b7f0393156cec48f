//! What an edge may have had at most that has no name in the crown.
//!
//! An edge without a name was there for the last time when it was not admitted, or
//! it had to make room and has not been back. In either case an upper bound of its
//! packets was known; the largest of all these bounds holds for every edge without
//! a name. Of bytes, what just came is known and no packet before was larger than
//! the largest.

use super::Layered;
use crate::arrival::Arrival;
use crate::crown::{Count, Crown, MOST_BYTES};
use crate::layers::Bounds;
use crate::name::{AnyName, Narrow, Wide};
use crate::sizes::PacketSizes;
use crate::table::Total;

impl Total {
    /// Notes that an edge of the layers, whose packets are at most `bound`, was not
    /// admitted to the crown when it arrived.
    #[inline]
    pub(super) fn note_rejected<N>(
        &mut self,
        arrival: &Arrival<N>,
        bound: u64,
        sizes: &PacketSizes,
    ) {
        let earlier = bound.saturating_sub(arrival.packets);
        self.note_bounds(bound, arrival.bytes, earlier, sizes);
    }

    /// Notes that an edge of the crown had to go.
    pub(super) fn note_gone(&mut self, count: &Count, sizes: &PacketSizes) {
        let bytes = match count.bytes {
            MOST_BYTES => u64::MAX,
            bytes => bytes,
        };
        let earlier = count.bound() - count.counted();
        self.note_bounds(count.bound(), bytes, earlier, sizes);
    }

    /// So many packets at most, of which all but `earlier` have so many bytes.
    #[inline]
    fn note_bounds(&mut self, packets: u64, bytes: u64, earlier: u64, sizes: &PacketSizes) {
        let bytes = bytes.saturating_add(earlier.saturating_mul(sizes.most));
        self.packets = self.packets.max(packets);
        self.bytes = self.bytes.max(bytes);
    }
}

impl Layered {
    /// Packets that an edge may have had that is not in the crown, and bytes. The
    /// largest number where a cell at its limit may stand for any.
    pub(super) fn most_unnamed(&self) -> Total {
        let most = match self.layers.worth() {
            Bounds::Guaranteed if self.layers.is_at_limit(self.unnamed.packets) => Total {
                packets: u64::MAX,
                bytes: u64::MAX,
            },
            Bounds::Guaranteed => self.unnamed,
            Bounds::Likely => self.likely_most_unnamed(),
        };
        // All that the entries have counted is theirs.
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

    /// The same where bounds can be wrong: an edge that is not in the crown did not
    /// outrank the lightest entry of its bucket, whatever of its bound is noise.
    fn likely_most_unnamed(&self) -> Total {
        let entries = || self.crown.entries().map(|(name, _)| name);
        let spots = entries().map(|name| self.codes.spot(self.codes.id_of_any(&name)));
        let is_wide = |name: AnyName| matches!(name, AnyName::Wide(_));
        // A long name has to outrank two entries.
        let lightest = match entries().any(is_wide) {
            true => Crown::lightest::<Wide>,
            false => Crown::lightest::<Narrow>,
        };
        let lightest = spots.map(|spot| lightest(&self.crown, spot)).max();
        let lightest = lightest.unwrap_or(0);
        // Who reaches a higher layer by noise has that of the higher layer.
        let with_noise = |bound| lightest.saturating_add(self.layers.noise(bound).middle);
        let packets = with_noise(with_noise(lightest));
        Total {
            packets,
            bytes: packets.saturating_mul(self.sizes.most),
        }
    }
}
