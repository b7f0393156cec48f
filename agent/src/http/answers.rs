//! What the API answers: types that the server writes and the client reads.
//!
//! Fields may be added; none changes its meaning or goes. A number that is not
//! known is null.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::Ordering::Relaxed;

use crane_model::Flow;
use serde::{Deserialize, Serialize};

use crate::edge::Pair;
use crate::endpoint::Endpoint;
use crate::export::snapshot::{InterfaceView, WindowView};
use crate::names::{Group, Names, PairNames, name_of};
use crate::service::Service;
use crate::sketch::answer::WindowName;
use crate::sketch::estimate::{Estimate, PeerEstimate};
use crate::sketch::fan_rows::FanRows;

/// Where [`Interfaces`] are.
pub const INTERFACES: &str = "/api/v1/interfaces";
/// Where [`HeavyHitters`] are.
pub const HEAVY_HITTERS: &str = "/api/v1/heavy-hitters";
/// Where a [`FlowAnswer`] is.
pub const FLOW: &str = "/api/v1/flow";
/// Where a [`NodeAnswer`] is.
pub const NODE: &str = "/api/v1/node";

/// Where the last minutes are.
pub const HISTORY: &str = "/api/v1/history";
/// Where the insides of sketches are.
pub const SKETCH: &str = "/api/v1/sketch";

/// Why there is no answer.
#[derive(Debug, Serialize, Deserialize)]
pub struct ErrorAnswer {
    /// For people.
    pub error: String,
}

/// All interfaces.
#[derive(Debug, Serialize, Deserialize)]
pub struct Interfaces {
    /// Name of the machine.
    #[serde(default)]
    pub host: String,
    /// Version of the agent.
    #[serde(default)]
    pub version: String,
    /// Interfaces that are waited for.
    #[serde(default)]
    pub waiting: Vec<String>,
    /// How old this is; more than a second or two: the agent is overloaded.
    #[serde(default)]
    pub age_seconds: f64,
    /// In the order they were opened.
    pub interfaces: Vec<InterfaceState>,
}

/// The books of an interface, and its sketch.
#[derive(Debug, Serialize, Deserialize)]
pub struct InterfaceState {
    /// Name of the interface or file.
    pub interface: String,
    /// Whether its capture is open.
    pub up: bool,
    /// Whether it is a file that has been read.
    #[serde(default)]
    pub ended: bool,
    /// Packets the capture handed over.
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
    /// Packets stored in the sketch.
    pub edges: u64,
    /// Packets that are no edge, by reason.
    pub ignored: BTreeMap<String, u64>,
    /// Packets lost, by who lost them.
    pub dropped: BTreeMap<String, u64>,
    /// Packets that have addresses, by what they carry.
    pub protocols: BTreeMap<String, Traffic>,
    /// What was sent between networks with names since the start, most packets
    /// first; none if none are configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groups: Option<Vec<GroupTraffic>>,
    /// Layers of the sketch.
    pub layers: usize,
    /// Layers added since the start.
    pub expansions: usize,
    /// Bytes of all sketches.
    pub memory_bytes: usize,
    /// Whether counts may be too low because a cell is full.
    pub saturated: bool,
    /// The window that is being filled.
    pub current: WindowState,
    /// The last complete one.
    pub last: Option<WindowState>,
}

/// Packets and bytes that were counted.
#[derive(Debug, Serialize, Deserialize)]
pub struct Traffic {
    /// Packets.
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
}

/// What was sent from one network to another.
#[derive(Debug, Serialize, Deserialize)]
pub struct GroupTraffic {
    /// Name of the network it was sent from.
    pub src: String,
    /// Name of the network it was sent to.
    pub dst: String,
    /// How much, scaled up if only a sample is looked at.
    #[serde(flatten)]
    pub traffic: Traffic,
}

/// A window: times in seconds since 1970.
#[derive(Debug, Serialize, Deserialize)]
pub struct WindowState {
    /// When it began.
    pub start: Option<f64>,
    /// When it ends or ended.
    pub end: Option<f64>,
    /// How long it was, or is so far.
    pub seconds: f64,
    /// For how much of that no agent ran; left out if there is nothing.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub unseen_seconds: f64,
    /// Its packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How many pairs there are, an estimate unless exact.
    #[serde(default)]
    pub distinct_pairs: Option<u64>,
    /// Whether every pair and node is counted exactly.
    #[serde(default)]
    pub exact: bool,
}

/// The heaviest of a window.
#[derive(Debug, Serialize, Deserialize)]
pub struct HeavyHitters {
    /// Of each interface that is meant.
    pub interfaces: Vec<InterfaceHitters>,
}

/// The heaviest of an interface, heaviest first.
#[derive(Debug, Serialize, Deserialize)]
pub struct InterfaceHitters {
    /// Name of the interface or file.
    pub interface: String,
    /// The window.
    pub window: WindowName,
    /// What is known of the window.
    #[serde(flatten)]
    pub state: WindowState,
    /// Who sends to whom.
    pub pairs: Vec<HeavyPair>,
    /// Who sends.
    pub sources: Vec<HeavyNode>,
    /// Who receives.
    pub destinations: Vec<HeavyNode>,
    /// For what.
    #[serde(default)]
    pub services: Vec<HeavyService>,
    /// Who talks with most others.
    #[serde(flatten)]
    pub fans: FanRows,
}

/// A heavy pair.
#[derive(Debug, Serialize, Deserialize)]
pub struct HeavyPair {
    /// Who sends.
    pub src: IpAddr,
    /// Who receives.
    pub dst: IpAddr,
    /// Names of their networks.
    #[serde(flatten)]
    pub names: PairNames,
    /// For what most of its packets are, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<Service>,
    /// How much.
    #[serde(flatten)]
    pub estimate: Estimate,
}

/// A heavy node.
#[derive(Debug, Serialize, Deserialize)]
pub struct HeavyNode {
    /// Its address.
    pub ip: IpAddr,
    /// Name of its network, if any are configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// How much.
    #[serde(flatten)]
    pub estimate: Estimate,
}

/// A heavy service.
#[derive(Debug, Serialize, Deserialize)]
pub struct HeavyService {
    /// Its protocol and port.
    #[serde(flatten)]
    pub service: Service,
    /// How much.
    #[serde(flatten)]
    pub estimate: Estimate,
}

/// What is known of who sends to whom.
#[derive(Debug, Serialize, Deserialize)]
pub struct FlowAnswer {
    /// Who sends.
    pub src: Endpoint,
    /// Who receives.
    pub dst: Endpoint,
    /// Names of their networks, where they are addresses.
    #[serde(flatten)]
    pub names: PairNames,
    /// On each interface that is meant.
    pub interfaces: Vec<InterfaceFlow>,
}

/// When a window was, in seconds since 1970. An agent that does not say so is older.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct WindowTime {
    /// When it began.
    pub start: Option<f64>,
    /// When it ends or ended.
    pub end: Option<f64>,
    /// How long it was, or is so far.
    pub seconds: f64,
}

impl From<&WindowView> for WindowTime {
    fn from(window: &WindowView) -> Self {
        let WindowState {
            start,
            end,
            seconds,
            ..
        } = window.into();
        Self {
            start,
            end,
            seconds,
        }
    }
}

/// What an interface knows of it.
#[derive(Debug, Serialize, Deserialize)]
pub struct InterfaceFlow {
    /// Name of the interface or file.
    pub interface: String,
    /// The window.
    pub window: WindowName,
    /// When it was.
    #[serde(flatten)]
    pub time: WindowTime,
    /// How much.
    pub estimate: Estimate,
    /// How much in the other direction, if that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub back: Option<Estimate>,
}

/// What is known of a node.
#[derive(Debug, Serialize, Deserialize)]
pub struct NodeAnswer {
    /// Its address.
    pub ip: IpAddr,
    /// Name of its network, if any are configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// On each interface that is meant.
    pub interfaces: Vec<InterfaceNode>,
}

/// What an interface knows of a node.
#[derive(Debug, Serialize, Deserialize)]
pub struct InterfaceNode {
    /// Name of the interface or file.
    pub interface: String,
    /// The window.
    pub window: WindowName,
    /// When it was.
    #[serde(flatten)]
    pub time: WindowTime,
    /// What it sent.
    pub sent: Estimate,
    /// What it received.
    pub received: Estimate,
    /// To how many others it sent; if only a sample is looked at, those that
    /// were seen.
    pub fan_out: PeerEstimate,
    /// From how many others it received.
    pub fan_in: PeerEstimate,
    /// The heaviest pairs it is an end of, of those that are known by name, if they were
    /// asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pairs: Option<Vec<HeavyPair>>,
}

impl From<&InterfaceView> for InterfaceState {
    fn from(view: &InterfaceView) -> Self {
        let tally = &view.tally;
        let carried = |(protocol, packets, bytes): (&str, u64, u64)| {
            (protocol.to_owned(), Traffic { packets, bytes })
        };
        let named = |(reason, count): (&str, u64)| (reason.to_owned(), count);
        Self {
            interface: view.name.clone(),
            up: tally.up.load(Relaxed),
            ended: view.ended,
            packets: tally.packets.load(Relaxed),
            bytes: tally.bytes.load(Relaxed),
            edges: tally.edges.load(Relaxed),
            ignored: tally.ignored_by_reason().map(named).collect(),
            dropped: tally.dropped().into_iter().map(named).collect(),
            protocols: tally.protocols().map(carried).into(),
            groups: view
                .groups
                .as_ref()
                .map(|groups| groups.iter().map(Into::into).collect()),
            layers: view.loads.len(),
            expansions: view.expansions,
            memory_bytes: view.memory_bytes,
            saturated: view.saturated,
            current: (&view.current).into(),
            last: view.last.as_deref().map(Into::into),
        }
    }
}

fn is_nothing(seconds: &f64) -> bool {
    *seconds == 0.0
}

impl WindowState {
    /// How long packets were seen, which rates are of.
    pub fn seen_seconds(&self) -> f64 {
        (self.seconds - self.unseen_seconds).max(0.0)
    }
}

impl From<&WindowView> for WindowState {
    fn from(window: &WindowView) -> Self {
        let seconds = |time: Option<u64>| time.map(|time| time as f64 / 1e9);
        Self {
            start: seconds(window.start),
            end: seconds(window.end),
            seconds: window.seconds(),
            unseen_seconds: window.unseen as f64 / 1e9,
            packets: window.packets,
            bytes: window.bytes,
            distinct_pairs: window.distinct,
            exact: window.exact,
        }
    }
}

impl From<&Group> for GroupTraffic {
    fn from(group: &Group) -> Self {
        Self {
            src: group.src.to_string(),
            dst: group.dst.to_string(),
            traffic: Traffic {
                packets: group.packets,
                bytes: group.bytes,
            },
        }
    }
}

impl HeavyPair {
    /// A pair with its names, in this window.
    pub fn new(flow: &Flow<Pair>, window: &WindowView, names: Option<&Names>) -> Self {
        let (src, dst) = (flow.key.src(), flow.key.dst());
        Self {
            src,
            dst,
            names: PairNames::of(names, src, dst),
            service: window.main_services.get(&flow.key).copied(),
            estimate: flow.into(),
        }
    }
}

impl HeavyNode {
    /// A node with its name.
    pub fn new(flow: &Flow<IpAddr>, names: Option<&Names>) -> Self {
        Self {
            ip: flow.key,
            name: name_of(names, flow.key),
            estimate: flow.into(),
        }
    }
}

impl From<&Flow<Service>> for HeavyService {
    fn from(flow: &Flow<Service>) -> Self {
        Self {
            service: flow.key,
            estimate: flow.into(),
        }
    }
}
