//! One interface or capture file on its way through the worker: its ring, its
//! windows, its books.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use crane_model::Flow;
use rtrb::Consumer;
use rustc_hash::FxHashMap;

use crate::batch::Batch;
use crate::budget::Budget;
use crate::edge::{Edge, Pair};
use crate::hitters::Hitters;
use crate::metrics::BatchMetrics;
use crate::sketches::{Blueprint, Sketches};
use crate::snapshot::{Exported, WindowView};
use crate::span::Span;
use crate::tally::{Ignored, Tally};

/// What is kept of the past.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Nothing but the current window and the last: a capture that runs on.
    LastWindow,
    /// Everything: a file, of which a report is wanted.
    History {
        /// Pairs in the list of a window; none if windows are not reported.
        windows: Option<usize>,
        /// Count exactly, too.
        exactly: bool,
    },
}

/// More windows than anyone reads; memory has to end somewhere.
const MOST_WINDOWS: usize = 100_000;

/// What is kept of a window that is over.
pub struct PastWindow {
    /// When it began, in nanoseconds since 1970.
    pub start: u64,
    /// When it ended.
    pub end: u64,
    /// Its packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The pairs with most packets.
    pub top: Vec<Flow<Pair>>,
}

/// A span of packet time and what is known of it.
pub struct Window {
    /// When it begins, in nanoseconds since 1970.
    pub start: u64,
    /// When it ends; none if it never does.
    pub end: Option<u64>,
    /// Time of the latest packet.
    pub latest: u64,
    /// Packets stored, scaled if sampled.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Who sent them to whom.
    pub sketches: Sketches,
    budget: u64,
}

impl Window {
    /// Whether the window is over at `time`. One that reaches the end of time
    /// never is.
    fn is_over(&self, time: u64) -> bool {
        self.end.is_some_and(|end| time >= end && end < u64::MAX)
    }

    fn store(&mut self, batch: &Batch) -> crane_model::Result<()> {
        self.latest = self.latest.max(batch.latest);
        self.packets += batch.packets;
        self.bytes += batch.bytes;
        self.sketches.store(batch)
    }
}

/// What lanes work with, one after the other.
#[derive(Default)]
pub struct Work {
    edges: Vec<Edge>,
    batch: Batch,
}

/// Exact counts beside the sketch.
pub type Exact = FxHashMap<Pair, u64>;

/// One interface or file. See the head of this module.
pub struct Lane {
    /// Name of the interface or file.
    pub name: String,
    /// Its books.
    pub tally: Arc<Tally>,
    /// Where its packets come from.
    pub ring: Consumer<Edge>,
    /// The window that is being filled.
    pub current: Window,
    /// The one before it.
    pub last: Option<Window>,
    /// Its picture, which does not change any more.
    pub last_view: Option<Arc<WindowView>>,
    /// All packets, if the windows are not.
    pub whole: Option<Window>,
    /// Windows that are over, if history is kept.
    pub history: Vec<PastWindow>,
    /// Exact counts, if asked for.
    pub exact: Option<Exact>,
    /// Layers added since the start.
    pub expansions: usize,
    /// What was exported last.
    pub exported: Exported,
    /// Whether there is anything that was not published.
    pub dirty: bool,
    /// Whether nothing comes any more.
    pub ended: bool,
    /// When the oldest packet in the ring was first seen there.
    pub waiting: Option<Instant>,
    keep: Keep,
    /// Whether there were more windows than are kept.
    forgets: bool,
    length: Option<Span>,
    scale: u64,
    sketch: bool,
    blueprint: Arc<Blueprint>,
    budget: Arc<Mutex<Budget>>,
    metrics: Option<BatchMetrics>,
}

/// What a lane is made of.
pub struct Parts {
    /// Name of the interface or file.
    pub name: String,
    /// Its books.
    pub tally: Arc<Tally>,
    /// Where its packets come from.
    pub ring: Consumer<Edge>,
    /// What is kept of the past.
    pub keep: Keep,
    /// How long windows are; none for a single one.
    pub length: Option<Span>,
    /// When the first one begins; none for the first packet's time.
    pub origin: Option<u64>,
    /// Packets that each packet stands for.
    pub scale: u64,
    /// Whether packets are stored.
    pub sketch: bool,
    /// How sketches are built.
    pub blueprint: Arc<Blueprint>,
    /// Out of which memory, shared by this many lanes.
    pub budget: (Arc<Mutex<Budget>>, usize),
    /// Histograms of its batches, if anyone looks at them.
    pub metrics: Option<BatchMetrics>,
}

impl Lane {
    /// A lane with an empty first window.
    pub fn new(parts: Parts) -> crane_model::Result<Self> {
        let (budget, sharing) = parts.budget;
        let window = |start: Option<u64>, length: Option<Span>| {
            let granted = lock(&budget).first(sharing);
            crane_model::Result::Ok(Window {
                start: start.unwrap_or(u64::MAX),
                end: start.and_then(|start| Some(start.saturating_add(length?.nanoseconds()))),
                latest: 0,
                packets: 0,
                bytes: 0,
                sketches: parts.blueprint.build(granted)?,
                budget: granted,
            })
        };
        let history = matches!(parts.keep, Keep::History { .. });
        Ok(Self {
            current: window(parts.origin, parts.length)?,
            whole: match parts.length {
                Some(_) if history => Some(window(parts.origin, None)?),
                _ => None,
            },
            name: parts.name,
            tally: parts.tally,
            ring: parts.ring,
            last: None,
            last_view: None,
            history: Vec::new(),
            exact: matches!(parts.keep, Keep::History { exactly: true, .. }).then(Exact::default),
            expansions: 0,
            exported: Exported::default(),
            dirty: true,
            ended: false,
            waiting: None,
            keep: parts.keep,
            forgets: false,
            length: parts.length,
            scale: parts.scale,
            sketch: parts.sketch,
            blueprint: parts.blueprint,
            budget,
            metrics: parts.metrics,
        })
    }

    /// Stores the next `count` packets of the ring.
    pub fn store(&mut self, work: &mut Work, count: usize) -> anyhow::Result<()> {
        let start = Instant::now();
        work.edges.clear();
        let chunk = self.ring.read_chunk(count)?;
        let (first, second) = chunk.as_slices();
        // Copied out, because a window may turn in the middle of them.
        work.edges.extend_from_slice(first);
        work.edges.extend_from_slice(second);
        chunk.commit_all();
        let Work { edges, batch } = work;
        let mut rest = if self.sketch { &edges[..] } else { &[] };
        while let Some(edge) = rest.first() {
            self.reach(edge.time)?;
            let inside = rest.iter().position(|edge| self.current.is_over(edge.time));
            let (now, later) = rest.split_at(inside.unwrap_or(rest.len()));
            self.store_now(batch, now)?;
            rest = later;
        }
        if self.sketch {
            self.tally.edges.fetch_add(count as u64, Relaxed);
        } else {
            self.tally.ignore(Ignored::NotStored, count as u64);
        }
        self.waiting = None;
        self.dirty = true;
        if let Some(metrics) = &self.metrics {
            metrics.record(count, start.elapsed());
        }
        Ok(())
    }

    fn store_now(&mut self, batch: &mut Batch, edges: &[Edge]) -> anyhow::Result<()> {
        batch.fold(edges, self.scale);
        let expansions = self.current.sketches.pairs.layers().expansions();
        self.current.store(batch)?;
        if let Some(whole) = &mut self.whole {
            whole.store(batch)?;
        }
        if let Some(exact) = &mut self.exact {
            for arrival in batch.pairs() {
                *exact.entry(arrival.key).or_insert(0) += arrival.packets;
            }
        }
        let layers = self.current.sketches.pairs.layers();
        let grown = layers.expansions() - expansions;
        if grown > 0 {
            self.expansions += grown;
            let layers = layers.loads().len();
            tracing::debug!(interface = self.name, layers, "the sketch has grown");
        }
        Ok(())
    }

    /// Turns the window if `time` is beyond it. Time that goes backwards does
    /// nothing.
    pub fn reach(&mut self, time: u64) -> anyhow::Result<()> {
        let Some(length) = self.length else {
            self.current.start = self.current.start.min(time);
            return Ok(());
        };
        let length = length.nanoseconds();
        let start = match self.current.end {
            // The first packet of a file.
            None => {
                self.current.start = time;
                self.current.end = Some(time.saturating_add(length));
                if let Some(whole) = &mut self.whole {
                    whole.start = time;
                }
                return Ok(());
            }
            Some(_) if !self.current.is_over(time) => return Ok(()),
            // Windows nobody sent anything in are left out.
            Some(end) => time - (time - end) % length,
        };
        self.turn(start, start.saturating_add(length))
    }

    /// Begins a new window.
    fn turn(&mut self, start: u64, end: u64) -> anyhow::Result<()> {
        let needed = self.current.sketches.needed_bytes();
        let last = self.last.take();
        let granted =
            lock(&self.budget).next(last.map(|last| last.budget), self.current.budget, needed);
        let next = Window {
            start,
            end: Some(end),
            latest: 0,
            packets: 0,
            bytes: 0,
            sketches: self.blueprint.build(granted)?,
            budget: granted,
        };
        let over = std::mem::replace(&mut self.current, next);
        if let Keep::History {
            windows: Some(top), ..
        } = self.keep
        {
            self.remember(&over, top);
        }
        self.last = Some(over);
        self.last_view = None;
        self.dirty = true;
        Ok(())
    }

    /// Keeps what a report says of a window.
    fn remember(&mut self, over: &Window, top: usize) {
        if self.history.len() == MOST_WINDOWS {
            if !std::mem::replace(&mut self.forgets, true) {
                tracing::warn!(
                    interface = self.name,
                    "the report ends after {MOST_WINDOWS} windows"
                );
            }
            return;
        }
        self.history.push(PastWindow {
            start: over.start,
            end: over.end.unwrap_or(u64::MAX),
            packets: over.packets,
            bytes: over.bytes,
            top: Hitters::of(over.sketches.heavy_pairs(), top).by_packets,
        });
    }

    /// Whether the clock turns its windows.
    pub fn is_live(&self) -> bool {
        self.keep == Keep::LastWindow
    }

    /// Gives up what is in the ring: there is no time for it. It is counted
    /// with what the ring had no room for.
    pub fn abandon(&mut self) {
        let slots = self.ring.slots();
        if slots == 0 {
            return;
        }
        if let Ok(left) = self.ring.read_chunk(slots) {
            let count = left.len() as u64;
            left.commit_all();
            self.tally.ring_full.fetch_add(count, Relaxed);
            tracing::warn!(
                interface = self.name,
                packets = count,
                "stopped before these were stored"
            );
        }
    }

    /// Ends the current window: nothing comes any more.
    pub fn close(&mut self) -> anyhow::Result<()> {
        if let (Some(end), true) = (self.current.end, self.current.packets > 0) {
            self.turn(end, end)?;
        }
        Ok(())
    }

    /// Bytes of all sketches.
    pub fn memory_bytes(&self) -> usize {
        let others = self.last.iter().chain(&self.whole);
        let windows = others.chain([&self.current]);
        windows.map(|window| window.sketches.memory_bytes()).sum()
    }
}

fn lock(budget: &Mutex<Budget>) -> std::sync::MutexGuard<'_, Budget> {
    budget.lock().unwrap_or_else(PoisonError::into_inner)
}
