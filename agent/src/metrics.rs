//! Every metric this agent exports: its name, its help, where its value comes
//! from. Nothing else in the agent emits metrics.
//!
//! Counters and gauges are taken from the books and the snapshot at each
//! scrape. Families whose series come and go (heavy hitters) are written
//! behind them by hand: the exporter cannot forget a series.
#![allow(clippy::disallowed_macros)]

use std::fmt::Write;
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
use crate::snapshot::Snapshot;
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

/// A family that is written by hand: name, help, value.
type Family = (&'static str, &'static str, fn(&Flow<Pair>) -> u64);

const HEAVY: [Family; 2] = [
    (
        "crane_heavy_hitter_packets",
        "Packets of the heaviest pairs, by packets or by bytes.",
        |flow| flow.packets,
    ),
    (
        "crane_heavy_hitter_bytes",
        "Bytes of the heaviest pairs, by packets or by bytes.",
        |flow| flow.bytes,
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

    /// The text of a scrape.
    pub fn render(&self, snapshot: &Snapshot) -> String {
        for view in &snapshot.interfaces {
            let interface = || view.name.clone();
            let tally = &view.tally;
            let totals = [
                (PACKETS, &tally.packets),
                (BYTES, &tally.bytes),
                (EDGES, &tally.edges),
            ];
            for (name, value) in totals {
                counter!(name, "interface" => interface()).absolute(value.load(Relaxed));
            }
            for (reason, value) in tally.dropped() {
                counter!(DROPPED, "interface" => interface(), "reason" => reason).absolute(value);
            }
            for reason in Ignored::ALL {
                counter!(IGNORED, "interface" => interface(), "reason" => reason.name())
                    .absolute(tally.ignored(reason));
            }
            counter!(EXPANSIONS, "interface" => interface()).absolute(view.expansions as u64);
            let gauges = [
                (UP, f64::from(u8::from(tally.up.load(Relaxed)))),
                (RING_SLOTS, view.ring.0 as f64),
                (RING_USED, view.ring.1 as f64),
                (LAYERS, view.loads.len() as f64),
                (MEMORY, view.memory_bytes as f64),
                (SATURATED, f64::from(u8::from(view.saturated))),
            ];
            for (name, value) in gauges {
                gauge!(name, "interface" => interface()).set(value);
            }
            for (layer, load) in view.loads.iter().enumerate() {
                gauge!(LOAD, "interface" => interface(), "layer" => (layer + 1).to_string())
                    .set(f64::from(*load));
            }
        }
        self.handle.run_upkeep();
        let mut text = self.handle.render();
        for family in HEAVY {
            render_heavy(&mut text, family, snapshot);
        }
        text
    }
}

fn render_heavy(text: &mut String, (name, help, value): Family, snapshot: &Snapshot) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge");
    for view in &snapshot.interfaces {
        let interface = escape(&view.name);
        for flow in view.heavy() {
            let (src, dst) = (flow.key.src(), flow.key.dst());
            let value = value(flow);
            let _ = writeln!(
                text,
                "{name}{{interface=\"{interface}\",src=\"{src}\",dst=\"{dst}\"}} {value}"
            );
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
    describe_gauge!(LOAD, Unit::Count, "Mean value of a layer's cells.");
    describe_gauge!(
        SATURATED,
        Unit::Count,
        "1 when a cell is full and counts may be too low."
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
