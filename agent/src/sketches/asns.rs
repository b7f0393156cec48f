//! Traffic of autonomous systems: all packets from or to an address of the AS. A packet between
//! two addresses of the same AS counts once, a packet between two AS counts for both.
//!
//! These are [sums](crane_model::Crane::sums) over pairs. They are exact while all pairs fit.
//! Afterwards they are the counts of heavy pairs and an estimate of the rest from a sample.

use std::net::IpAddr;

use crane_model::name::AnyName;

use super::Sketches;
use super::hitters::{Hitters, Unnamed};
use crate::traffic::edge::Pair;

impl Sketches {
    /// The `top` heaviest AS. `asn_of` returns the AS of an address.
    pub fn heaviest_asns(
        &self,
        top: usize,
        asn_of: &dyn Fn(IpAddr) -> Option<u32>,
    ) -> Hitters<u32> {
        let asns = |name: AnyName| {
            let pair = Pair::of_name(name);
            [asn_of(pair.src()), asn_of(pair.dst())]
        };
        let (flows, rest) = self.pairs.sums(&asns);
        let unnamed = Unnamed::at_most(rest, self.sampling());
        let each = |offer: &mut dyn FnMut(_)| {
            for flow in flows {
                offer(self.sampling().widened(flow));
            }
        };
        let mut heaviest = Hitters::of(top, unnamed, self.sampling(), each, |_| {});
        // All of the rest may belong to one AS without a heavy pair.
        let Hitters {
            by_packets,
            by_bytes,
        } = &mut heaviest;
        let last = by_packets.flows.last();
        by_packets.incomplete = last.is_some_and(|flow| flow.packets.estimate < rest.packets);
        let last = by_bytes.flows.last();
        by_bytes.incomplete = last.is_some_and(|flow| flow.bytes.estimate < rest.bytes);
        heaviest
    }
}
