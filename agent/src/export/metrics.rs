//! Every metric this agent exports: its name, its help, where its value comes
//! from. Nothing else in the agent emits metrics.
//!
//! Histograms are recorded as batches are stored. Everything else is written
//! at each scrape, straight from the books and the snapshot: nothing is looked
//! up by its name, and a series nobody has any more is not there any more.
#![allow(clippy::disallowed_macros)]

use std::borrow::Cow;
use std::fmt::{Display, Write};
use std::net::IpAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use anyhow::Context;
use crane_model::Flow;
use metrics::{Histogram, Unit, describe_gauge, describe_histogram, gauge, histogram};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

use super::process;
use super::snapshot::{Exported, InterfaceView, Snapshot};
use crate::edge::Pair;

const DROPPED: &str = "crane_capture_dropped_packets_total";
const IGNORED: &str = "crane_capture_ignored_packets_total";
const LOAD: &str = "crane_sketch_load_ratio";
const BATCH_EDGES: &str = "crane_sketch_batch_edges";
const BATCH_SECONDS: &str = "crane_sketch_batch_duration_seconds";
const DEVICE: &str = "crane_device_info";
const BUILD: &str = "crane_build_info";

/// Name, kind and help of a family with one series an interface, and the
/// value of that.
type Family = (
    &'static str,
    &'static str,
    &'static str,
    fn(&InterfaceView) -> f64,
);

/// What came in is read last: it is never less than what became of it.
const FAMILIES: [Family; 15] = [
    (
        "crane_sketch_edges_total",
        "counter",
        "Packets stored in the sketch.",
        |view| view.tally.edges.load(Relaxed) as f64,
    ),
    (
        "crane_capture_bytes_total",
        "counter",
        "Bytes on the wire of the packets the capture handed over.",
        |view| view.tally.bytes.load(Relaxed) as f64,
    ),
    (
        "crane_capture_packets_total",
        "counter",
        "Packets the capture handed over.",
        |view| view.tally.packets.load(Relaxed) as f64,
    ),
    (
        "crane_interface_up",
        "gauge",
        "1 while the capture is open.",
        |view| f64::from(u8::from(view.tally.up.load(Relaxed))),
    ),
    (
        "crane_ring_slots",
        "gauge",
        "Slots of the ring between capture and sketch.",
        |view| view.tally.ring_slots.load(Relaxed) as f64,
    ),
    (
        "crane_ring_used_slots",
        "gauge",
        "Slots of the ring that are taken.",
        |view| view.tally.ring_used.load(Relaxed) as f64,
    ),
    (
        "crane_sketch_layers",
        "gauge",
        "Layers of the sketch.",
        |view| view.loads.len() as f64,
    ),
    (
        "crane_sketch_expansions_total",
        "counter",
        "Times the sketch grew because it was full: more room, or layers in its place.",
        |view| view.expansions as f64,
    ),
    (
        "crane_sketch_memory_bytes",
        "gauge",
        "Memory of the sketch, layers and crown.",
        |view| view.memory_bytes as f64,
    ),
    (
        "crane_sketch_saturated",
        "gauge",
        "1 when a cell is full and counts may be too low.",
        |view| f64::from(u8::from(view.saturated)),
    ),
    (
        "crane_window_seconds",
        "gauge",
        "Length of the window that is exported, so far if it is not complete.",
        |view| view.answering().seconds(),
    ),
    (
        "crane_window_start_timestamp_seconds",
        "gauge",
        "When that window began.",
        |view| view.answering().start.unwrap_or(0) as f64 / 1e9,
    ),
    (
        "crane_window_packets",
        "gauge",
        "Packets in that window.",
        |view| view.answering().packets as f64,
    ),
    (
        "crane_window_bytes",
        "gauge",
        "Bytes in that window.",
        |view| view.answering().bytes as f64,
    ),
    (
        "crane_window_complete",
        "gauge",
        "1 if that window is over, 0 if it is the first one.",
        |view| f64::from(u8::from(view.answering().is_complete())),
    ),
];

/// Histograms of one interface's batches.
pub struct BatchMetrics {
    edges: Histogram,
    seconds: Histogram,
}

impl BatchMetrics {
    /// The histograms of `interface`.
    pub fn of(interface: &str) -> Self {
        Self {
            edges: histogram!(BATCH_EDGES, "interface" => interface.to_owned()),
            seconds: histogram!(BATCH_SECONDS, "interface" => interface.to_owned()),
        }
    }

    /// Notes a batch.
    pub fn record(&self, edges: usize, took: Duration) {
        self.edges.record(edges as f64);
        self.seconds.record(took);
    }
}

/// Renders all metrics as text for Prometheus.
pub struct Exporter {
    handle: PrometheusHandle,
}

impl Exporter {
    /// Installs the recorder; once in a process.
    pub fn install(device: &str) -> anyhow::Result<Self> {
        let edges = [1.0, 8.0, 64.0, 256.0, 1024.0, 4096.0, 16384.0];
        let seconds = [1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0];
        let handle = PrometheusBuilder::new()
            .set_buckets_for_metric(Matcher::Full(BATCH_EDGES.into()), &edges)?
            .set_buckets_for_metric(Matcher::Full(BATCH_SECONDS.into()), &seconds)?
            .install_recorder()
            .context("metrics cannot be recorded")?;
        describe();
        gauge!(DEVICE, "device" => device.to_owned()).set(1.0);
        gauge!(BUILD, "version" => env!("CARGO_PKG_VERSION")).set(1.0);
        Ok(Self { handle })
    }

    /// Empties the histograms' queues, which grow with every batch.
    pub fn tidy_up(&self) {
        self.handle.run_upkeep();
    }

    /// The text of a scrape.
    pub fn render(&self, snapshot: &Snapshot) -> String {
        let mut text = self.handle.render();
        write_books(&mut text, snapshot);
        write_loads(&mut text, snapshot);
        write_hitters(&mut text, snapshot);
        process::write(&mut text);
        text
    }
}

/// What became of packets, and the families with a series an interface.
fn write_books(text: &mut String, snapshot: &Snapshot) {
    head(text, DROPPED, "counter", "Packets lost, by who lost them.");
    for view in &snapshot.interfaces {
        for (reason, value) in view.tally.dropped() {
            labelled(text, DROPPED, &view.name, ("reason", reason), value);
        }
    }
    head(
        text,
        IGNORED,
        "counter",
        "Packets that are no edge, by reason.",
    );
    for view in &snapshot.interfaces {
        for (reason, value) in view.tally.ignored_by_reason() {
            labelled(text, IGNORED, &view.name, ("reason", reason), value);
        }
    }
    for (name, kind, help, value) in FAMILIES {
        head(text, name, kind, help);
        for view in &snapshot.interfaces {
            let (interface, value) = (escape(&view.name), value(view));
            let _ = writeln!(text, "{name}{{interface=\"{interface}\"}} {value}");
        }
    }
}

/// The lines before the series of a family.
fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "\n# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// A series of an interface with a label of its own.
fn labelled(
    text: &mut String,
    name: &str,
    interface: &str,
    (label, which): (&str, impl Display),
    value: impl Display,
) {
    let interface = escape(interface);
    let _ = writeln!(
        text,
        "{name}{{interface=\"{interface}\",{label}=\"{which}\"}} {value}"
    );
}

/// Layers come and go with windows.
fn write_loads(text: &mut String, snapshot: &Snapshot) {
    head(text, LOAD, "gauge", "How full a layer is.");
    for view in &snapshot.interfaces {
        for (layer, load) in (1..).zip(&view.loads) {
            labelled(text, LOAD, &view.name, ("layer", layer), load);
        }
    }
}

/// Families whose series come and go, and the watch list.
fn write_hitters(text: &mut String, snapshot: &Snapshot) {
    let pair = |text: &mut String, flow: &Flow<Pair>| {
        let _ = write!(
            text,
            "src=\"{}\",dst=\"{}\"",
            flow.key.src(),
            flow.key.dst()
        );
    };
    let node = |text: &mut String, flow: &Flow<IpAddr>| {
        let _ = write!(text, "ip=\"{}\"", flow.key);
    };
    write_family(
        text,
        snapshot,
        "heavy_hitter",
        "of the heaviest pairs",
        pair,
        |exported| exported.pairs.union().collect(),
    );
    write_family(
        text,
        snapshot,
        "top_source",
        "sent by the heaviest senders",
        node,
        |exported| exported.sources.union().collect(),
    );
    write_family(
        text,
        snapshot,
        "top_destination",
        "sent to the heaviest receivers",
        node,
        |exported| exported.destinations.union().collect(),
    );
    let help = "Packets of the pairs in the watch list, estimated.";
    write_series(
        text,
        snapshot,
        "crane_flow_estimate_packets",
        help,
        pair,
        |flow| flow.packets,
        |exported| exported.watched.iter().collect(),
    );
}

/// A family by packets and one by bytes.
fn write_family<K>(
    text: &mut String,
    snapshot: &Snapshot,
    name: &str,
    of_whom: &str,
    labels: impl Fn(&mut String, &Flow<K>),
    flows: fn(&Exported) -> Vec<&Flow<K>>,
) {
    for (unit, what, value) in [
        (
            "packets",
            "Packets",
            (|flow| flow.packets) as fn(&Flow<K>) -> u64,
        ),
        ("bytes", "Bytes counted", |flow| flow.bytes_at_least),
    ] {
        let help = format!("{what} {of_whom} in the window, by packets or by bytes.");
        write_series(
            text,
            snapshot,
            &format!("crane_{name}_{unit}"),
            &help,
            &labels,
            value,
            flows,
        );
    }
}

fn write_series<K>(
    text: &mut String,
    snapshot: &Snapshot,
    name: &str,
    help: &str,
    labels: impl Fn(&mut String, &Flow<K>),
    value: fn(&Flow<K>) -> u64,
    flows: fn(&Exported) -> Vec<&Flow<K>>,
) {
    head(text, name, "gauge", help);
    for view in &snapshot.interfaces {
        let interface = escape(&view.name);
        for flow in flows(&view.exported) {
            let _ = write!(text, "{name}{{interface=\"{interface}\",");
            labels(text, flow);
            let _ = writeln!(text, "}} {}", value(flow));
        }
    }
}

fn escape(label: &str) -> Cow<'_, str> {
    if !label.contains(['\\', '"', '\n']) {
        return label.into();
    }
    let escaped = label
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n");
    escaped.into()
}

fn describe() {
    describe_histogram!(BATCH_EDGES, Unit::Count, "Packets of a batch.");
    describe_histogram!(BATCH_SECONDS, Unit::Seconds, "Time to store a batch.");
    describe_gauge!(
        DEVICE,
        Unit::Count,
        "1, with the device the sketch runs on."
    );
    describe_gauge!(BUILD, Unit::Count, "1, with the version of the agent.");
}
