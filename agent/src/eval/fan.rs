//! Fan-out and fan-in: are the nodes with most peers found, and how far off are
//! they?

use crane_model::fan::{Certain, Fan};
use crane_model::name::{AnyName, Narrow};
use crane_model::rivals::NodeRole;
use crane_model::{Edge, Secret};
use rustc_hash::{FxHashMap, FxHashSet};

use super::measure::Setup;
use super::methods::Method;
use super::score::mean;
use super::truth::Truth;

/// How many count as the largest; all that tie with the last of them do, too.
const LARGEST: usize = 100;

/// Both figures, of both directions together.
#[derive(Debug, Default, PartialEq)]
pub struct FanFigures {
    /// Share of the largest that are found.
    pub recall: Option<f64>,
    /// Mean relative error of the largest.
    pub are: Option<f64>,
}

/// The figures of a method that knows numbers of peers, none of others.
pub fn measure(which: Method, setup: &Setup<'_>, truth: &Truth) -> FanFigures {
    let directions = [NodeRole::Source, NodeRole::Destination];
    let tops = directions.map(|direction| Top::of(truth, direction));
    let [out, into] = &tops;
    let judged: Vec<Judged> = match which {
        Method::Exact => tops.iter().flat_map(Top::judge_exact).collect(),
        Method::CranePacked => {
            let secret = Secret::from_seed(setup.seed);
            let new = || Fan::new(setup.bytes / 2, &secret).ok();
            let (Some(mut sources), Some(mut destinations)) = (new(), new()) else {
                return FanFigures::default();
            };
            for arrival in &truth.arrivals {
                let Edge { src, dst } = arrival.edge;
                let pair = secret.id(&arrival.edge.name());
                let [src, dst] = [name(src), name(dst)];
                sources.note(&src, secret.id(&src), pair);
                destinations.note(&dst, secret.id(&dst), pair);
            }
            let sources = out.judge(&sources, &secret);
            sources.chain(into.judge(&destinations, &secret)).collect()
        }
        _ => return FanFigures::default(),
    };
    FanFigures {
        recall: mean(judged.iter().map(|one| f64::from(u8::from(one.found)))),
        are: mean(judged.iter().map(|one| one.off)),
    }
}

/// What a method says of one of the largest.
struct Judged {
    found: bool,
    off: f64,
}

/// The nodes with most peers in one direction.
struct Top(Vec<(u32, u64)>);

impl Top {
    fn of(truth: &Truth, direction: NodeRole) -> Self {
        let mut peers: FxHashMap<u32, u64> = FxHashMap::default();
        for edge in &truth.edges {
            let node = match direction {
                NodeRole::Source => edge.src,
                NodeRole::Destination => edge.dst,
            };
            *peers.entry(node).or_default() += 1;
        }
        let mut nodes: Vec<(u32, u64)> = peers.into_iter().collect();
        nodes.sort_unstable_by_key(|(node, peers)| (std::cmp::Reverse(*peers), *node));
        let all = nodes.len();
        if let Some((_, last)) = nodes.get(LARGEST - 1).copied() {
            nodes.retain(|(_, peers)| *peers >= last);
        }
        // Where all nodes are among the largest, that means nothing.
        if nodes.len() == all && all > LARGEST {
            nodes.clear();
        }
        Self(nodes)
    }

    fn judge(&self, fan: &Fan, secret: &Secret) -> impl Iterator<Item = Judged> {
        let listed: FxHashSet<AnyName> = fan
            .largest(self.0.len(), Vec::new(), u64::MAX, |_| Certain::ANYTHING)
            .nodes
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        self.0.iter().map(move |(node, peers)| {
            let answer = fan.answer(secret.id(&name(*node))).peers as f64;
            Judged {
                found: listed.contains(&AnyName::Narrow(name(*node))),
                off: (answer - *peers as f64).abs() / *peers as f64,
            }
        })
    }

    /// An exact map of all edges, which the truth is.
    fn judge_exact(&self) -> impl Iterator<Item = Judged> {
        self.0.iter().map(|_| Judged {
            found: true,
            off: 0.0,
        })
    }
}

fn name(node: u32) -> Narrow {
    [u64::from(node)]
}
