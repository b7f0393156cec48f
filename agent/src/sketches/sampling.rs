//! Sampling: only one packet in `one_in` is stored, so answers are less certain than those of a
//! sketch of all packets.

use std::sync::Arc;

use crane_model::table::Total;
use crane_model::{Amount, Flow};

use crate::traffic::tally::{Ignored, Tally};

/// Bytes of the largest frame in most networks.
const USUAL_FRAME: u64 = 1514;

/// The sampling of one window.
#[derive(Clone)]
pub struct Sampling {
    /// Number of packets that each stored packet stands for.
    one_in: u64,
    unsampled: Unsampled,
}

/// Number of packets that may belong to the window and were not sampled.
#[derive(Clone)]
enum Unsampled {
    /// The window is being filled.
    Counting {
        tally: Arc<Tally>,
        /// The counter before any packet of the window was skipped.
        before: u64,
        /// Packets of the window that were skipped in the previous run.
        earlier: u64,
    },
    /// The window is over.
    Counted(u64),
}

impl Sampling {
    /// One packet in `one_in` is stored. `tally` counts the others; the first `before` of these
    /// cannot belong to the window.
    pub fn new(one_in: u64, tally: Arc<Tally>, before: u64) -> Self {
        Self {
            one_in,
            unsampled: Unsampled::Counting {
                tally,
                before,
                earlier: 0,
            },
        }
    }

    /// Every packet is stored.
    pub fn none() -> Self {
        Self {
            one_in: 1,
            unsampled: Unsampled::Counted(0),
        }
    }

    /// The same for a window that was begun in another run, in which this many packets were
    /// skipped.
    pub fn after(mut self, unsampled: u64) -> Self {
        if let Unsampled::Counting { earlier, .. } = &mut self.unsampled {
            *earlier = unsampled;
        }
        self
    }

    /// Ends the window: packets that are skipped from now on do not belong to it.
    pub fn freeze(&mut self) {
        self.unsampled = Unsampled::Counted(self.unsampled());
    }

    /// Number of packets that may belong to the window and were not sampled.
    pub fn unsampled(&self) -> u64 {
        match &self.unsampled {
            _ if self.one_in == 1 => 0,
            Unsampled::Counted(unsampled) => *unsampled,
            Unsampled::Counting {
                tally,
                before,
                earlier,
            } => earlier + tally.ignored(Ignored::Sampled) - before,
        }
    }

    /// Number of packets that each stored packet stands for.
    pub fn one_in(&self) -> u64 {
        self.one_in
    }

    pub fn is_sampled(&self) -> bool {
        self.one_in > 1
    }

    /// The probable upper bound of the traffic of a pair if at most `stored` of it is stored. Even
    /// a pair of which nothing is stored may have had a few packets.
    pub fn most_unseen(&self, stored: Total) -> Total {
        if !self.is_sampled() {
            return stored;
        }
        let flow = self.widened(Flow {
            key: (),
            packets: Amount::exact(stored.packets),
            bytes: Amount::exact(stored.bytes),
        });
        let unseen = 5 * self.one_in;
        Total {
            packets: flow.packets.high.max(unseen),
            bytes: flow.bytes.high.max(unseen * USUAL_FRAME),
        }
    }

    /// The upper bound of an amount: the guaranteed one, or that of the 90 % interval if nothing is
    /// guaranteed. In a sample any packet that was skipped may belong to any pair, so the
    /// guaranteed bound is too large to be useful.
    pub fn most_of(&self, amount: &Amount) -> u64 {
        match amount.at_most {
            Some(most) if !self.is_sampled() => most,
            _ => amount.high,
        }
    }

    /// Widens an answer of a sketch by the uncertainty of sampling: three standard deviations to
    /// both sides, but not below the stored packets, and upwards at least the number of packets
    /// that is probably missed. The guaranteed upper bound includes every packet that was skipped.
    pub fn widened<K>(&self, flow: Flow<K>) -> Flow<K> {
        if !self.is_sampled() {
            return flow;
        }
        let unsampled = self.unsampled();
        let packets = flow.packets;
        let spread = (packets.estimate.saturating_mul(self.one_in - 1) as f64).sqrt();
        let packets = self.widen(packets, 3.0 * spread, Some(unsampled));
        // Packets differ in size, so bytes are at least as uncertain as packets.
        let share = spread / flow.packets.estimate.max(1) as f64;
        let mut bytes = self.widen(flow.bytes, 3.0 * share * flow.bytes.estimate as f64, None);
        if bytes.high == 0 {
            // No packet was stored, so their size is not known.
            bytes.high = packets.high.saturating_mul(USUAL_FRAME);
        }
        Flow {
            key: flow.key,
            packets,
            bytes,
        }
    }

    /// Widens the bounds of one amount, which is already multiplied by `one_in`.
    fn widen(&self, amount: Amount, spread: f64, unsampled: Option<u64>) -> Amount {
        let spread = spread.ceil() as u64;
        // Of pairs with this many packets, one in twenty has none in the sample.
        let unseen = unsampled.map_or(0, |unsampled| unsampled.min(3 * self.one_in));
        let seen = |stored: u64| stored / self.one_in;
        let at_least = amount.at_least.map(seen);
        let at_most = amount.at_most.zip(unsampled);
        let at_most = at_most.map(|(most, unsampled)| seen(most).saturating_add(unsampled));
        // A scaled estimate may exceed the number of packets that were skipped.
        let likely = [
            amount.low.saturating_sub(spread).max(seen(amount.low)),
            amount.estimate,
            amount.high.saturating_add(spread.max(unseen)),
        ];
        Amount::within((at_least, at_most), likely)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sampling_widens_intervals_and_bounds() {
        let tally = Arc::new(Tally::default());
        tally.ignore(Ignored::Sampled, 1_000_000);
        let sampling = Sampling::new(4, Arc::clone(&tally), 900_000);
        let flow = |packets| Flow {
            key: (),
            packets: Amount::exact(packets),
            bytes: Amount::exact(100 * packets),
        };
        let sure = sampling.widened(flow(40_000)).packets;
        assert_eq!(
            (sure.low, sure.estimate, sure.high),
            (38_960, 40_000, 41_040)
        );
        assert_eq!(sure.at_least, Some(10_000), "packets in the sample");
        assert_eq!(
            sure.at_most,
            Some(110_000),
            "all skipped packets in addition"
        );
        let small = sampling.widened(flow(8));
        assert_eq!(
            (small.packets.low, small.packets.high),
            (2, 23),
            "two packets in the sample"
        );
        assert_eq!(
            (small.bytes.at_least, small.bytes.at_most),
            (Some(200), None)
        );
        assert!(small.bytes.low < 800 && small.bytes.high > 800);
        let never = sampling.widened(flow(0));
        assert_eq!((never.bytes.low, never.bytes.high), (0, 12 * 1514));
        let again = Sampling::new(4, Arc::default(), 0).after(sampling.unsampled());
        let most = again.widened(flow(0)).packets.at_most;
        assert_eq!(most, Some(100_000), "in the next run as well");
        let mut over = sampling.clone();
        over.freeze();
        tally.ignore(Ignored::Sampled, 1_000_000);
        assert_eq!(
            over.unsampled(),
            100_000,
            "packets skipped later do not belong to the window"
        );
        let never = never.packets;
        assert_eq!(
            never.at_most,
            Some(100_000),
            "packets may be missed even if none is stored"
        );
        assert_eq!((never.low, never.estimate, never.high), (0, 0, 12));
    }
}
