//! Sampling: where one packet in so many is stored, and stands for all of them,
//! answers are less sure of themselves than a sketch is.

use std::sync::Arc;

use crane_model::table::Total;
use crane_model::{Amount, Flow};

use crate::tally::{Ignored, Tally};

/// Bytes of the largest frame that most networks carry.
const USUAL_FRAME: u64 = 1514;

/// What is left out of one window.
#[derive(Clone)]
pub struct Sampling {
    /// Each packet stands for this many.
    one_in: u64,
    tally: Arc<Tally>,
    /// Packets that had been left out before any of the window was.
    before: u64,
    /// Packets of the window that the run before left out.
    earlier: u64,
}

impl Sampling {
    /// One packet in so many is stored, `tally` counts the others, of which
    /// `before` cannot belong to the window.
    pub fn new(one_in: u64, tally: Arc<Tally>, before: u64) -> Self {
        Self {
            one_in,
            tally,
            before,
            earlier: 0,
        }
    }

    /// The same of a window that was begun in another run, which left out so many.
    pub fn after(self, earlier: u64) -> Self {
        Self { earlier, ..self }
    }

    /// How many packets may belong to the window and were left out.
    pub fn left_out(&self) -> u64 {
        match self.one_in {
            1 => 0,
            _ => self.earlier + self.tally.ignored(Ignored::Sampled) - self.before,
        }
    }

    /// How many packets each one that is stored stands for.
    pub fn one_in(&self) -> u64 {
        self.one_in
    }

    /// Whether anything is left out.
    pub fn is_sampled(&self) -> bool {
        self.one_in > 1
    }

    /// What a pair has most likely had at most of which no more is stored than this. Of
    /// one with a few packets most likely none was seen.
    pub fn most_unseen(&self, stored: Total) -> Total {
        if !self.is_sampled() {
            return stored;
        }
        let flow = self.honest(Flow {
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

    /// What there is at most: certainly, or most likely where nothing is certain.
    /// Whatever a sample left out may be any pair's, so that there what is certain
    /// says nothing.
    pub fn most_of(&self, amount: &Amount) -> u64 {
        match amount.at_most {
            Some(most) if !self.is_sampled() => most,
            _ => amount.high,
        }
    }

    /// An answer of a sketch, no surer of itself than sampling allows: three
    /// standard deviations to both sides, but no fewer than were seen, and as many
    /// more as may well go unseen. Anything that was left out may have been this
    /// pair's.
    pub fn honest<K>(&self, flow: Flow<K>) -> Flow<K> {
        if !self.is_sampled() {
            return flow;
        }
        let left_out = self.left_out();
        let packets = flow.packets;
        let spread = (packets.estimate.saturating_mul(self.one_in - 1) as f64).sqrt();
        let packets = self.ends(packets, 3.0 * spread, Some(left_out));
        // Packets differ in size: bytes are no surer than packets are.
        let share = spread / flow.packets.estimate.max(1) as f64;
        let mut bytes = self.ends(flow.bytes, 3.0 * share * flow.bytes.estimate as f64, None);
        if bytes.high == 0 {
            // None of them was seen, so nobody knows their size.
            bytes.high = packets.high.saturating_mul(USUAL_FRAME);
        }
        Flow {
            key: flow.key,
            packets,
            bytes,
        }
    }

    /// `amount` as it is stored, each packet as many times as it stands for.
    fn ends(&self, amount: Amount, spread: f64, left_out: Option<u64>) -> Amount {
        let spread = spread.ceil() as u64;
        // Of so many packets one in twenty pairs shows none.
        let unseen = left_out.map_or(0, |left_out| left_out.min(3 * self.one_in));
        let seen = |stored: u64| stored / self.one_in;
        let at_least = amount.at_least.map(seen);
        let at_most = amount.at_most.zip(left_out);
        let at_most = at_most.map(|(most, left_out)| seen(most).saturating_add(left_out));
        // Scaled up, an estimate can be beyond all that was left out.
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
    fn a_sample_makes_answers_less_sure() {
        let tally = Arc::new(Tally::default());
        tally.ignore(Ignored::Sampled, 1_000_000);
        let sampling = Sampling::new(4, Arc::clone(&tally), 900_000);
        let flow = |packets| Flow {
            key: (),
            packets: Amount::exact(packets),
            bytes: Amount::exact(100 * packets),
        };
        let sure = sampling.honest(flow(40_000)).packets;
        assert_eq!(
            (sure.low, sure.estimate, sure.high),
            (38_960, 40_000, 41_040)
        );
        assert_eq!(sure.at_least, Some(10_000), "what was seen");
        assert_eq!(sure.at_most, Some(110_000), "and all that was not");
        let small = sampling.honest(flow(8));
        assert_eq!(
            (small.packets.low, small.packets.high),
            (2, 23),
            "two were seen"
        );
        assert_eq!(
            (small.bytes.at_least, small.bytes.at_most),
            (Some(200), None)
        );
        assert!(small.bytes.low < 800 && small.bytes.high > 800);
        let never = sampling.honest(flow(0));
        assert_eq!((never.bytes.low, never.bytes.high), (0, 12 * 1514));
        let again = Sampling::new(4, Arc::default(), 0).after(sampling.left_out());
        let most = again.honest(flow(0)).packets.at_most;
        assert_eq!(most, Some(100_000), "in the next run as well");
        let never = never.packets;
        assert_eq!(never.at_most, Some(100_000), "no certain no");
        assert_eq!((never.low, never.estimate, never.high), (0, 0, 12));
    }
}
