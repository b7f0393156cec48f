//! Packet sizes, from which the bytes of edges in the layers are derived. The layers
//! count packets only.
//!
//! The smallest and the largest mean size of all arrivals are guaranteed bounds. The likely
//! sizes between them are learnt from the witnesses: bytes per packet *as estimated by
//! the layers*, so that errors of the layers are compensated. Edges with many packets
//! have other sizes than edges with few, therefore the sizes are learnt from the
//! witnesses with the nearest estimates.

/// The smallest and the largest mean packet size of all arrivals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketSizes {
    /// No arrival had fewer bytes per packet.
    pub least: u64,
    /// No arrival had more bytes per packet.
    pub most: u64,
}

impl PacketSizes {
    /// The value before anything was stored.
    pub const NONE: Self = Self {
        least: u64::MAX,
        most: 0,
    };

    /// Takes an arrival into account.
    #[inline]
    pub fn record(&mut self, packets: u64, bytes: u64) {
        // Nearly all arrivals are one packet of a size within the present range.
        if packets != 1 || bytes < self.least || bytes > self.most {
            self.widen(packets.max(1), bytes);
        }
    }

    fn widen(&mut self, packets: u64, bytes: u64) {
        self.least = self.least.min(bytes / packets);
        self.most = self.most.max(bytes.div_ceil(packets));
    }

    /// The bytes that so many packets have at least and at most.
    pub fn ends(&self, at_least: u64, at_most: Option<u64>) -> (u64, Option<u64>) {
        let least = match self.least {
            u64::MAX => 0,
            least => least.saturating_mul(at_least),
        };
        (least, at_most.and_then(|most| most.checked_mul(self.most)))
    }
}

/// A witness: the packets that the layers estimate, and its exact bytes.
pub type SizedWitness = (u64, u64);

/// Quantiles of the bytes per estimated packet.
#[derive(Debug, Clone, Copy)]
pub struct BytesPerPacket {
    /// At most one edge in twenty has fewer.
    pub low: f64,
    /// The median.
    pub middle: f64,
    /// At most one edge in twenty has more.
    pub high: f64,
}

/// Step of the grid of estimates, in ln(1 + packets).
const STEP: f64 = 0.25;
const STEPS: usize = 96;

/// Share of the witnesses beyond each end. Below 5 %, because a few dozen witnesses show
/// the distribution only roughly.
const OUTSIDE: f64 = 0.03;

/// With this many witnesses the ends are moved outwards by a factor of two; with more
/// witnesses by less.
const FEW: f64 = 16.0;

/// At least this many witnesses are used for a point of the grid.
const NEAREST: usize = 96;

/// Learnt packet sizes, by the estimated number of packets.
pub struct LearntSizes(Vec<BytesPerPacket>);

impl LearntSizes {
    /// Learns from witnesses. If there are none, the range of all stored sizes is used.
    pub fn new(mut witnesses: Vec<SizedWitness>, packets: PacketSizes) -> Self {
        if witnesses.is_empty() {
            let (low, high) = (packets.least.min(packets.most) as f64, packets.most as f64);
            return Self(vec![BytesPerPacket {
                low,
                middle: (low * high).sqrt(),
                high,
            }]);
        }
        witnesses.sort_unstable();
        let at = |step: usize| {
            let near = near(&witnesses, (step as f64 * STEP).exp_m1());
            let mut sizes: Vec<f64> = near
                .iter()
                .map(|(packets, bytes)| *bytes as f64 / (*packets).max(1) as f64)
                .collect();
            sizes.sort_unstable_by(f64::total_cmp);
            let rank = |share: f64| share * (sizes.len() + 1) as f64;
            let at_rank = |rank: f64| sizes[(rank as usize).clamp(1, sizes.len()) - 1];
            // A small sample does not contain the extremes.
            let beyond = 1.0 + FEW / sizes.len() as f64;
            BytesPerPacket {
                low: at_rank(rank(OUTSIDE).floor()) / beyond,
                middle: at_rank(rank(0.5).round()),
                high: at_rank(rank(1.0 - OUTSIDE).ceil()) * beyond,
            }
        };
        Self((0..STEPS).map(at).collect())
    }

    /// Bytes per packet of an edge for which the layers estimate so many packets.
    pub fn of(&self, packets: u64) -> BytesPerPacket {
        let step = ((packets as f64).ln_1p() / STEP).round() as usize;
        self.0[step.min(self.0.len() - 1)]
    }
}

/// The witnesses nearest to an estimate.
fn near(witnesses: &[SizedWitness], packets: f64) -> &[SizedWitness] {
    let ln = |(packets, _): &SizedWitness| (*packets as f64).ln_1p();
    let here = packets.ln_1p();
    let (mut first, mut last) = (
        witnesses.partition_point(|w| ln(w) < here - STEP / 2.0),
        witnesses.partition_point(|w| ln(w) <= here + STEP / 2.0),
    );
    while last - first < NEAREST.min(witnesses.len()) {
        let below = first.checked_sub(1).map(|at| here - ln(&witnesses[at]));
        let above = witnesses.get(last).map(|w| ln(w) - here);
        match (below, above) {
            (Some(below), Some(above)) if below <= above => first -= 1,
            (Some(_), None) => first -= 1,
            _ => last += 1,
        }
    }
    &witnesses[first..last]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_edge_is_outside_of_the_smallest_and_largest_mean() {
        let mut sizes = PacketSizes::NONE;
        assert_eq!(sizes.ends(0, Some(0)), (0, Some(0)));
        for (packets, bytes) in [(3, 200), (1, 60), (2, 3000), (7, 700)] {
            sizes.record(packets, bytes);
        }
        assert_eq!((sizes.least, sizes.most), (60, 1500));
        assert_eq!(sizes.ends(2, Some(5)), (120, Some(7500)));
        assert_eq!(sizes.ends(2, None), (120, None));
        sizes.record(3, 100);
        assert_eq!(sizes.least, 33, "rounded down; the upper end is rounded up");
    }

    #[test]
    fn edges_with_many_packets_have_other_sizes_than_edges_with_few() {
        let light = (0..300).map(|n| (1, 60 + n % 10));
        let heavy = (0..100).map(|n| (500 + n, (500 + n) * 1400));
        let sizes = LearntSizes::new(light.chain(heavy).collect(), PacketSizes::NONE);
        let (one, many) = (sizes.of(1), sizes.of(550));
        assert!((50.0..70.0).contains(&one.low) && (60.0..80.0).contains(&one.high));
        assert_eq!(many.middle, 1400.0);
        assert!((1100.0..1400.0).contains(&many.low) && (1400.0..1700.0).contains(&many.high));
        assert_eq!(sizes.of(u64::MAX).middle, 1400.0);
    }

    #[test]
    fn without_witnesses_the_range_of_all_stored_sizes_is_used() {
        let mut packets = PacketSizes::NONE;
        packets.record(1, 100);
        packets.record(1, 900);
        let sizes = LearntSizes::new(Vec::new(), packets).of(7);
        assert_eq!((sizes.low, sizes.middle, sizes.high), (100.0, 300.0, 900.0));
    }
}
