//! The sketch worker: the only writer of sketch state.
//!
//! Drains the rings of all interfaces in batches, stores them, publishes what it
//! knows, and answers queries.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use arc_swap::ArcSwap;
use tokio::sync::{Semaphore, oneshot};

use crate::edge::Pair;
use crate::export::snapshot::{InterfaceView, Snapshot};
use crate::report::Summary;
use crate::sketch::interface::{Buffers, Interface};
use crate::sketch::query::{About, Queries, Query, Reply, Which};
use crate::sketch::ring::{WorkerGone, full_batch};

/// When a batch is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// When it is full or its first packet has waited this long.
    Linger(Duration),
    /// When it is full: the same packets always make the same batches.
    Count,
}

/// What others want of the worker.
pub enum Request {
    /// Work on this interface, too.
    Interface(Box<Interface>),
    /// Answer this.
    Ask(Query),
    /// End when all interfaces have ended, and give up what is not stored by then.
    Finish(Option<Instant>),
}

/// How long readers may see old numbers.
const PUBLISH_EVERY: Duration = Duration::from_millis(250);
/// Queries that may wait for an answer.
const MOST_QUERIES: usize = 4096;
/// How long the worker rests when no batch is full. Captures wake it when one
/// is, and so does everyone who wants something.
const NAP: Duration = Duration::from_millis(50);

/// The way to the worker.
#[derive(Clone)]
pub struct WorkerHandle {
    requests: Sender<Request>,
    worker: Thread,
    places: Arc<Semaphore>,
}

/// Why a query is not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueryError {
    /// Too many others wait for an answer.
    TooMany,
    /// There is no worker any more.
    WorkerGone,
}

impl WorkerHandle {
    /// The handle of the thread that works on `requests`.
    pub fn new(requests: Sender<Request>, worker: Thread) -> Self {
        Self {
            requests,
            worker,
            places: Arc::new(Semaphore::new(MOST_QUERIES)),
        }
    }

    /// Hands in a request.
    pub fn send(&self, request: Request) -> Result<(), WorkerGone> {
        self.requests.send(request).map_err(|_| WorkerGone)?;
        self.worker.unpark();
        Ok(())
    }

    /// Hands in a query; none for all interfaces, and none for the window
    /// that answers are about unless asked otherwise. Whoever drops the
    /// receiver has withdrawn the query.
    pub fn ask(
        &self,
        interface: Option<String>,
        window: Option<Which>,
        about: About,
    ) -> Result<oneshot::Receiver<Reply>, QueryError> {
        let place = Arc::clone(&self.places).try_acquire_owned();
        let (reply, answer) = oneshot::channel();
        let query = Query {
            interface,
            window,
            about,
            reply,
            _place: place.map_err(|_| QueryError::TooMany)?,
        };
        let sent = self.requests.send(Request::Ask(query));
        sent.map_err(|_| QueryError::WorkerGone)?;
        // The current window answers at the next publication: nothing to wake
        // the worker for.
        if window != Some(Which::Current) {
            self.worker.unpark();
        }
        Ok(answer)
    }

    /// Who works there.
    pub fn worker(&self) -> Thread {
        self.worker.clone()
    }
}

/// The worker. [`Worker::run`] ends when it is asked to, all captures have
/// ended and their rings are empty.
pub struct Worker {
    /// Where interfaces and queries come from.
    pub requests: Receiver<Request>,
    /// Where interfaces that have ended are reported.
    pub ended: Sender<Summary>,
    /// Packets of a full batch.
    pub batch: usize,
    /// When a batch is stored.
    pub cut: Cut,
    /// How many heavy hitters are published.
    pub top: usize,
    /// Pairs that are always published.
    pub watch: Vec<Pair>,
    /// Whether interfaces that have ended still answer queries.
    pub keep_ended: bool,
    /// Where all is published.
    pub snapshot: Arc<ArcSwap<Snapshot>>,
}

/// What the worker is working on.
#[derive(Default)]
struct State {
    interfaces: Vec<Interface>,
    /// Each interface's picture.
    views: Vec<Arc<InterfaceView>>,
    /// What wants to be known of them.
    queries: Queries,
    finish: bool,
    deadline: Option<Instant>,
}

impl Worker {
    /// Works until it is asked to finish and the last capture has ended.
    pub fn run(self) -> anyhow::Result<()> {
        let mut state = State::default();
        let mut buffers = Buffers::default();
        let mut published = Instant::now();
        loop {
            self.take_requests(&mut state)?;
            let mut stored = false;
            let mut at = 0;
            while at < state.interfaces.len() {
                let interface = &mut state.interfaces[at];
                if state
                    .deadline
                    .is_some_and(|deadline| Instant::now() > deadline)
                {
                    interface.abandon();
                }
                let (work, ended) = self
                    .work(interface, &mut buffers)
                    .with_context(|| interface.name.clone())?;
                stored |= work;
                if ended && !interface.ended {
                    self.end(&mut state, at)?;
                    if !self.keep_ended {
                        continue;
                    }
                }
                at += 1;
            }
            let done = state.finish && state.interfaces.iter().all(|interface| interface.ended);
            if done || published.elapsed() >= PUBLISH_EVERY {
                self.publish(&mut state)?;
                published = Instant::now();
            }
            if done {
                return Ok(());
            }
            if !stored {
                thread::park_timeout(match self.cut {
                    Cut::Linger(linger) => linger.min(NAP),
                    Cut::Count => NAP,
                });
            }
        }
    }

    fn take_requests(&self, state: &mut State) -> anyhow::Result<()> {
        loop {
            match self.requests.try_recv() {
                Ok(Request::Interface(mut interface)) => {
                    state.views.push(Arc::new(InterfaceView::of(
                        &mut interface,
                        self.top,
                        &self.watch,
                    )?));
                    state.interfaces.push(*interface);
                    self.show(state);
                }
                Ok(Request::Ask(query)) => state.queries.take(query, &state.interfaces),
                Ok(Request::Finish(deadline)) => {
                    state.finish = true;
                    state.deadline = deadline;
                }
                Err(TryRecvError::Disconnected) => {
                    state.finish = true;
                    return Ok(());
                }
                Err(TryRecvError::Empty) => return Ok(()),
            }
        }
    }

    /// Stores a batch if one is due, or turns the window; whether it did, and
    /// whether the interface has ended.
    fn work(
        &self,
        interface: &mut Interface,
        buffers: &mut Buffers,
    ) -> anyhow::Result<(bool, bool)> {
        // Asked before looking into the ring: nothing comes after it.
        let ended = interface.ring.is_abandoned();
        let full = full_batch(self.batch, interface.ring.buffer().capacity());
        let ready = interface.ring.slots().min(full);
        let time = Instant::now();
        if interface.clock.is_over(time) && !ended {
            // What is in the ring came before.
            let mut left = interface.ring.slots();
            while left > 0 {
                let count = left.min(full);
                interface.store(buffers, count)?;
                left -= count;
            }
            interface.turn_at(time, now())?;
            return Ok((true, false));
        }
        if ready == 0 {
            return Ok((false, ended));
        }
        let since = *interface.waiting.get_or_insert_with(Instant::now);
        let due = matches!(self.cut, Cut::Linger(linger) if since.elapsed() >= linger);
        if ready == full || ended || due {
            interface.store(buffers, ready)?;
            return Ok((true, false));
        }
        Ok((false, false))
    }

    /// Reports an interface that has ended.
    fn end(&self, state: &mut State, at: usize) -> anyhow::Result<()> {
        let interface = &mut state.interfaces[at];
        interface.close()?;
        interface.ended = true;
        let summary = Summary::of(interface, self.top)?;
        if self.keep_ended {
            state.views[at] = Arc::new(InterfaceView::of(interface, self.top, &self.watch)?);
        } else {
            state.interfaces.remove(at);
            state.views.remove(at);
        }
        self.show(state);
        // Nobody has to be interested.
        let _ = self.ended.send(summary);
        Ok(())
    }

    fn publish(&self, state: &mut State) -> anyhow::Result<()> {
        for (interface, view) in state.interfaces.iter_mut().zip(&mut state.views) {
            interface
                .tally
                .ring_used
                .store(interface.ring.slots() as u64, Relaxed);
            if std::mem::take(&mut interface.dirty) {
                *view = Arc::new(InterfaceView::of(interface, self.top, &self.watch)?);
            }
        }
        self.show(state);
        state.queries.answer(&state.interfaces);
        Ok(())
    }

    fn show(&self, state: &State) {
        self.snapshot.store(Arc::new(Snapshot {
            interfaces: state.views.clone(),
            published: Instant::now(),
        }));
    }
}

/// Now by the wall clock, in nanoseconds since 1970. It may jump.
pub fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::sketch::pipeline::{Key, Mode, Pipeline};

    #[test]
    fn so_many_queries_wait_and_no_more() {
        let (requests, worker) = std::sync::mpsc::channel();
        let handle = WorkerHandle::new(requests, thread::current());
        let ask = || {
            let node = About::Node(std::net::Ipv6Addr::LOCALHOST.into());
            handle.ask(None, Some(Which::Current), node)
        };
        let answers: Vec<_> = (0..MOST_QUERIES).map(|_| ask()).collect();
        assert!(answers.iter().all(Result::is_ok));
        assert_eq!(ask().err(), Some(QueryError::TooMany));
        drop(worker.recv().unwrap());
        assert!(ask().is_ok(), "one has gone");
        drop(worker);
        assert_eq!(ask().err(), Some(QueryError::WorkerGone));
    }

    /// A replay of many files would keep the lists of all of them otherwise.
    #[test]
    fn a_file_that_has_ended_is_kept_only_for_those_who_ask() {
        for serve in [false, true] {
            let mode = Mode::Replay {
                window: None,
                history: true,
                exactly: false,
                serve,
                sketch: true,
            };
            let mut pipeline =
                Pipeline::start(&Config::default(), mode, 10, &Key::of_seed(1)).unwrap();
            for file in ["a", "b"] {
                drop(pipeline.add(file).unwrap());
                pipeline.wait_for_end().unwrap();
            }
            let shown = pipeline.snapshot.load().interfaces.len();
            assert_eq!(shown, if serve { 2 } else { 0 });
            pipeline.finish(None).unwrap();
        }
    }
}
