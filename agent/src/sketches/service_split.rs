//! The recorded packets of pairs, divided into the services that a question is about and the
//! others.
//!
//! For a pair, these services had at least what was counted for them, and at most the upper
//! bound of the pair minus the lower bound of the others. Packets of the pair that were not
//! recorded may belong to any service.

use crane_model::table::Total;
use crane_model::{Amount, Flow};

use super::pair_services::{Known, Record};
use crate::traffic::service::filter::ServiceFilter;

/// The recorded packets of one or more pairs, divided by services.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Split {
    /// Lower bound of the traffic of these services.
    pub matched: Total,
    /// Lower bound of the traffic of other services.
    pub others: Total,
    /// Packets that were recorded.
    recorded: u64,
    /// Upper bound of the packets that were recorded for these services. `None` if only the packets
    /// of other services limit them.
    most: Option<u64>,
    /// Whether all bytes of all entries were counted.
    is_whole: bool,
}

pub(super) fn plus(one: Total, other: Total) -> Total {
    Total {
        packets: one.packets.saturating_add(other.packets),
        bytes: one.bytes.saturating_add(other.bytes),
    }
}

pub(super) fn minus(one: Total, other: Total) -> Total {
    Total {
        packets: one.packets.saturating_sub(other.packets),
        bytes: one.bytes.saturating_sub(other.bytes),
    }
}

pub(super) fn counted(known: &Known) -> Total {
    Total {
        packets: known.counted(),
        bytes: known.bytes,
    }
}

impl Split {
    pub(super) fn new(record: &Record, filter: &ServiceFilter) -> Self {
        let mut split = Self {
            recorded: record.packets(),
            is_whole: record.services().all(Known::has_all_bytes),
            ..Self::default()
        };
        let (mut most, mut listed) = (0u64, 0);
        for known in record.services() {
            let side = if filter.matches(known.service) {
                most = most.saturating_add(known.packets);
                listed += 1;
                &mut split.matched
            } else {
                &mut split.others
            };
            *side = plus(*side, counted(known));
        }
        let unlisted = filter.count().saturating_sub(listed);
        split.most = Some(most.saturating_add(unlisted.saturating_mul(record.unlisted())));
        split
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.matched = plus(self.matched, other.matched);
        self.others = plus(self.others, other.others);
        self.recorded = self.recorded.saturating_add(other.recorded);
    }

    /// The part of these services in `flow`, which is the traffic of the same pairs. `share` is the
    /// estimate of their part in packets that were not recorded.
    pub(super) fn of<K>(&self, flow: &Flow<K>, share: f64) -> Flow<()> {
        let (packets, bytes) = (flow.packets, flow.bytes);
        let least_matched = certain(self.matched.packets, self.recorded, &packets);
        let most = |all: u64| {
            let rest = all.saturating_sub(self.others.packets);
            let recorded = self
                .most
                .map(|most| most.saturating_add(all.saturating_sub(self.recorded)));
            recorded.map_or(rest, |recorded| recorded.min(rest))
        };
        let ends = (
            packets.at_least.map(|_| least_matched),
            packets.at_most.map(most),
        );
        let unrecorded = packets.estimate.saturating_sub(self.recorded);
        let likely = (unrecorded as f64 * share) as u64;
        let counted = part_of(packets.estimate, self.matched.packets, self.recorded);
        let estimate = counted.saturating_add(likely);
        let own = Amount::within(ends, [least_matched, estimate, most(packets.high)]);

        let (own_bytes, others) = (self.matched.bytes, self.others.bytes);
        let known = own_bytes.saturating_add(others);
        let least = certain(own_bytes, known, &bytes);
        let counted = self.matched.packets.saturating_add(self.others.packets);
        let uncertain = packets.estimate.saturating_sub(counted).max(1);
        let part = (unrecorded as f64 / uncertain as f64).min(1.0) * share;
        let likely = (bytes.estimate.saturating_sub(known) as f64 * part) as u64;
        let estimate = part_of(bytes.estimate, own_bytes, known).saturating_add(likely);
        let most = |all: u64| all.saturating_sub(others);
        let ends = |at_most| (bytes.at_least.map(|_| least), at_most);
        let bytes = match own.at_most {
            Some(0) => Amount::exact(0),
            // All packets of these services were counted, and so were their bytes.
            _ if own.is_exact() && self.is_whole && own.estimate == self.matched.packets => {
                Amount::within(ends(bytes.at_most.map(|_| own_bytes)), [own_bytes; 3])
            }
            at_most => {
                let high = if own.high == 0 { 0 } else { most(bytes.high) };
                let at_most = bytes.at_most.filter(|_| at_most.is_some()).map(most);
                Amount::within(ends(at_most), [least, estimate, high])
            }
        };
        Flow {
            key: (),
            packets: own,
            bytes,
        }
    }
}

/// Lower bound for a part with `counted` of the `recorded` packets of a whole. The lower bound of
/// the whole, `all`, may be less than `recorded`: the crown rounds its counts down, and the sketch
/// of an address may have a lower bound below the sum of its pairs. The difference is subtracted,
/// so that the bounds of all parts do not add up to more than that of the whole.
fn certain(counted: u64, recorded: u64, all: &Amount) -> u64 {
    counted.saturating_sub(recorded.saturating_sub(all.at_least.unwrap_or(0)))
}

/// The same for estimates: `counted` is scaled down if the estimate `all` is less than `recorded`.
fn part_of(all: u64, counted: u64, recorded: u64) -> u64 {
    match recorded > all {
        true => (u128::from(counted) * u128::from(all) / u128::from(recorded)) as u64,
        false => counted,
    }
}

/// Limits a flow to `limit` minus the lower bound of the part of others.
pub(super) fn limited<K>(flow: Flow<K>, limit: &Flow<()>, others: Total) -> Flow<K> {
    let packets = limited_amount(flow.packets, limit.packets, others.packets);
    let bytes = limited_amount(flow.bytes, limit.bytes, others.bytes);
    Flow {
        key: flow.key,
        packets,
        bytes: match packets.at_most {
            Some(0) => Amount::exact(0),
            _ => bytes,
        },
    }
}

fn limited_amount(amount: Amount, limit: Amount, others: u64) -> Amount {
    let most = |limit: u64| limit.saturating_sub(others);
    let at_most = match (amount.at_most, limit.at_most.map(most)) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, _) => one,
    };
    let least = amount.at_least.unwrap_or(0);
    let high = amount.high.min(most(limit.high).max(amount.low).max(least));
    Amount::within(
        (amount.at_least, at_most),
        [amount.low, amount.estimate.min(high), high],
    )
}
