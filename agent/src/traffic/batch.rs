//! A batch: packets aggregated by pair, source, destination and service, as the sketches of
//! a window store them.

use std::time::Duration;

use crane_model::fold::Fold;
use crane_model::name::{AnyName, Narrow, Wide};
use crane_model::{Arrival, Secret};

use super::slot::Slot;
use crate::traffic::edge::Ends;
use crate::traffic::service::Service;

/// When a batch is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// When it is full, or when its first packet has waited this long.
    Linger(Duration),
    /// Only when it is full, so that the same packets always make the same batches.
    Count,
}

/// Size of the cache of recent services.
const RECENT: usize = 64;

/// Aggregated packets. The memory is reused for the next batch.
#[derive(Default)]
pub struct Batch {
    pub pairs: Pairs,
    pub nodes: Nodes,
}

/// Packets aggregated by source and destination.
#[derive(Default)]
pub struct Pairs {
    /// Between IPv4 addresses.
    pub narrow: FoldedPairs<Narrow>,
    /// Between IPv6 addresses.
    pub wide: FoldedPairs<Wide>,
    pub totals: Totals,
    /// Number of packets that each sampled packet stands for.
    scale: u64,
}

/// The sum of all packets of a batch.
#[derive(Debug, Clone, Copy, Default)]
pub struct Totals {
    /// Packets, scaled if sampled.
    pub packets: u64,
    pub bytes: u64,
    /// Time of the latest packet.
    pub latest: u64,
}

/// The same packets aggregated by source, by destination and by service.
#[derive(Default)]
pub struct Nodes {
    pub narrow: FoldedNodes<Narrow>,
    pub wide: FoldedNodes<Wide>,
    /// Services of IPv4 and IPv6.
    services: Fold<Narrow>,
    /// Whether this batch is already aggregated.
    folded: bool,
}

/// Pairs of one IP version.
#[derive(Default)]
pub struct FoldedPairs<N> {
    names: Vec<N>,
    packets: Vec<(Service, u32)>,
    ids: Vec<u64>,
    fold: Fold<N>,
    /// The service of the first packet of each pair, and the index of its latest other service.
    firsts: Vec<(Service, u32)>,
    /// Packets of other services than the first one.
    others: Vec<Other>,
    scale: u64,
}

/// Packets of a pair whose service is not that of its first packet.
struct Other {
    service: Service,
    packets: u32,
    bytes: u64,
    /// Index of the next one of the pair.
    next: u32,
}

/// Index that stands for no other service.
const NONE: u32 = u32::MAX;

/// How many of the latest services of a pair are searched for the service of a packet. A pair
/// may have as many services as a batch has packets, so a service may occur several times.
const SEARCHED: usize = 4;

/// Packets of a pair that have the same service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    pub service: Service,
    pub packets: u64,
    pub bytes: u64,
}

/// Sources and destinations of one IP version.
#[derive(Default)]
pub struct FoldedNodes<N> {
    names: Vec<N>,
    sources: Fold<N>,
    destinations: Fold<N>,
    /// Ids of source and destination of each pair.
    ends: [Vec<u64>; 2],
}

type MakeIds<N> = fn(&Secret, &[N], &mut Vec<u64>);

impl Batch {
    /// Most bytes that storing takes besides the sketches, per slot of a batch: all of
    /// this, the working memory of the sketches, and the slots.
    pub const BYTES_PER_SLOT: usize = 1024;

    pub fn memory_bytes(&self) -> usize {
        let Self { pairs, nodes } = self;
        pairs.narrow.memory_bytes()
            + pairs.wide.memory_bytes()
            + nodes.narrow.memory_bytes()
            + nodes.wide.memory_bytes()
            + nodes.services.memory_bytes()
    }

    /// Aggregates packets by pair. Each packet counts `scale` times.
    pub fn fold(&mut self, secret: &Secret, slots: &[Slot], scale: u64) {
        self.nodes.folded = false;
        let pairs = &mut self.pairs;
        pairs.narrow.clear();
        pairs.wide.clear();
        let mut totals = Totals::default();
        pairs.scale = scale;
        for edge in Slot::edges(slots) {
            match edge.name {
                AnyName::Narrow(name) => pairs.narrow.push(name, edge.service, edge.bytes),
                AnyName::Wide(name) => pairs.wide.push(name, edge.service, edge.bytes),
            }
            totals.packets += scale;
            totals.bytes += u64::from(edge.bytes) * scale;
            totals.latest = totals.latest.max(edge.time);
        }
        pairs.totals = totals;
        pairs.narrow.fold(secret, Secret::ids_narrow, scale);
        pairs.wide.fold(secret, Secret::ids_wide, scale);
    }
}

impl Nodes {
    /// Aggregates the packets of pairs by source, destination and service, unless that is
    /// already done.
    pub fn fold(&mut self, secret: &Secret, pairs: &Pairs) {
        if !std::mem::replace(&mut self.folded, true) {
            let narrow = pairs.narrow.arrivals();
            self.narrow.fold(secret, Secret::ids_narrow, narrow);
            self.wide
                .fold(secret, Secret::ids_wide, pairs.wide.arrivals());
            self.fold_services(secret, pairs);
        }
    }

    fn fold_services(&mut self, secret: &Secret, pairs: &Pairs) {
        // There are few services, and most repeat: they are found in this cache.
        let mut recent = [(u32::MAX, 0, 0); RECENT];
        let (narrow, wide) = (&pairs.narrow.packets, &pairs.wide.packets);
        self.services.begin(narrow.len() + wide.len());
        for (service, bytes) in narrow.iter().chain(wide) {
            let code = service.code();
            let (known, packets, sum) = &mut recent[code as usize % RECENT];
            if *known != code {
                add_service(&mut self.services, secret, (*known, *packets, *sum));
                (*known, *packets, *sum) = (code, 0, 0);
            }
            *packets += pairs.scale;
            *sum += u64::from(*bytes) * pairs.scale;
        }
        for (code, packets, bytes) in recent {
            add_service(&mut self.services, secret, (code, packets, bytes));
        }
    }

    pub fn services(&self) -> &[Arrival<Narrow>] {
        self.services.arrivals()
    }
}

fn add_service(services: &mut Fold<Narrow>, secret: &Secret, found: (u32, u64, u64)) {
    let (code, packets, bytes) = found;
    if packets > 0 {
        let name = [code.into()];
        services.add(name, secret.id(&name), packets, bytes);
    }
}

impl<N: Ends> FoldedPairs<N> {
    fn memory_bytes(&self) -> usize {
        let services = self.packets.capacity() + self.firsts.capacity();
        size_of::<N>() * self.names.capacity()
            + size_of::<(Service, u32)>() * services
            + size_of::<Other>() * self.others.capacity()
            + 8 * self.ids.capacity()
            + self.fold.memory_bytes()
    }

    fn clear(&mut self) {
        self.names.clear();
        self.packets.clear();
    }

    fn push(&mut self, name: N, service: Service, bytes: u32) {
        self.names.push(name);
        self.packets.push((service, bytes));
    }

    fn fold(&mut self, secret: &Secret, make_ids: MakeIds<N>, scale: u64) {
        make_ids(secret, &self.names, &mut self.ids);
        self.fold.begin(self.names.len());
        self.firsts.clear();
        self.others.clear();
        self.scale = scale;
        let packets = self.names.iter().zip(&self.ids).zip(&self.packets);
        for ((name, id), (service, bytes)) in packets {
            let at = self.fold.add(*name, *id, scale, u64::from(*bytes) * scale);
            match self.firsts.get_mut(at) {
                None => self.firsts.push((*service, NONE)),
                Some((first, _)) if first == service => {}
                Some((_, others)) => add_other(&mut self.others, others, *service, *bytes),
            }
        }
    }

    /// The packets of the pair at this index, by service. A service may occur several times.
    pub fn services(&self, at: usize) -> impl Iterator<Item = Part> {
        let (service, begin) = self.firsts[at];
        let all = &self.fold.arrivals()[at];
        let (mut packets, mut bytes) = (all.packets, all.bytes);
        let mut next = begin;
        let others = std::iter::from_fn(move || {
            let other = self.others.get(next as usize)?;
            next = other.next;
            Some(Part {
                service: other.service,
                packets: u64::from(other.packets) * self.scale,
                bytes: other.bytes.saturating_mul(self.scale),
            })
        });
        for other in others.clone() {
            packets -= other.packets;
            bytes = bytes.saturating_sub(other.bytes);
        }
        let first = Part {
            service,
            packets,
            bytes,
        };
        std::iter::once(first).chain(others)
    }

    pub fn arrivals(&self) -> &[Arrival<N>] {
        self.fold.arrivals()
    }
}

/// Counts a packet whose service is not the first one of its pair. The other services of the
/// pair are a linked list that starts at `begin`, the latest first.
#[cold]
fn add_other(others: &mut Vec<Other>, begin: &mut u32, service: Service, bytes: u32) {
    let mut at = *begin;
    for _ in 0..SEARCHED {
        let Some(other) = others.get_mut(at as usize) else {
            break;
        };
        if other.service == service {
            other.packets += 1;
            other.bytes += u64::from(bytes);
            return;
        }
        at = other.next;
    }
    let other = Other {
        service,
        packets: 1,
        bytes: bytes.into(),
        next: *begin,
    };
    *begin = others.len() as u32;
    others.push(other);
}

impl<N: Ends> FoldedNodes<N> {
    fn memory_bytes(&self) -> usize {
        let [sources, destinations] = &self.ends;
        size_of::<N>() * self.names.capacity()
            + 8 * (sources.capacity() + destinations.capacity())
            + self.sources.memory_bytes()
            + self.destinations.memory_bytes()
    }

    fn fold(&mut self, secret: &Secret, make_ids: MakeIds<N>, pairs: &[Arrival<N>]) {
        let [sources, destinations] = &mut self.ends;
        let names = &mut self.names;
        names.clear();
        names.extend(pairs.iter().map(|pair| pair.name.source()));
        make_ids(secret, names, sources);
        fold_ends(&mut self.sources, names, sources, pairs);
        names.clear();
        names.extend(pairs.iter().map(|pair| pair.name.destination()));
        make_ids(secret, names, destinations);
        fold_ends(&mut self.destinations, names, destinations, pairs);
    }

    /// Ids of source and destination of each pair.
    pub fn ends(&self) -> impl Iterator<Item = [u64; 2]> {
        let [sources, destinations] = &self.ends;
        let ends = sources.iter().zip(destinations);
        ends.map(|(source, destination)| [*source, *destination])
    }

    pub fn sources(&self) -> &[Arrival<N>] {
        self.sources.arrivals()
    }

    pub fn destinations(&self) -> &[Arrival<N>] {
        self.destinations.arrivals()
    }
}

/// Aggregates pairs by one end.
fn fold_ends<N: Ends>(nodes: &mut Fold<N>, names: &[N], ids: &[u64], pairs: &[Arrival<N>]) {
    nodes.begin(names.len());
    for ((name, id), pair) in names.iter().zip(ids).zip(pairs) {
        nodes.add(*name, *id, pair.packets, pair.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::edge::{Edge, Pair};
    use std::collections::BTreeMap;
    use std::net::Ipv6Addr;

    use crate::traffic::protocol::Protocol;

    fn service(n: u32) -> Service {
        Service::between(Protocol::Tcp, (n % 10) as u16, u16::MAX)
    }

    #[test]
    fn every_packet_is_aggregated_exactly_once() {
        let mut batch = Batch::default();
        let secret = Secret::from_seed(1);
        let mut state = 1u64;
        for size in [0, 1, 7, 5000, 100, 4096] {
            let mut truth: BTreeMap<AnyName, (u64, u64)> = BTreeMap::new();
            let mut slots = Vec::new();
            for n in 0..size {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                let (src, dst) = ((state >> 60) as u8, (state >> 50) as u8 / 4);
                let pair = match src % 3 {
                    0 => Pair::V6(
                        Ipv6Addr::from_bits(src.into()),
                        Ipv6Addr::from_bits(u128::from(dst) << 64),
                    ),
                    _ => Pair::V4([10, 0, 0, src].into(), [10, 0, 1, dst].into()),
                };
                let edge = Edge {
                    name: pair.name(),
                    service: service(n),
                    bytes: n,
                    time: u64::from(n),
                };
                Slot::write(&edge, &mut slots);
                let (packets, bytes) = truth.entry(edge.name).or_default();
                *packets += 3;
                *bytes += 3 * u64::from(n);
            }
            batch.fold(&secret, &slots, 3);
            let Batch { pairs, nodes } = &mut batch;
            nodes.fold(&secret, pairs);
            let narrow = pairs.narrow.arrivals().iter();
            let narrow = narrow.map(|a| (AnyName::Narrow(a.name), (a.packets, a.bytes)));
            let wide = pairs.wide.arrivals().iter();
            let wide = wide.map(|a| (AnyName::Wide(a.name), (a.packets, a.bytes)));
            let folded: Vec<_> = narrow.chain(wide).collect();
            assert_eq!(folded.len(), truth.len(), "no pair twice");
            assert_eq!(folded.into_iter().collect::<BTreeMap<_, _>>(), truth);
            assert_eq!(pairs.totals.packets, 3 * u64::from(size));
            assert_eq!(nodes.narrow.ends().count(), pairs.narrow.arrivals().len());
            for (pair, ends) in pairs.narrow.arrivals().iter().zip(nodes.narrow.ends()) {
                let names = [pair.name.source(), pair.name.destination()];
                assert_eq!(ends, names.map(|name| secret.id(&name)));
            }
            for (narrow, wide) in [
                (nodes.narrow.sources(), nodes.wide.sources()),
                (nodes.narrow.destinations(), nodes.wide.destinations()),
            ] {
                let sum = |packets: fn(u64, u64) -> u64| {
                    let narrow = narrow.iter().map(|a| packets(a.packets, a.bytes));
                    let wide = wide.iter().map(|a| packets(a.packets, a.bytes));
                    narrow.sum::<u64>() + wide.sum::<u64>()
                };
                assert_eq!(sum(|packets, _| packets), pairs.totals.packets);
                assert_eq!(sum(|_, bytes| bytes), pairs.totals.bytes);
                assert!(narrow.len() <= 64, "folded again by node");
            }
            let services = nodes.services();
            assert_eq!(services.len(), (size as usize).min(10));
            for one in services {
                let of = (0..size).filter(|n| one.name == [u64::from(service(*n).code())]);
                assert_eq!(one.packets, 3 * of.count() as u64);
            }
            assert_eq!(pairs.totals.latest, u64::from(size.saturating_sub(1)));
        }
    }
}
