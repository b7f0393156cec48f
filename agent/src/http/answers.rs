//! The answers of the API: types that the server writes and the client reads.
//!
//! Fields may be added; none is removed or changes its meaning. A number that is not known is null.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::Ordering::Relaxed;

use serde::{Deserialize, Serialize};

use crate::lookup::AddressInfo;
use crate::traffic::endpoint::Endpoint;
use crate::traffic::names::{Group, PairNames};
use crate::traffic::question::WindowName;
use crate::window::Window;
use crate::window::answer::{FlowEstimate, NodeEstimate};
use crate::window::info::PairInfo;
use crate::window::keys::PairKey;
use crate::window::list::Row;
use crate::window::lists::Lists;
use crate::window::rates::{RateSeconds, RowRates};
use crate::window::services::ServiceEstimate;
use crate::window::snapshot::InterfaceView;
use crate::window::state::{Figures, WindowState, WindowTime};

/// Path of [`Interfaces`].
pub const INTERFACES: &str = "/api/v1/interfaces";
/// Path of [`HeavyHitters`].
pub const HEAVY_HITTERS: &str = "/api/v1/heavy-hitters";
/// Path of [`FlowAnswer`].
pub const FLOW: &str = "/api/v1/flow";
/// Path of [`NodeAnswer`].
pub const NODE: &str = "/api/v1/node";

/// Path of [`ServiceAnswer`].
pub const SERVICE: &str = "/api/v1/service";
/// Path of the lines of windows.
pub const EXPORT: &str = "/api/v1/export";
/// Path of packets and bytes of the last minutes.
pub const HISTORY: &str = "/api/v1/history";
/// Path of the inner state of sketches.
pub const SKETCH: &str = "/api/v1/sketch";

#[derive(Debug, Serialize, Deserialize)]
pub struct ErrorAnswer {
    pub error: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Interfaces {
    /// Name of the machine.
    #[serde(default)]
    pub host: String,
    /// Version of the agent.
    #[serde(default)]
    pub version: String,
    /// Interfaces that do not exist yet.
    #[serde(default)]
    pub waiting: Vec<String>,
    /// Age of the data. More than a second or two means that the agent is overloaded.
    #[serde(default)]
    pub age_seconds: f64,
    /// In the order in which they were opened.
    pub interfaces: Vec<InterfaceState>,
}

/// Counters of an interface, and the size of its sketches.
#[derive(Debug, Serialize, Deserialize)]
pub struct InterfaceState {
    /// Name of the interface or file.
    pub interface: String,
    /// Whether its capture is open.
    pub up: bool,
    /// Whether it is a file that has been read.
    #[serde(default)]
    pub ended: bool,
    /// Packets received by the capture.
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
    /// Packets stored in sketches.
    pub edges: u64,
    /// Packets not counted, by reason.
    pub ignored: BTreeMap<String, u64>,
    /// Packets lost, by reason.
    pub dropped: BTreeMap<String, u64>,
    /// Packets with addresses, by protocol.
    pub protocols: BTreeMap<String, Traffic>,
    /// Traffic between named networks since the start, most packets first. `None` if networks have
    /// no names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groups: Option<Vec<GroupTraffic>>,
    /// Layers of the sketch of pairs.
    pub layers: usize,
    /// Layers added since the start.
    pub expansions: usize,
    /// Bytes of all sketches.
    pub memory_bytes: usize,
    /// Whether counts may be too low because a cell is full.
    pub saturated: bool,
    /// The window that is being filled.
    pub current: WindowState,
    /// The last complete window.
    pub last: Option<WindowState>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Traffic {
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
}

/// Traffic from one network to another.
#[derive(Debug, Serialize, Deserialize)]
pub struct GroupTraffic {
    pub src: String,
    pub dst: String,
    /// Scaled if only a sample is stored.
    #[serde(flatten)]
    pub traffic: Traffic,
}

/// The lists of a window.
#[derive(Debug, Serialize, Deserialize)]
pub struct HeavyHitters {
    pub interfaces: Vec<InterfaceHitters>,
}

/// The lists of one interface.
#[derive(Debug, Serialize, Deserialize)]
pub struct InterfaceHitters {
    /// Name of the interface or file.
    pub interface: String,
    pub window: WindowName,
    #[serde(flatten)]
    pub state: WindowState,
    /// Number of seconds over which the rates of rows are measured, if rates were requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_seconds: Option<RateSeconds>,
    #[serde(flatten)]
    pub lists: Lists,
}

/// Traffic from one end to another.
#[derive(Debug, Serialize, Deserialize)]
pub struct FlowAnswer {
    pub src: Endpoint,
    pub dst: Endpoint,
    /// Names of the networks of addresses.
    #[serde(flatten)]
    pub names: PairNames,
    /// AS, country and host name of addresses, and the name of an AS.
    #[serde(flatten)]
    pub info: PairInfo,
    /// The requested services; `None` for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    pub interfaces: Vec<InterfaceFlow>,
}

/// The answer of one interface.
#[derive(Debug, Serialize, Deserialize)]
pub struct InterfaceFlow {
    /// Name of the interface or file.
    pub interface: String,
    pub window: WindowName,
    #[serde(flatten)]
    pub time: WindowTime,
    #[serde(flatten)]
    pub flow: FlowEstimate,
}

/// Traffic of services.
#[derive(Debug, Serialize, Deserialize)]
pub struct ServiceAnswer {
    /// The requested services, in the form of the parameter.
    pub service: String,
    pub interfaces: Vec<InterfaceService>,
}

/// The answer of one interface.
#[derive(Debug, Serialize, Deserialize)]
pub struct InterfaceService {
    /// Name of the interface or file.
    pub interface: String,
    pub window: WindowName,
    #[serde(flatten)]
    pub state: WindowState,
    #[serde(flatten)]
    pub service: ServiceEstimate,
}

/// Traffic of an address.
#[derive(Debug, Serialize, Deserialize)]
pub struct NodeAnswer {
    pub ip: IpAddr,
    /// Name of its network, if networks are configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(flatten)]
    pub info: AddressInfo,
    pub interfaces: Vec<InterfaceNode>,
}

/// Rates of an address over the last seconds.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct NodeRates {
    pub rate_seconds: RateSeconds,
    pub sent_rates: RowRates,
    pub received_rates: RowRates,
}

/// The answer of one interface.
#[derive(Debug, Serialize, Deserialize)]
pub struct InterfaceNode {
    /// Name of the interface or file.
    pub interface: String,
    pub window: WindowName,
    #[serde(flatten)]
    pub state: WindowState,
    #[serde(flatten)]
    pub node: NodeEstimate,
    /// Its rates over the last seconds, if they were requested.
    #[serde(flatten)]
    pub rates: Option<NodeRates>,
    /// Its heaviest pairs among those that are known by name, if they were requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pairs: Option<Vec<Row<PairKey>>>,
}

impl InterfaceState {
    pub fn new(view: &InterfaceView, figures: &Figures) -> Self {
        let tally = &view.tally;
        let carried = |(protocol, packets, bytes): (&str, u64, u64)| {
            (protocol.to_owned(), Traffic { packets, bytes })
        };
        let named = |(reason, count): (&str, u64)| (reason.to_owned(), count);
        Self {
            interface: view.name.clone(),
            up: tally.up.load(Relaxed),
            ended: view.ended.is_some(),
            packets: tally.packets.load(Relaxed),
            bytes: tally.bytes.load(Relaxed),
            edges: tally.edges.load(Relaxed),
            ignored: tally.ignored_by_reason().map(named).collect(),
            dropped: tally.dropped().into_iter().map(named).collect(),
            protocols: tally.protocols().map(carried).into(),
            groups: figures
                .groups
                .as_ref()
                .map(|groups| groups.iter().map(Into::into).collect()),
            layers: figures.loads.len(),
            expansions: figures.expansions,
            memory_bytes: figures.memory_bytes,
            saturated: figures.saturated,
            current: figures.current.clone(),
            last: view.last.as_deref().map(Window::state),
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
