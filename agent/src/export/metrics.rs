//! Every metric this agent exports: its name, its help, where its value comes
//! from. Nothing else in the agent emits metrics.
//!
//! There is one way to make a metric of each kind:
//! - a counter or gauge with a series an interface is a row of [`FAMILIES`];
//! - one with a series for each reason, protocol or layer is written like [`DROPPED`];
//! - a list of hitters is written by [`write_hitters`], one of fans by [`write_fans`],
//!   the watch list by [`watched`];
//! - a histogram is written like those of [`write_batches`];
//! - what is said of the whole [`agent`] is set when it begins, when it changes, or
//!   before each scrape.
//!
//! The last is kept by the `metrics` crate, which is made for series that stay. It
//! never forgets one that was named, but interfaces, hitters, layers and files come
//! and go: they are written at each scrape, straight from the snapshot, so that a
//! series nobody has any more is not there any more. And counters are in the
//! tally already, where no capture has to look them up by their name.

use std::fmt::{self, Display};
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::atomic::Ordering::Relaxed;

use anyhow::Context;
use crane_model::Flow;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

use super::agent;
use super::fans::{FanList, FanLists, Notable};
use super::hitters::Hitters;
use super::process;
use super::snapshot::{Exported, InterfaceView, Snapshot};
use super::text::{Family, Kind, escape};
use super::watched;
use crate::edge::Pair;
use crate::service::Service;

const DROPPED: &str = "crane_capture_dropped_packets_total";
const IGNORED: &str = "crane_capture_ignored_packets_total";
const PROTOCOL_PACKETS: &str = "crane_protocol_packets_total";
const PROTOCOL_BYTES: &str = "crane_protocol_bytes_total";
const GROUP_PACKETS: &str = "crane_group_packets_total";
const GROUP_BYTES: &str = "crane_group_bytes_total";
const LOAD: &str = "crane_sketch_load_ratio";
const FAN_OUT: &str = "crane_fan_out_peers";
const FAN_IN: &str = "crane_fan_in_peers";
const NOTABLE: &str = "crane_notable";
const BATCH_EDGES: &str = "crane_sketch_batch_edges";
const BATCH_SECONDS: &str = "crane_sketch_batch_duration_seconds";
/// Windows differ in length: the first, the last of a file.
pub(super) const RATE: &str = "for a rate, divide by crane_window_seconds.";

/// A family with one series an interface: name, kind and help, and the value of
/// each series.
type Row = (&'static str, Kind, &'static str, fn(&InterfaceView) -> f64);

/// What came in is read last: it is never less than what became of it.
const FAMILIES: [Row; 18] = [
    (
        "crane_sketch_edges_total",
        Kind::Counter,
        "Packets stored in the sketch.",
        |view| view.tally.edges.load(Relaxed) as f64,
    ),
    (
        "crane_capture_bytes_total",
        Kind::Counter,
        "Bytes on the wire of the packets the capture handed over.",
        |view| view.tally.bytes.load(Relaxed) as f64,
    ),
    (
        "crane_capture_packets_total",
        Kind::Counter,
        "Packets the capture handed over.",
        |view| view.tally.packets.load(Relaxed) as f64,
    ),
    (
        "crane_interface_up",
        Kind::Gauge,
        "1 while the interface is up and its capture open.",
        |view| f64::from(u8::from(view.tally.up.load(Relaxed))),
    ),
    (
        "crane_capture_buffer_bytes",
        Kind::Gauge,
        "Kernel buffer of the capture.",
        |view| view.tally.buffer_bytes.load(Relaxed) as f64,
    ),
    (
        "crane_ring_slots",
        Kind::Gauge,
        "Slots of the ring between capture and sketch.",
        |view| view.tally.ring_slots.load(Relaxed) as f64,
    ),
    (
        "crane_ring_used_slots",
        Kind::Gauge,
        "Slots of the ring that are taken.",
        |view| view.tally.ring_used.load(Relaxed) as f64,
    ),
    (
        "crane_sketch_layers",
        Kind::Gauge,
        "Layers of the sketch.",
        |view| view.loads.len() as f64,
    ),
    (
        "crane_sketch_expansions_total",
        Kind::Counter,
        "Times the sketch grew because it was full: more room, or layers in its place.",
        |view| view.expansions as f64,
    ),
    (
        "crane_sketch_memory_bytes",
        Kind::Gauge,
        "Memory of the sketch.",
        |view| view.memory_bytes as f64,
    ),
    (
        "crane_sketch_saturated",
        Kind::Gauge,
        "1 when a cell is full and counts may be too low.",
        |view| f64::from(u8::from(view.saturated)),
    ),
    (
        "crane_window_seconds",
        Kind::Gauge,
        "Length of the window that is exported, so far if it is not complete.",
        |view| view.answering().seconds(),
    ),
    (
        "crane_window_start_timestamp_seconds",
        Kind::Gauge,
        "When that window began.",
        |view| view.answering().start.unwrap_or(0) as f64 / 1e9,
    ),
    (
        "crane_window_unseen_seconds",
        Kind::Gauge,
        "How much of that window no agent saw: from its last save to the restart.",
        |view| view.answering().unseen as f64 / 1e9,
    ),
    (
        "crane_window_save_failures_total",
        Kind::Counter,
        "Times the current window could not be saved for a restart.",
        |view| view.tally.save_failures.load(Relaxed) as f64,
    ),
    (
        "crane_window_packets",
        Kind::Gauge,
        "Packets in that window; for a rate, divide by crane_window_seconds.",
        |view| view.answering().packets as f64,
    ),
    (
        "crane_window_bytes",
        Kind::Gauge,
        "Bytes in that window; for a rate, divide by crane_window_seconds.",
        |view| view.answering().bytes as f64,
    ),
    (
        "crane_window_complete",
        Kind::Gauge,
        "1 if that window is over, 0 if it is the first one.",
        |view| f64::from(u8::from(view.answering().is_complete())),
    ),
];

/// Renders all metrics as text for Prometheus.
pub struct Exporter {
    handle: PrometheusHandle,
}

impl Exporter {
    /// Installs the recorder; once in a process.
    pub fn install(device: &str) -> anyhow::Result<Self> {
        let handle = PrometheusBuilder::new()
            .install_recorder()
            .context("metrics cannot be recorded")?;
        agent::begin(device);
        Ok(Self { handle })
    }

    /// The text of a scrape.
    pub fn render(&self, snapshot: &Snapshot) -> String {
        agent::count_panics();
        let mut text = self.handle.render();
        write_batches(&mut text, snapshot);
        write_tally(&mut text, snapshot);
        write_protocols(&mut text, snapshot);
        write_groups(&mut text, snapshot);
        write_loads(&mut text, snapshot);
        write_hitters(&mut text, snapshot);
        write_fans(&mut text, snapshot);
        watched::write(&mut text, snapshot);
        process::write(&mut text);
        text
    }
}

/// How the worker gets on.
fn write_batches(text: &mut String, snapshot: &Snapshot) {
    let help = "Packets of a batch.";
    let mut family = Family::begin(text, BATCH_EDGES, Kind::Histogram, help);
    for view in &snapshot.interfaces {
        family.histogram(&view.name, &view.tally.batches.edges());
    }
    let help = "Time to store a batch.";
    let mut family = Family::begin(text, BATCH_SECONDS, Kind::Histogram, help);
    for view in &snapshot.interfaces {
        family.histogram(&view.name, &view.tally.batches.seconds());
    }
}

/// What became of packets, and the families with a series an interface.
fn write_tally(text: &mut String, snapshot: &Snapshot) {
    let help = "Packets lost, by who lost them.";
    let mut family = Family::begin(text, DROPPED, Kind::Counter, help);
    for view in &snapshot.interfaces {
        for (reason, count) in view.tally.dropped() {
            family.series(&view.name, format_args!(",reason=\"{reason}\""), count);
        }
    }
    let help = "Packets that are no edge, by reason.";
    let mut family = Family::begin(text, IGNORED, Kind::Counter, help);
    for view in &snapshot.interfaces {
        for (reason, count) in view.tally.ignored_by_reason() {
            family.series(&view.name, format_args!(",reason=\"{reason}\""), count);
        }
    }
    for (name, kind, help, value) in FAMILIES {
        let mut family = Family::begin(text, name, kind, help);
        for view in &snapshot.interfaces {
            family.series(&view.name, format_args!(""), value(view));
        }
    }
}

/// All protocols from the start, each by packets and by bytes.
fn write_protocols(text: &mut String, snapshot: &Snapshot) {
    for (name, what) in [
        (PROTOCOL_PACKETS, "Packets"),
        (PROTOCOL_BYTES, "Bytes of packets"),
    ] {
        let help = format!("{what} that are looked at and have addresses, by what they carry.");
        let mut family = Family::begin(text, name, Kind::Counter, &help);
        for view in &snapshot.interfaces {
            for (protocol, packets, bytes) in view.tally.protocols() {
                let value = if name == PROTOCOL_BYTES {
                    bytes
                } else {
                    packets
                };
                family.series(&view.name, format_args!(",protocol=\"{protocol}\""), value);
            }
        }
    }
}

/// Pairs of names that were seen; nothing at all where networks have no names.
fn write_groups(text: &mut String, snapshot: &Snapshot) {
    if snapshot.names.is_none() {
        return;
    }
    for (name, what) in [
        (GROUP_PACKETS, "Packets"),
        (GROUP_BYTES, "Bytes of packets"),
    ] {
        let help = format!(
            "{what} stored in the sketch, by the names of source and destination; exact, and \
             scaled up if only a sample is looked at."
        );
        let mut family = Family::begin(text, name, Kind::Counter, &help);
        for view in &snapshot.interfaces {
            for group in view.groups.iter().flatten() {
                let value = if name == GROUP_BYTES {
                    group.bytes
                } else {
                    group.packets
                };
                let (src, dst) = (escape(&group.src), escape(&group.dst));
                let labels = format_args!(",src=\"{src}\",dst=\"{dst}\"");
                family.series(&view.name, labels, value);
            }
        }
    }
}

/// Layers come and go with windows.
fn write_loads(text: &mut String, snapshot: &Snapshot) {
    let mut family = Family::begin(text, LOAD, Kind::Gauge, "How full a layer is.");
    for view in &snapshot.interfaces {
        for (layer, load) in (1..).zip(&view.loads) {
            family.series(&view.name, format_args!(",layer=\"{layer}\""), load);
        }
    }
}

/// Families whose series come and go.
fn write_hitters(text: &mut String, snapshot: &Snapshot) {
    let (pairs, senders, receivers) = (
        "of the heaviest pairs",
        "sent by the heaviest senders",
        "sent to the heaviest receivers",
    );
    write_list(text, snapshot, "heavy_hitter", pairs, |of| &of.pairs);
    write_list(text, snapshot, "top_source", senders, |of| &of.sources);
    write_list(text, snapshot, "top_destination", receivers, |of| {
        &of.destinations
    });
    let services = "of the heaviest services";
    write_list(text, snapshot, "top_service", services, |of| &of.services);
}

/// Who talks with most others, in each direction.
fn write_fans(text: &mut String, snapshot: &Snapshot) {
    type List = fn(&FanLists) -> &FanList;
    let out: (_, _, _, List) = (FAN_OUT, "sources", "sent to", |fans| &fans.out);
    let into: (_, _, _, List) = (FAN_IN, "destinations", "received from", |fans| &fans.into);
    for (name, whom, what, list) in [out, into] {
        let help = format!(
            "Different addresses that each of the {whom} with most of them {what} in the \
             window, estimated, of those that stand out; of a sample, those that were seen."
        );
        let mut family = Family::begin(text, name, Kind::Gauge, &help);
        for view in &snapshot.interfaces {
            for node in &list(&view.exported.fans).nodes {
                let labels = Labels(&node.ip);
                family.series(&view.name, format_args!("{labels}"), node.peers.peers);
            }
        }
    }
    let help = "Different addresses that a notable address talked with in the window, by kind: \
                a scan or a flood has a packet or two with most of them, fan_out and fan_in more.";
    let mut family = Family::begin(text, NOTABLE, Kind::Gauge, help);
    for view in &snapshot.interfaces {
        for Notable { kind, node } in &view.exported.fans.notable {
            let (kind, ip) = (kind.name(), Labels(&node.ip));
            let labels = format_args!(",kind=\"{kind}\"{ip}");
            family.series(&view.name, labels, node.peers.peers);
        }
    }
}

/// A family by packets and one by bytes, with all who are heavy by either.
fn write_list<K>(
    text: &mut String,
    snapshot: &Snapshot,
    name: &str,
    of_whom: &str,
    hitters: fn(&Exported) -> &Hitters<K>,
) where
    K: Copy + Eq + Hash + Ord,
    for<'a> Labels<'a, K>: Display,
{
    for (unit, what) in [("packets", "Packets"), ("bytes", "Bytes")] {
        let value = |flow: &Flow<K>| match unit {
            "packets" => flow.packets.estimate,
            _ => flow.bytes.estimate,
        };
        let name = format!("crane_{name}_{unit}");
        let help = format!("{what} {of_whom} in the window, by packets or by bytes; {RATE}");
        let mut family = Family::begin(text, &name, Kind::Gauge, &help);
        for view in &snapshot.interfaces {
            for flow in hitters(&view.exported).union() {
                let labels = Labels(&flow.key);
                family.series(&view.name, format_args!("{labels}"), value(flow));
            }
        }
    }
}

/// The labels of a pair, a node or a service.
pub(super) struct Labels<'a, K>(pub(super) &'a K);

impl Display for Labels<'_, Pair> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ",src=\"{}\",dst=\"{}\"", self.0.src(), self.0.dst())
    }
}

impl Display for Labels<'_, IpAddr> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ",ip=\"{}\"", self.0)
    }
}

impl Display for Labels<'_, Service> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ",protocol=\"{}\",port=\"", self.0.protocol())?;
        if let Some(port) = self.0.port() {
            write!(f, "{port}")?;
        }
        f.write_str("\"")
    }
}
