//! The counts of one interface at one time, and the latest steps between them, for as long as
//! the longest period needs.

use std::net::IpAddr;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use super::recent::Recent;
use super::step::{Increment, Kind, Step};
use crate::sketches::counts::{Named, NamedCounts};
use crate::traffic::edge::Pair;
use crate::traffic::service::Service;
use crate::window::windows::Windows;
use crate::window::{Window, WindowClock};

/// Steps that began earlier than this before the latest moment are removed.
const KEPT: Duration = Duration::from_secs(12);

/// The latest steps of one interface.
#[derive(Default)]
pub struct Track {
    /// When the steps began, oldest first, and when the last one ended.
    pub(super) times: Vec<Duration>,
    window: Option<u64>,
    pub(super) pairs: Kind<Pair>,
    pub(super) sources: Kind<IpAddr>,
    pub(super) destinations: Kind<IpAddr>,
    pub(super) services: Kind<Service>,
    /// Sums of these steps, computed when they are requested.
    recent: Option<Arc<Recent>>,
}

impl Track {
    /// Number of the window at the latest moment.
    pub fn window(&self) -> Option<u64> {
        self.window
    }

    /// Removes all steps.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Adds the next moment. The step before it is known if both moments are of one window, or if
    /// the final counts of the previous window are known. Otherwise the track starts again.
    pub fn add(&mut self, moment: Moment) {
        let Moment {
            at,
            window,
            counts: mut now,
            ended,
        } = moment;
        now.sort();
        self.recent = None;
        let turned = self.window.map(|known| (window == known, known));
        let is_later = self.times.last().is_some_and(|last| at > *last);
        let ended = ended.filter(|ended| Some(ended.number()) == self.window);
        match turned {
            // A file of which no more packets are read.
            Some((true, _)) if self.times.last() == Some(&at) => {}
            Some((true, _)) if is_later => self.step(at, None, now),
            Some((false, known)) if is_later && window == known.wrapping_add(1) => match ended {
                Some(ended) => {
                    let mut ended = ended.counts();
                    ended.sort();
                    self.step(at, Some(ended), now);
                }
                None => self.begin(at, now),
            },
            _ => self.begin(at, now),
        }
        self.window = Some(window);
    }

    fn begin(&mut self, at: Duration, now: NamedCounts) {
        self.times = vec![at];
        self.pairs.begin(now.pairs);
        self.sources.begin(now.sources);
        self.destinations.begin(now.destinations);
        self.services.begin(now.services);
    }

    fn step(&mut self, at: Duration, ended: Option<NamedCounts>, now: NamedCounts) {
        let ended = ended.as_ref();
        let before = &self.pairs.newest;
        let of_pairs = ended.map(|ended| &ended.pairs);
        let pairs = Step::between(before, of_pairs, &now.pairs);
        let are_all = before.has_all() && now.pairs.has_all();
        let are_all = are_all && of_pairs.is_none_or(Named::has_all);
        // If all pairs are known, sums over them are more accurate for addresses than a full
        // sketch of addresses.
        let addresses = |kind: &Kind<IpAddr>,
                         ended: Option<&Named<IpAddr>>,
                         now: &Named<IpAddr>,
                         end: fn(&Pair) -> IpAddr| {
            let has_all = kind.newest.has_all() && now.has_all();
            if are_all && !(has_all && ended.is_none_or(Named::has_all)) {
                let of_pair = |(pair, one): &(Pair, Increment)| (end(pair), *one);
                return Step::of_parts(pairs.rows.iter().map(of_pair));
            }
            Step::between(&kind.newest, ended, now)
        };
        let of_sources = ended.map(|ended| &ended.sources);
        let sources = addresses(&self.sources, of_sources, &now.sources, Pair::src);
        let of_destinations = ended.map(|ended| &ended.destinations);
        let destinations = addresses(
            &self.destinations,
            of_destinations,
            &now.destinations,
            Pair::dst,
        );
        let of_services = ended.map(|ended| &ended.services);
        let services = Step::between(&self.services.newest, of_services, &now.services);
        self.pairs.push(pairs, now.pairs);
        self.sources.push(sources, now.sources);
        self.destinations.push(destinations, now.destinations);
        self.services.push(services, now.services);
        self.times.push(at);
        let old = self.times.iter().filter(|began| at - **began > KEPT);
        let old = old.count();
        self.times.drain(..old);
        self.pairs.steps.drain(..old);
        self.sources.steps.drain(..old);
        self.destinations.steps.drain(..old);
        self.services.steps.drain(..old);
    }

    /// Sums of the last seconds, until the latest moment.
    pub fn recent(&mut self) -> Arc<Recent> {
        if let Some(recent) = &self.recent {
            return Arc::clone(recent);
        }
        let recent = Arc::new(Recent::of(self));
        self.recent = Some(Arc::clone(&recent));
        recent
    }
}

/// The start of live times.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// The counts of the current window of an interface at one time.
pub struct Moment {
    /// Time by a monotonic clock, or the time of the latest packet of a file.
    pub at: Duration,
    /// The number of the window.
    pub window: u64,
    pub counts: NamedCounts,
    /// The complete previous window, if it ended since the last moment.
    pub ended: Option<Ended>,
}

/// A window that is over.
pub enum Ended {
    Window(Arc<Window>),
    #[cfg(test)]
    Counts(u64, Box<NamedCounts>),
}

impl Moment {
    /// The current counts of `windows`. `known` is the number of the window at the last moment; if
    /// that window is over, its final counts are included.
    pub fn of(windows: &Windows, known: Option<u64>) -> Self {
        let window = windows.current();
        let at = match windows.clock() {
            WindowClock::Wall(_) => START.elapsed(),
            // A file is not read at the speed of capture, so the times of its packets count.
            WindowClock::Packets(_) | WindowClock::Never => {
                let start = window.times().0.map(Duration::from_nanos);
                let seconds = Duration::try_from_secs_f64(window.seconds());
                start.unwrap_or_default() + seconds.unwrap_or_default()
            }
        };
        let last = windows.last().filter(|last| Some(last.number) == known);
        Self {
            at,
            window: window.number,
            counts: window.sketches.counts(),
            ended: last.map(|last| Ended::Window(Arc::clone(last))),
        }
    }
}

impl Ended {
    pub fn number(&self) -> u64 {
        match self {
            Self::Window(window) => window.number,
            #[cfg(test)]
            Self::Counts(number, _) => *number,
        }
    }

    pub fn counts(self) -> NamedCounts {
        match self {
            Self::Window(window) => window.sketches.counts(),
            #[cfg(test)]
            Self::Counts(_, counts) => *counts,
        }
    }
}
