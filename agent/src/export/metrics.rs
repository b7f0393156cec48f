//! Every metric of this agent: name, help and source of its value. Nothing else in the agent emits
//! metrics.
//!
//! Each kind of metric is written in one way:
//! - a counter or gauge with one series per interface is a row of [`FAMILIES`];
//! - a family with a series per reason, protocol or layer is written like [`DROPPED`];
//! - a list of heavy keys is written by [`write_hitters`], one of fans by [`write_fans`],
//!   the watch list by [`watched`];
//! - a histogram is written like those of [`write_batches`];
//! - metrics of the whole [`agent`] are set at the start, on changes, or before a scrape.
//!
//! Metrics of the agent are kept by the `metrics` crate, whose series never disappear. Series of
//! interfaces, heavy keys, layers and files do disappear, so they are written at each scrape, from
//! [`Scraped`]. A fresh recorder of that crate for each scrape would have such series, too, but
//! takes about six times as long, more than the 10 ms that 101 interfaces may take
//! (`benches/exposition.rs`). Counters are read from the tally, so that captures do not look them
//! up by name.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use anyhow::Context;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

use super::agent;
use super::process;
use super::stable_lists::StableLists;
use super::text::{Family, Kind};
use super::watched;
use crate::text::plain::label;
use crate::traffic::question::By;
use crate::window::Window;
use crate::window::estimate::PeerEstimate;
use crate::window::keys::AddressKey;
use crate::window::list::{Key, List, Row as ListRow, Value};
use crate::window::lists::{Lists, Notable};
use crate::window::snapshot::InterfaceView;
use crate::window::state::{Figures, WindowState};
use crate::window::view::View;

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
/// The end of help texts. The first window and the last one of a file may be shorter than others.
pub(super) const RATE: &str = "for a rate, divide by crane_window_seconds.";

/// A family with one series per interface: name, kind, help, and the value of a series.
type Row = (&'static str, Kind, &'static str, fn(&Scraped) -> f64);

/// Received packets are written after stored and dropped ones. Counters are read in this order, so
/// that packets received are never fewer than packets stored and dropped.
const FAMILIES: [Row; 19] = [
    (
        "crane_sketch_edges_total",
        Kind::Counter,
        "Packets stored in the sketch.",
        |of| of.view.tally.edges.load(Relaxed) as f64,
    ),
    (
        "crane_capture_bytes_total",
        Kind::Counter,
        "Bytes on the wire of the packets the capture handed over.",
        |of| of.view.tally.bytes.load(Relaxed) as f64,
    ),
    (
        "crane_capture_packets_total",
        Kind::Counter,
        "Packets the capture handed over.",
        |of| of.view.tally.packets.load(Relaxed) as f64,
    ),
    (
        "crane_interface_up",
        Kind::Gauge,
        "1 while the interface is up and its capture open.",
        |of| f64::from(u8::from(of.view.tally.up.load(Relaxed))),
    ),
    (
        "crane_capture_buffer_bytes",
        Kind::Gauge,
        "Kernel buffer of the capture.",
        |of| of.view.tally.buffer_bytes.load(Relaxed) as f64,
    ),
    (
        "crane_ring_slots",
        Kind::Gauge,
        "Slots of the ring between capture and sketch.",
        |of| of.view.tally.ring_slots.load(Relaxed) as f64,
    ),
    (
        "crane_ring_used_slots",
        Kind::Gauge,
        "Slots of the ring that are taken.",
        |of| of.view.tally.ring_used.load(Relaxed) as f64,
    ),
    (
        "crane_sketch_layers",
        Kind::Gauge,
        "Layers of the sketch.",
        |of| of.figures.loads.len() as f64,
    ),
    (
        "crane_sketch_expansions_total",
        Kind::Counter,
        "Times the sketch grew because it was full: more room, or layers in its place.",
        |of| of.figures.expansions as f64,
    ),
    (
        "crane_sketch_memory_bytes",
        Kind::Gauge,
        "Memory of the sketch.",
        |of| of.figures.memory_bytes as f64,
    ),
    (
        "crane_sketch_saturated",
        Kind::Gauge,
        "1 when a cell is full and counts may be too low.",
        |of| f64::from(u8::from(of.figures.saturated)),
    ),
    (
        "crane_window_seconds",
        Kind::Gauge,
        "Length of the exported window; until now if it is not complete.",
        |of| of.window.time.seconds,
    ),
    (
        "crane_window_start_timestamp_seconds",
        Kind::Gauge,
        "When the exported window began.",
        |of| of.window.time.start.unwrap_or(0.0),
    ),
    (
        "crane_window_unseen_seconds",
        Kind::Gauge,
        "How long no agent ran during the exported window: from its last save to the restart.",
        |of| of.window.unseen_seconds,
    ),
    (
        "crane_window_save_failures_total",
        Kind::Counter,
        "Times the current window could not be saved for a restart.",
        |of| of.view.tally.save_failures.load(Relaxed) as f64,
    ),
    (
        "crane_export_lines_lost_total",
        Kind::Counter,
        "Lines of windows that could not be written to export.jsonl.",
        |of| of.view.tally.lines_lost.load(Relaxed) as f64,
    ),
    (
        "crane_window_packets",
        Kind::Gauge,
        "Packets in the exported window; for a rate, divide by crane_window_seconds.",
        |of| of.window.packets as f64,
    ),
    (
        "crane_window_bytes",
        Kind::Gauge,
        "Bytes in the exported window; for a rate, divide by crane_window_seconds.",
        |of| of.window.bytes as f64,
    ),
    (
        "crane_window_complete",
        Kind::Gauge,
        "1 if the exported window is complete, 0 if it is the first one and has not ended.",
        |of| f64::from(u8::from(of.view.last.is_some())),
    ),
];

/// An interface at the time of a scrape.
pub struct Scraped {
    pub view: Arc<InterfaceView>,
    pub figures: Arc<Figures>,
    /// The window that is exported.
    pub window: WindowState,
    pub exported: Arc<StableLists>,
}

/// Renders all metrics as text for Prometheus.
pub struct Exporter {
    handle: PrometheusHandle,
    known: Mutex<HashMap<String, Known>>,
}

/// State of an interface that is kept between scrapes.
#[derive(Default)]
struct Known {
    figures: Arc<Figures>,
    /// The window that was exported last, and the view that it was exported with.
    window: Weak<Window>,
    view: Weak<View>,
    exported: Arc<StableLists>,
}

impl Exporter {
    /// Installs the recorder, once in a process.
    pub fn install(device: &str) -> anyhow::Result<Self> {
        let handle = PrometheusBuilder::new()
            .install_recorder()
            .context("metrics cannot be recorded")?;
        agent::begin(device);
        Ok(Self {
            handle,
            known: Mutex::default(),
        })
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores the figures of all interfaces, and removes interfaces that are not among them.
    pub fn remember(&self, figures: Vec<(Arc<InterfaceView>, Arc<Figures>)>) {
        let mut known = self.known();
        let mut before = std::mem::take(&mut *known);
        for (view, figures) in figures {
            let mut one = before.remove(&view.name).unwrap_or_default();
            one.figures = figures;
            known.insert(view.name.clone(), one);
        }
    }

    /// The last known figures of an interface.
    pub fn figures(&self, interface: &str) -> Arc<Figures> {
        let known = self.known();
        let known = known.get(interface);
        known.map_or_else(Arc::default, |known| Arc::clone(&known.figures))
    }

    /// The exported lists of a complete window, which are computed once for all scrapes.
    pub fn exported(
        &self,
        interface: &str,
        window: &Arc<Window>,
        view: &Arc<View>,
    ) -> Arc<StableLists> {
        let mut known = self.known();
        let known = known.entry(interface.to_owned()).or_default();
        let same_view = known.view.ptr_eq(&Arc::downgrade(view));
        if !same_view {
            known.exported = Arc::default();
        }
        if !same_view || !known.window.ptr_eq(&Arc::downgrade(window)) {
            let exported = StableLists::after(&known.exported, window, view);
            known.exported = Arc::new(exported);
            (known.window, known.view) = (Arc::downgrade(window), Arc::downgrade(view));
        }
        Arc::clone(&known.exported)
    }

    /// The text of a scrape.
    pub fn render(&self, scraped: &[Scraped]) -> String {
        agent::count_panics();
        let mut text = self.handle.render();
        write_batches(&mut text, scraped);
        write_tally(&mut text, scraped);
        write_protocols(&mut text, scraped);
        write_groups(&mut text, scraped);
        write_loads(&mut text, scraped);
        write_hitters(&mut text, scraped);
        write_complete(&mut text, scraped);
        write_fans(&mut text, scraped);
        watched::write(&mut text, scraped);
        process::write(&mut text);
        text
    }
}

/// Histograms of the worker's batches.
fn write_batches(text: &mut String, scraped: &[Scraped]) {
    let help = "Packets of a batch.";
    let mut family = Family::begin(text, BATCH_EDGES, Kind::Histogram, help);
    for of in scraped {
        family.histogram(&of.view.name, &of.view.tally.batches.edges());
    }
    let help = "Time to store a batch.";
    let mut family = Family::begin(text, BATCH_SECONDS, Kind::Histogram, help);
    for of in scraped {
        family.histogram(&of.view.name, &of.view.tally.batches.seconds());
    }
}

/// Counters of packets, and the families with one series per interface.
fn write_tally(text: &mut String, scraped: &[Scraped]) {
    let help = "Packets lost, by reason.";
    let mut family = Family::begin(text, DROPPED, Kind::Counter, help);
    for of in scraped {
        for (reason, count) in of.view.tally.dropped() {
            family.series(&of.view.name, format_args!(",reason=\"{reason}\""), count);
        }
    }
    let help = "Packets not counted, by reason.";
    let mut family = Family::begin(text, IGNORED, Kind::Counter, help);
    for of in scraped {
        for (reason, count) in of.view.tally.ignored_by_reason() {
            family.series(&of.view.name, format_args!(",reason=\"{reason}\""), count);
        }
    }
    for (name, kind, help, value) in FAMILIES {
        let mut family = Family::begin(text, name, kind, help);
        for of in scraped {
            family.series(&of.view.name, format_args!(""), value(of));
        }
    }
}

/// Packets and bytes of all protocols since the start.
fn write_protocols(text: &mut String, scraped: &[Scraped]) {
    for (name, what) in [
        (PROTOCOL_PACKETS, "Packets"),
        (PROTOCOL_BYTES, "Bytes of packets"),
    ] {
        let help = format!(
            "{what} with addresses, by protocol. Packets dropped because the ring was full are \
             included, packets left out by sampling are not."
        );
        let mut family = Family::begin(text, name, Kind::Counter, &help);
        for of in scraped {
            for (protocol, packets, bytes) in of.view.tally.protocols() {
                let value = if name == PROTOCOL_BYTES {
                    bytes
                } else {
                    packets
                };
                family.series(
                    &of.view.name,
                    format_args!(",protocol=\"{protocol}\""),
                    value,
                );
            }
        }
    }
}

/// Traffic between named networks. Nothing if networks have no names.
fn write_groups(text: &mut String, scraped: &[Scraped]) {
    if scraped.iter().all(|of| of.figures.groups.is_none()) {
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
        for of in scraped {
            for group in of.figures.groups.iter().flatten() {
                let value = if name == GROUP_BYTES {
                    group.bytes
                } else {
                    group.packets
                };
                let (src, dst) = (label(&group.src), label(&group.dst));
                let labels = format_args!(",src=\"{src}\",dst=\"{dst}\"");
                family.series(&of.view.name, labels, value);
            }
        }
    }
}

/// Load of layers, whose number changes between windows.
fn write_loads(text: &mut String, scraped: &[Scraped]) {
    let mut family = Family::begin(text, LOAD, Kind::Gauge, "How full a layer is.");
    for of in scraped {
        for (layer, load) in (1..).zip(&of.figures.loads) {
            family.series(&of.view.name, format_args!(",layer=\"{layer}\""), load);
        }
    }
}

/// The heaviest keys.
fn write_hitters(text: &mut String, scraped: &[Scraped]) {
    let (pairs, senders, receivers) = (
        "of the heaviest pairs",
        "sent by the heaviest senders",
        "sent to the heaviest receivers",
    );
    write_list(text, scraped, "heavy_hitter", pairs, |lists| {
        Some(&lists.pairs)
    });
    write_list(text, scraped, "top_source", senders, |lists| {
        Some(&lists.sources)
    });
    write_list(text, scraped, "top_destination", receivers, |lists| {
        Some(&lists.destinations)
    });
    let services = "of the heaviest services";
    write_list(text, scraped, "top_service", services, |lists| {
        Some(&lists.services)
    });
    // Without a database, the family is not written.
    let has_asns = |of: &Scraped| of.exported.lists.by_packets.asns.is_some();
    if scraped.iter().any(has_asns) {
        let asns = "from or to the heaviest autonomous systems";
        write_list(text, scraped, "top_asn", asns, |lists| lists.asns.as_ref());
    }
}

/// The number above which the lists of pairs are complete.
fn write_complete(text: &mut String, scraped: &[Scraped]) {
    for by in [By::Packets, By::Bytes] {
        let unit = by.name();
        let name = format!("crane_heavy_hitters_complete_above_{unit}");
        let help = format!(
            "Upper bound of the {unit} in the window of each pair that is not in \
             crane_heavy_hitter_{unit}; {RATE}"
        );
        let mut family = Family::begin(text, &name, Kind::Gauge, &help);
        for of in scraped {
            if let Some(most) = of.exported.lists.by(by).pairs.others_at_most {
                family.series(&of.view.name, format_args!(""), most);
            }
        }
    }
}

/// Addresses with the most peers, in each direction.
fn write_fans(text: &mut String, scraped: &[Scraped]) {
    type Fans = fn(&Lists) -> &List<AddressKey, PeerEstimate>;
    let out: (_, _, _, Fans) = (FAN_OUT, "source", "destinations", |lists| &lists.fan_out);
    let into: (_, _, _, Fans) = (FAN_IN, "destination", "sources", |lists| &lists.fan_in);
    for (name, node, peers, list) in [out, into] {
        let help = format!(
            "Number of {peers} of a {node} in the window, of those with the most that stand out. \
             With capture.sample only {peers} in sampled packets count."
        );
        let mut family = Family::begin(text, name, Kind::Gauge, &help);
        for of in scraped {
            for row in &list(&of.exported.lists.by_packets).rows {
                let labels = row.key.labels();
                family.series(&of.view.name, format_args!("{labels}"), row.value.peers);
            }
        }
    }
    let help = "Peers of a notable address in the window, by kind: a scan or a flood has one or two \
                packets with at least half of its peers, fan_out and fan_in more.";
    let mut family = Family::begin(text, NOTABLE, Kind::Gauge, help);
    for of in scraped {
        for Notable { kind, row } in &of.exported.lists.by_packets.notable {
            let (kind, ip) = (kind.name(), row.key.labels());
            let labels = format_args!(",kind=\"{kind}\"{ip}");
            family.series(&of.view.name, labels, row.value.peers);
        }
    }
}

/// A family by packets and one by bytes, with all keys that are in either list.
fn write_list<K: Key>(
    text: &mut String,
    scraped: &[Scraped],
    name: &str,
    of_whom: &str,
    list: fn(&Lists) -> Option<&List<K>>,
) {
    for by in [By::Packets, By::Bytes] {
        let what = match by {
            By::Packets => "Packets",
            By::Bytes => "Bytes",
        };
        let name = format!("crane_{name}_{}", by.name());
        let help = format!("{what} {of_whom} in the window, by packets or by bytes; {RATE}");
        let mut family = Family::begin(text, &name, Kind::Gauge, &help);
        for of in scraped {
            let rows = |lists| list(lists).map(|list| &list.rows[..]).unwrap_or_default();
            let by_packets = rows(&of.exported.lists.by_packets);
            let by_bytes = rows(&of.exported.lists.by_bytes);
            let is_new =
                |row: &&ListRow<K>| !by_packets.iter().any(|one| one.key.is_same(&row.key));
            for row in by_packets.iter().chain(by_bytes.iter().filter(is_new)) {
                let labels = row.key.labels();
                family.series(&of.view.name, format_args!("{labels}"), row.value.size(by));
            }
        }
    }
}
