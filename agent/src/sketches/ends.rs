//! Exact sums over the pairs of each address, if all pairs are known by name: traffic and number of
//! peers.

use std::net::IpAddr;

use crane_model::name::{AnyName, Narrow, Wide};
use crane_model::table::{TableKey, Total};
use crane_model::{Amount, Crane, Flow};

use super::fans::Direction;
use crate::traffic::edge::{Ends, node_name, node_of_name};

/// The sum of all pairs of one address in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndSum {
    pub ip: IpAddr,
    pub peers: u64,
    pub total: Total,
}

impl EndSum {
    pub fn flow(&self) -> Flow<IpAddr> {
        Flow {
            key: self.ip,
            packets: Amount::exact(self.total.packets),
            bytes: Amount::exact(self.total.bytes),
        }
    }
}

fn end<N: Ends>(pair: &N, direction: Direction) -> N {
    match direction {
        Direction::Out => pair.source(),
        Direction::Into => pair.destination(),
    }
}

/// The sums of all addresses.
pub fn all(pairs: &Crane, direction: Direction) -> Vec<EndSum> {
    let mut sums = Vec::new();
    add_all::<Narrow>(pairs, direction, &mut sums);
    add_all::<Wide>(pairs, direction, &mut sums);
    sums
}

fn add_all<N: Ends + TableKey>(pairs: &Crane, direction: Direction, sums: &mut Vec<EndSum>) {
    let mut flows = Vec::new();
    pairs.named::<N>().for_each(|flow| {
        let (packets, bytes) = (flow.packets.estimate, flow.bytes.estimate);
        flows.push((end(&flow.key, direction), packets, bytes));
    });
    // Sorting is faster than a table of all addresses.
    flows.sort_unstable_by_key(|(end, ..)| *end);
    let same = flows.chunk_by(|one, next| one.0 == next.0);
    sums.extend(same.map(|same| EndSum {
        ip: node_of_name(same[0].0.any()),
        peers: same.len() as u64,
        total: Total {
            packets: same.iter().map(|(_, packets, _)| packets).sum(),
            bytes: same.iter().map(|(.., bytes)| bytes).sum(),
        },
    }));
}

/// The sum of one address.
pub fn one(pairs: &Crane, ip: IpAddr, direction: Direction) -> EndSum {
    let (peers, total) = match node_name(ip) {
        AnyName::Narrow(name) => add_one(pairs, name, direction),
        AnyName::Wide(name) => add_one(pairs, name, direction),
    };
    EndSum { ip, peers, total }
}

fn add_one<N: Ends + TableKey>(pairs: &Crane, node: N, direction: Direction) -> (u64, Total) {
    let (mut peers, mut total) = (0, Total::default());
    pairs.named::<N>().for_each(|flow| {
        if end(&flow.key, direction) == node {
            peers += 1;
            total.packets += flow.packets.estimate;
            total.bytes += flow.bytes.estimate;
        }
    });
    (peers, total)
}
