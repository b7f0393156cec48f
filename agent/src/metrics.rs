//! Every metric this agent exports: its name, its help, where its value comes
//! from. Nothing else in the agent emits metrics.
//!
//! Counters and gauges are taken from the books and the snapshot at each
//! scrape. Families whose series come and go (heavy hitters) are written
//! behind them by hand: the exporter cannot forget a series.
#![allow(clippy::disallowed_macros)]

use std::fmt::Write;
use std::net::Ipv6Addr;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use anyhow::Context;
use crane_model::Flow;
use metrics::{
    Histogram, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge,
    histogram,
};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

use crate::edge::Pair;
use crate::process;
use crate::snapshot::{Exported, Snapshot};
use crate::tally::Ignored;

const PACKETS: &str = "crane_capture_packets_total";
const BYTES: &str = "crane_capture_bytes_total";
const DROPPED: &str = "crane_capture_dropped_packets_total";
const IGNORED: &str = "crane_capture_ignored_packets_total";
const UP: &str = "crane_interface_up";
const RING_SLOTS: &str = "crane_ring_slots";
const RING_USED: &str = "crane_ring_used_slots";
const EDGES: &str = "crane_sketch_edges_total";
const LAYERS: &str = "crane_sketch_layers";
const EXPANSIONS: &str = "crane_sketch_expansions_total";
const MEMORY: &str = "crane_sketch_memory_bytes";
const LOAD: &str = "crane_sketch_load_ratio";
const SATURATED: &str = "crane_sketch_saturated";
const BATCH_EDGES: &str = "crane_sketch_batch_edges";
const BATCH_SECONDS: &str = "crane_sketch_batch_duration_seconds";
const DEVICE: &str = "crane_device_info";
const BUILD: &str = "crane_build_info";

const WINDOW_SECONDS: &str = "crane_window_seconds";
const WINDOW_START: &str = "crane_window_start_timestamp_seconds";
const WINDOW_PACKETS: &str = "crane_window_packets";
const WINDOW_BYTES: &str = "crane_window_bytes";
const WINDOW_COMPLETE: &str = "crane_window_complete";

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
        for view in &snapshot.interfaces {
            let interface = || view.name.clone();
            let (tally, window) = (&view.tally, view.answering());
            for (reason, value) in tally.dropped() {
                counter!(DROPPED, "interface" => interface(), "reason" => reason).absolute(value);
            }
            for reason in Ignored::ALL {
                counter!(IGNORED, "interface" => interface(), "reason" => reason.name())
                    .absolute(tally.ignored(reason));
            }
            // What came in is read last: it is never less than what became of it.
            let totals = [
                (EDGES, &tally.edges),
                (BYTES, &tally.bytes),
                (PACKETS, &tally.packets),
            ];
            for (name, value) in totals {
                counter!(name, "interface" => interface()).absolute(value.load(Relaxed));
            }
            counter!(EXPANSIONS, "interface" => interface()).absolute(view.expansions as u64);
            let gauges = [
                (UP, f64::from(u8::from(tally.up.load(Relaxed)))),
                (RING_SLOTS, tally.ring_slots.load(Relaxed) as f64),
                (RING_USED, tally.ring_used.load(Relaxed) as f64),
                (LAYERS, view.loads.len() as f64),
                (MEMORY, view.memory_bytes as f64),
                (SATURATED, f64::from(u8::from(view.saturated))),
                (WINDOW_SECONDS, window.seconds()),
                (WINDOW_START, window.start.unwrap_or(0) as f64 / 1e9),
                (WINDOW_PACKETS, window.packets as f64),
                (WINDOW_BYTES, window.bytes as f64),
                (WINDOW_COMPLETE, f64::from(u8::from(window.is_complete()))),
            ];
            for (name, value) in gauges {
                gauge!(name, "interface" => interface()).set(value);
            }
        }
        let mut text = self.handle.render();
        write_loads(&mut text, snapshot);
        write_hitters(&mut text, snapshot);
        process::write(&mut text);
        text
    }
}

/// Layers come and go with windows.
fn write_loads(text: &mut String, snapshot: &Snapshot) {
    let _ = writeln!(
        text,
        "# HELP {LOAD} How full a layer is.\n# TYPE {LOAD} gauge"
    );
    for view in &snapshot.interfaces {
        let interface = escape(&view.name);
        for (layer, load) in (1..).zip(&view.loads) {
            let _ = writeln!(
                text,
                "{LOAD}{{interface=\"{interface}\",layer=\"{layer}\"}} {load}"
            );
        }
    }
    text.push('\n');
}

/// Families whose series come and go, and the watch list.
fn write_hitters(text: &mut String, snapshot: &Snapshot) {
    let pair = |flow: &Flow<Pair>| format!("src=\"{}\",dst=\"{}\"", flow.key.src(), flow.key.dst());
    let node = |flow: &Flow<Ipv6Addr>| format!("ip=\"{}\"", flow.key.to_canonical());
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
    labels: impl Fn(&Flow<K>) -> String,
    flows: fn(&Exported) -> Vec<&Flow<K>>,
) {
    for (unit, what, value) in [
        (
            "packets",
            "Packets",
            (|flow| flow.packets) as fn(&Flow<K>) -> u64,
        ),
        ("bytes", "Bytes", |flow| flow.bytes),
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
    labels: impl Fn(&Flow<K>) -> String,
    value: fn(&Flow<K>) -> u64,
    flows: fn(&Exported) -> Vec<&Flow<K>>,
) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge");
    for view in &snapshot.interfaces {
        let interface = escape(&view.name);
        for flow in flows(&view.exported) {
            let (labels, value) = (labels(flow), value(flow));
            let _ = writeln!(text, "{name}{{interface=\"{interface}\",{labels}}} {value}");
        }
    }
    text.push('\n');
}

fn escape(label: &str) -> String {
    label
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

fn describe() {
    describe_counter!(PACKETS, Unit::Count, "Packets the capture handed over.");
    describe_counter!(BYTES, Unit::Bytes, "Bytes on the wire of these packets.");
    describe_counter!(DROPPED, Unit::Count, "Packets lost, by who lost them.");
    describe_counter!(IGNORED, Unit::Count, "Packets that are no edge, by reason.");
    describe_gauge!(UP, Unit::Count, "1 while the capture is open.");
    describe_gauge!(
        RING_SLOTS,
        Unit::Count,
        "Slots of the ring between capture and sketch."
    );
    describe_gauge!(RING_USED, Unit::Count, "Slots of the ring that are taken.");
    describe_counter!(EDGES, Unit::Count, "Packets stored in the sketch.");
    describe_gauge!(LAYERS, Unit::Count, "Layers of the sketch.");
    describe_counter!(
        EXPANSIONS,
        Unit::Count,
        "Layers added because the top one was full."
    );
    describe_gauge!(
        MEMORY,
        Unit::Bytes,
        "Memory of the sketch, layers and crown."
    );
    describe_gauge!(
        SATURATED,
        Unit::Count,
        "1 when a cell is full and counts may be too low."
    );
    describe_gauge!(
        WINDOW_SECONDS,
        Unit::Seconds,
        "Length of the window that is exported, so far if it is not complete."
    );
    describe_gauge!(WINDOW_START, Unit::Seconds, "When that window began.");
    describe_gauge!(WINDOW_PACKETS, Unit::Count, "Packets in that window.");
    describe_gauge!(WINDOW_BYTES, Unit::Bytes, "Bytes in that window.");
    describe_gauge!(
        WINDOW_COMPLETE,
        Unit::Count,
        "1 if that window is over, 0 if it is the first one."
    );
    describe_histogram!(BATCH_EDGES, Unit::Count, "Packets of a batch.");
    describe_histogram!(BATCH_SECONDS, Unit::Seconds, "Time to store a batch.");
    describe_gauge!(
        DEVICE,
        Unit::Count,
        "1, with the device the sketch runs on."
    );
    describe_gauge!(BUILD, Unit::Count, "1, with the version of the agent.");
}
