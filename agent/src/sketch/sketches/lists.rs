//! Lists of the heaviest, and what anyone may have had who is not listed.
//!
//! Only edges with a name in a sketch can be listed. What any other may have had is
//! known ([`Crane::most_unnamed`]), and of every name what it has had at most. So a
//! list can say how much an edge has at most that is not in it. A row that may have
//! had more than all edges without a name is listed, whatever its estimate is.

use std::collections::HashSet;
use std::net::IpAddr;

use crane_model::crown::BYTES_PER_PACKET;
use crane_model::table::Total;
use crane_model::{Amount, Crane, Flow};

use super::Sketches;
use crate::edge::Pair;
use crate::export::hitters::Hitters;
use crate::service::Service;
use crate::sketch::answer::By;

impl Sketches {
    /// The `top` heaviest pairs, as far as none is missing.
    pub fn heaviest_pairs(&self, top: usize) -> Hitters<Pair> {
        self.complete(Hitters::of(self.named_pairs(), top), &self.pairs)
    }

    /// The `top` heaviest senders, as far as none is missing.
    pub fn heaviest_sources(&self, top: usize) -> Hitters<IpAddr> {
        self.complete(Hitters::of(self.named_sources(), top), &self.sources)
    }

    /// The `top` heaviest receivers, as far as none is missing.
    pub fn heaviest_destinations(&self, top: usize) -> Hitters<IpAddr> {
        let heaviest = Hitters::of(self.named_destinations(), top);
        self.complete(heaviest, &self.destinations)
    }

    /// The `top` heaviest services, as far as none is missing.
    pub fn heaviest_services(&self, top: usize) -> Hitters<Service> {
        self.complete(Hitters::of(self.named_services(), top), &self.services)
    }

    /// The lists up to where one that has no name might belong.
    fn complete<K>(&self, mut hitters: Hitters<K>, crane: &Crane) -> Hitters<K> {
        if !crane.is_exact() {
            let [packets, bytes] = [By::Packets, By::Bytes].map(|by| least_listed(crane, by));
            let most = |amount: &Amount| self.sampling.most_of(amount);
            let by_packets = |flow: &Flow<K>| most(&flow.packets) > packets;
            let by_bytes = |flow: &Flow<K>| most(&flow.bytes) > bytes;
            hitters.by_packets.retain(by_packets);
            hitters.by_bytes.retain(by_bytes);
        }
        hitters
    }

    /// Pairs that have no more packets than this, or bytes, are not listed.
    pub fn least_listed(&self, by: By) -> u64 {
        least_listed(&self.pairs, by)
    }

    /// How many packets a pair may have had that is not among those listed by packets,
    /// and how many bytes one that is not among those listed by bytes: one without a
    /// name, one with a name, or one of which a sample has most likely seen nothing.
    pub fn most_unlisted(&self, listed: &Hitters<Pair>) -> Total {
        let mut most = self.sampling.most_unseen(self.pairs.most_unnamed());
        let keys = |list: &[Flow<Pair>]| -> HashSet<Pair> { list.iter().map(|f| f.key).collect() };
        let by_packets = keys(&listed.by_packets);
        let by_bytes = keys(&listed.by_bytes);
        for flow in self.named_pairs() {
            let [packets, bytes] =
                [&flow.packets, &flow.bytes].map(|one| self.sampling.most_of(one));
            if packets > most.packets && !by_packets.contains(&flow.key) {
                most.packets = packets;
            }
            if bytes > most.bytes && !by_bytes.contains(&flow.key) {
                most.bytes = bytes;
            }
        }
        most
    }
}

/// Who has no more than this may be lighter than one that has no name. Edges are
/// chosen by packets and by bytes with a fixed weight; those whose packets became
/// smaller can have more bytes than that and no name.
fn least_listed(crane: &Crane, by: By) -> u64 {
    let Total { packets, bytes } = crane.most_unnamed();
    match by {
        By::Packets => packets,
        By::Bytes => bytes.min(packets.saturating_mul(BYTES_PER_PACKET)),
    }
}
