//! Fan-out and fan-in: how many of the nodes with most peers are found, and how wrong
//! their numbers of peers are.

use crane_agent::report::score::mean;
use crane_model::fan::{Fan, PeerBounds};
use crane_model::name::{AnyName, Narrow};
use crane_model::{Edge, Secret};
use rustc_hash::{FxHashMap, FxHashSet};

use super::measure::Setup;
use super::methods::Method;
use super::truth::Truth;
use crate::rivals::NodeRole;

/// Number of nodes that count as the largest. Nodes that tie with the last of them are
/// included.
const LARGEST: usize = 100;

/// The figures of both directions together.
#[derive(Debug, Default, PartialEq)]
pub struct FanFigures {
    /// Share of the largest nodes that are found.
    pub recall: Option<f64>,
    /// Mean relative error of their numbers of peers.
    pub are: Option<f64>,
}

/// The figures of a method. They are empty for methods that do not estimate numbers of
/// peers.
pub fn measure(which: Method, setup: &Setup<'_>, truth: &Truth) -> FanFigures {
    let directions = [NodeRole::Source, NodeRole::Destination];
    let tops = directions.map(|direction| Top::of(truth, direction));
    let [out, into] = &tops;
    let results: Vec<NodeResult> = match which {
        Method::Exact => tops.iter().flat_map(Top::score_exact).collect(),
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
                sources.record(&src, secret.id(&src), pair);
                destinations.record(&dst, secret.id(&dst), pair);
            }
            let sources = out.score(&sources, &secret);
            sources.chain(into.score(&destinations, &secret)).collect()
        }
        _ => return FanFigures::default(),
    };
    FanFigures {
        recall: mean(results.iter().map(|one| f64::from(u8::from(one.found)))),
        are: mean(results.iter().map(|one| one.off)),
    }
}

/// The result of a method for one of the largest nodes.
struct NodeResult {
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
        // If all nodes are among the largest, the recall means nothing.
        if nodes.len() == all && all > LARGEST {
            nodes.clear();
        }
        Self(nodes)
    }

    fn score(&self, fan: &Fan, secret: &Secret) -> impl Iterator<Item = NodeResult> {
        let listed: FxHashSet<AnyName> = fan
            .largest(self.0.len(), Vec::new(), u64::MAX, |_| {
                PeerBounds::UNBOUNDED
            })
            .nodes
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        self.0.iter().map(move |(node, peers)| {
            let answer = fan.answer(secret.id(&name(*node))).peers as f64;
            NodeResult {
                found: listed.contains(&AnyName::Narrow(name(*node))),
                off: (answer - *peers as f64).abs() / *peers as f64,
            }
        })
    }

    /// The results of an exact map, which are the truth.
    fn score_exact(&self) -> impl Iterator<Item = NodeResult> {
        self.0.iter().map(|_| NodeResult {
            found: true,
            off: 0.0,
        })
    }
}

fn name(node: u32) -> Narrow {
    [u64::from(node)]
}
