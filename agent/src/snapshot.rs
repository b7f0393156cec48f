//! What readers see: an immutable picture of all interfaces, swapped whole.

use std::net::Ipv6Addr;
use std::sync::Arc;
use std::time::Instant;

use crane_model::Flow;

use crate::edge::Pair;
use crate::hitters::Hitters;
use crate::lane::{Lane, Window};
use crate::tally::Tally;

/// All interfaces at one moment.
pub struct Snapshot {
    /// In the order they were opened.
    pub interfaces: Vec<Arc<InterfaceView>>,
    /// When it was published.
    pub published: Instant,
}

/// One interface at one moment.
pub struct InterfaceView {
    /// Name of the interface or file.
    pub name: String,
    /// Its books; these are always current.
    pub tally: Arc<Tally>,
    /// Whether it was a file, which has been read.
    pub ended: bool,
    /// Mean load of each layer, bottom first.
    pub loads: Vec<f32>,
    /// Layers added since the start.
    pub expansions: usize,
    /// Bytes of its sketches.
    pub memory_bytes: usize,
    /// Whether counts may be too low because a cell is full.
    pub saturated: bool,
    /// The window that is being filled.
    pub current: WindowView,
    /// The last one that is complete.
    pub last: Option<WindowView>,
    /// What is exported.
    pub exported: Exported,
}

/// A window at one moment.
pub struct WindowView {
    /// When it began, in nanoseconds since 1970; none if nothing came yet.
    pub start: Option<u64>,
    /// When it ends or ended; none if it never does.
    pub end: Option<u64>,
    /// Whether it is over.
    pub complete: bool,
    /// How long it was, or is so far, in seconds.
    pub seconds: f64,
    /// Packets, scaled if sampled.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The heaviest pairs.
    pub pairs: Hitters<Pair>,
    /// The heaviest senders.
    pub sources: Hitters<Ipv6Addr>,
    /// The heaviest receivers.
    pub destinations: Hitters<Ipv6Addr>,
}

/// Lists that change no more often than they have to.
#[derive(Default, Clone)]
pub struct Exported {
    /// The heaviest pairs.
    pub pairs: Hitters<Pair>,
    /// The heaviest senders.
    pub sources: Hitters<Ipv6Addr>,
    /// The heaviest receivers.
    pub destinations: Hitters<Ipv6Addr>,
    /// Estimates for the watch list.
    pub watched: Vec<Flow<Pair>>,
}

impl InterfaceView {
    /// The picture of a lane with its `top` heaviest, and what is known of
    /// the pairs in `watch`.
    pub fn of(lane: &mut Lane, top: usize, watch: &[Pair]) -> crane_model::Result<Self> {
        let (window, _) = lane.answering();
        let flows = watch.iter().map(|pair| window.sketches.pair(*pair));
        lane.exported = Exported {
            watched: flows.collect::<Result<_, _>>()?,
            pairs: lane
                .exported
                .pairs
                .follow(window.sketches.heavy_pairs(), top),
            sources: lane
                .exported
                .sources
                .follow(window.sketches.heavy_sources(), top),
            destinations: lane
                .exported
                .destinations
                .follow(window.sketches.heavy_destinations(), top),
        };
        let sketches = &lane.current.sketches;
        Ok(Self {
            name: lane.name.clone(),
            tally: Arc::clone(&lane.tally),
            ended: lane.ended,
            loads: sketches
                .pairs
                .layers()
                .loads()
                .iter()
                .map(|load| load.mean)
                .collect(),
            expansions: lane.expansions,
            memory_bytes: lane.memory_bytes(),
            saturated: sketches.is_saturated(),
            current: WindowView::of(&lane.current, top, false),
            last: lane
                .last
                .as_ref()
                .map(|last| WindowView::of(last, top, true)),
            exported: lane.exported.clone(),
        })
    }

    /// The window that answers are about unless asked otherwise.
    pub fn answering(&self) -> &WindowView {
        self.last.as_ref().unwrap_or(&self.current)
    }
}

impl WindowView {
    /// The picture of a window with its `top` heaviest.
    pub fn of(window: &Window, top: usize, complete: bool) -> Self {
        Self {
            start: (window.start < u64::MAX).then_some(window.start),
            end: window.end,
            complete,
            seconds: {
                let until = window.end.filter(|_| complete).unwrap_or(window.latest);
                until.saturating_sub(window.start) as f64 / 1e9
            },
            packets: window.packets,
            bytes: window.bytes,
            pairs: Hitters::of(window.sketches.heavy_pairs(), top),
            sources: Hitters::of(window.sketches.heavy_sources(), top),
            destinations: Hitters::of(window.sketches.heavy_destinations(), top),
        }
    }
}
