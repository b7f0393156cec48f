//! The sketch worker: the only writer of sketch state.
//!
//! Drains the rings of all interfaces in batches, stores them and turns windows. It answers
//! queries about windows that are being filled, and computes nothing without one.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use anyhow::Context;
use arc_swap::ArcSwap;
use tokio::sync::{Semaphore, oneshot};

use super::edge_ring::{RingReader, WorkerGone};
use super::interface::{Interface, Progress};
use super::live_queries::{LiveQueries, LiveQuery};
use super::renewal::{Change, WorkerSettings};
use crate::lookup::Lookup;
use crate::process::panics;
use crate::process::stop;
use crate::process::systemd::Watchdog;
use crate::saved::writer::Saver;
use crate::traffic::batch::Cut;
use crate::traffic::names::Names;
use crate::window::run::Run;
use crate::window::snapshot::{InterfaceView, Snapshot};
use crate::window::windows::{Ended, Windows};

/// Requests to the worker.
pub enum Request {
    /// Add this interface.
    Interface(Box<Interface>),
    /// Packets of this interface come through another ring from now on, and may have
    /// to be stored in another way.
    Ring(String, RingReader, Option<Box<Change>>),
    /// Replace the settings.
    WorkerSettings(Box<WorkerSettings>),
    /// Do not keep this interface when it has ended.
    Forget(String),
    /// Save windows from now on.
    Save(Saver),
    /// Answer this query.
    Query(LiveQuery),
    /// End when all interfaces have ended; packets that are not stored at the deadline are
    /// discarded.
    Finish(Option<Instant>),
}

/// How often a snapshot is published.
const PUBLISH_EVERY: Duration = Duration::from_millis(250);
/// Most queries that may wait.
const MOST_QUERIES: usize = 4096;
/// How long the worker sleeps when no batch is full. A full batch or a request wakes it.
const IDLE_SLEEP: Duration = Duration::from_millis(50);
/// How often packets are moved out of the rings during a long operation.
const SET_ASIDE_EVERY: Duration = Duration::from_millis(2);
/// How long a stop waits for a slow disk.
const LAST_SAVES: Duration = Duration::from_secs(4);

/// Sends requests to the worker.
#[derive(Clone)]
pub struct WorkerHandle {
    requests: Sender<Request>,
    worker: Thread,
    permits: Arc<Semaphore>,
}

/// Why a query is not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueryError {
    /// Too many others wait for an answer.
    TooMany,
    /// The worker has ended.
    WorkerGone,
}

impl WorkerHandle {
    /// A handle of the thread that receives `requests`.
    pub fn new(requests: Sender<Request>, worker: Thread) -> Self {
        Self {
            requests,
            worker,
            permits: Arc::new(Semaphore::new(MOST_QUERIES)),
        }
    }

    /// Sends a request and wakes the worker.
    pub fn send(&self, request: Request) -> Result<(), WorkerGone> {
        self.requests.send(request).map_err(|_| WorkerGone)?;
        self.worker.unpark();
        Ok(())
    }

    /// Calls a function for each of these interfaces that still exists. Dropping the receiver
    /// withdraws the query.
    pub fn query<T: Send + 'static>(
        &self,
        interfaces: Vec<String>,
        query: impl Fn(&Windows) -> T + Send + 'static,
    ) -> Result<oneshot::Receiver<Vec<T>>, QueryError> {
        let permit = Arc::clone(&self.permits).try_acquire_owned();
        let permit = permit.map_err(|_| QueryError::TooMany)?;
        let (query, seen) = LiveQuery::new(interfaces, query, permit);
        let sent = self.send(Request::Query(query));
        sent.map_err(|_| QueryError::WorkerGone)?;
        Ok(seen)
    }

    /// The thread of the worker.
    pub fn worker(&self) -> Thread {
        self.worker.clone()
    }
}

/// The worker. [`Worker::run`] ends when this was requested, all captures have ended and their
/// rings are empty.
pub struct Worker {
    /// Requests of other threads.
    pub requests: Receiver<Request>,
    /// Where interfaces that have ended are reported.
    pub ended: Sender<Ended>,
    /// When a batch is stored.
    pub cut: Cut,
    /// Whether interfaces that have ended can still be queried.
    pub keep_ended: bool,
    /// Whether snapshots are published.
    pub publishes: bool,
    /// Whether packets are live. Then the worker continues after a panic, and moves packets out
    /// of the rings while an operation takes long.
    pub live: bool,
    /// Whether sketches are stored by two threads.
    pub second_thread: bool,
    /// Names of networks, if there are any.
    pub names: Option<Arc<Names>>,
    /// AS, country and host names of addresses.
    pub lookup: Arc<Lookup>,
    /// The published snapshot.
    pub snapshot: Arc<ArcSwap<Snapshot>>,
}

/// State of the worker.
#[derive(Default)]
struct State {
    interfaces: Vec<Interface>,
    /// Interfaces that have ended and can still be queried.
    ended: Vec<Arc<InterfaceView>>,
    queries: LiveQueries,
    /// Whether something has changed since the last snapshot.
    unpublished: bool,
    /// Index of the interface that is being worked on.
    at: Option<usize>,
    /// Saves windows, if a state directory is configured.
    saver: Option<Saver>,
    /// When windows were last checked for due saves.
    save_looked_at: Option<Instant>,
    finish: bool,
    deadline: Option<Instant>,
}

impl State {
    /// The interface of this name.
    fn live(&mut self, name: &str) -> Option<&mut Interface> {
        let mut live = self.interfaces.iter_mut();
        live.find(|interface| interface.name() == name)
    }
}

impl Worker {
    /// Runs until [`Request::Finish`] was received and the last capture has ended.
    pub fn run(mut self) -> anyhow::Result<()> {
        let mut state = State::default();
        if !self.live {
            return self.run_on(&mut state);
        }
        loop {
            match panics::catch(|| self.run_on(&mut state)) {
                Some(result) => return result,
                None => self.recover(&mut state)?,
            }
        }
    }

    fn run_on(&mut self, state: &mut State) -> anyhow::Result<()> {
        let mut run = Run::new(self.second_thread);
        let mut published = Instant::now();
        let mut watchdog = Watchdog::from_environment();
        loop {
            self.take_requests(state);
            // Packets that wait for a full batch arrived before the query and are stored first.
            let queries_are_due = state.queries.is_due();
            let cut = match self.cut {
                Cut::Linger(_) if queries_are_due => Cut::Linger(Duration::ZERO),
                cut => cut,
            };
            let stored = self.work(state, &mut run, cut)?;
            save_due(state)?;
            let done = state.finish && state.interfaces.is_empty();
            let is_time = published.elapsed() >= PUBLISH_EVERY;
            if self.publishes && (done || is_time || state.unpublished) {
                self.publish(state);
                published = Instant::now();
                watchdog.feed();
            }
            if queries_are_due {
                self.run_queries(state);
            }
            if done {
                return Ok(());
            }
            if !stored {
                let pause = match self.cut {
                    Cut::Linger(linger) => linger.min(IDLE_SLEEP),
                    Cut::Count => IDLE_SLEEP,
                };
                let due = state.queries.due();
                let left = due.map(|due| due.saturating_duration_since(Instant::now()));
                thread::park_timeout(left.unwrap_or(pause).min(pause));
            }
        }
    }

    /// Continues after a panic: the interface that was worked on begins new windows, the others
    /// are not affected.
    fn recover(&self, state: &mut State) -> anyhow::Result<()> {
        let at = state.at.take();
        match at.and_then(|at| state.interfaces.get_mut(at)) {
            Some(interface) => interface.recover(),
            // The pause limits how often the same panic can repeat.
            None => {
                thread::sleep(IDLE_SLEEP);
                Ok(())
            }
        }
    }

    fn take_requests(&mut self, state: &mut State) {
        loop {
            match self.requests.try_recv() {
                Ok(Request::Interface(interface)) => {
                    state.interfaces.push(*interface);
                    state.unpublished = true;
                }
                Ok(Request::Ring(name, ring, change)) => {
                    if let Some(interface) = state.live(&name) {
                        interface.follow(ring, change);
                    }
                }
                Ok(Request::WorkerSettings(settings)) => self.adopt(*settings, state),
                Ok(Request::Forget(name)) => {
                    if let Some(interface) = state.live(&name) {
                        interface.forget();
                    }
                }
                Ok(Request::Save(saver)) => state.saver = Some(saver),
                Ok(Request::Query(query)) => state.queries.add(query),
                Ok(Request::Finish(deadline)) => {
                    state.finish = true;
                    state.deadline = deadline;
                }
                Err(TryRecvError::Disconnected) => {
                    state.finish = true;
                    return;
                }
                Err(TryRecvError::Empty) => return,
            }
        }
    }

    /// Adopts other settings; the next snapshot shows them.
    fn adopt(&mut self, settings: WorkerSettings, state: &mut State) {
        if settings.names != self.names {
            for interface in &mut state.interfaces {
                interface.rename(settings.names.clone());
            }
            state.unpublished = true;
        }
        if let Some(saver) = &mut state.saver {
            saver.interval = settings.save_interval;
        }
        (self.cut, self.names) = (settings.cut, settings.names);
    }

    /// Works on each interface once. Returns whether packets were stored.
    fn work(&mut self, state: &mut State, run: &mut Run, cut: Cut) -> anyhow::Result<bool> {
        let (mut stored, mut at) = (false, 0);
        while at < state.interfaces.len() {
            state.at = Some(at);
            let (before, rest) = state.interfaces.split_at_mut(at);
            let Some((interface, after)) = rest.split_first_mut() else {
                break;
            };
            if state
                .deadline
                .is_some_and(|deadline| Instant::now() > deadline)
            {
                interface.abandon();
            }
            // Moving a table into layers may take longer than the rings can hold packets.
            let live = self.live;
            let mut pause = |ring: &mut RingReader| {
                if live {
                    ring.set_aside();
                    let others = before.iter_mut().chain(after.iter_mut());
                    others.for_each(|other| other.parts().1.set_aside());
                }
            };
            let progress = interface
                .work(run, cut, &mut pause)
                .with_context(|| interface.name().to_owned())?;
            stored |= progress == Progress::Stored;
            if progress == Progress::Drained {
                // The request with the next ring was sent before this ring was dropped.
                self.take_requests(state);
                let interface = &mut state.interfaces[at];
                if interface.change_ring()? {
                    forget_ended(state.saver.as_ref(), interface);
                    continue;
                }
                self.end(state, at)?;
                continue;
            }
            state.unpublished |= state.interfaces[at].has_turned();
            at += 1;
        }
        state.at = None;
        Ok(stored)
    }

    /// Removes and reports an interface that has ended, which may be kept for queries.
    fn end(&self, state: &mut State, at: usize) -> anyhow::Result<()> {
        let interface = &mut state.interfaces[at];
        let saved = match &state.saver {
            Some(saver) => save_last(saver, interface, state.deadline)?,
            None => false,
        };
        // Only the next run can resume the window.
        let is_resumed = saved && (state.finish || stop::is_requested());
        let keep = self.keep_ended && !interface.is_forgotten();
        let ended = state.interfaces.remove(at).end(is_resumed)?;
        if keep {
            state.ended.push(Arc::clone(&ended.view));
        }
        if self.publishes {
            self.publish(state);
        }
        // The receiver may have been dropped.
        let _ = self.ended.send(ended);
        Ok(())
    }

    /// Runs a round of queries in a thread of its own. Meanwhile windows must not change, so
    /// the worker moves packets out of the rings before these fill up.
    fn run_queries(&self, state: &mut State) {
        let State {
            interfaces,
            queries,
            ..
        } = state;
        let parts = interfaces.iter_mut().map(Interface::parts);
        let (windows, rings): (Vec<&Windows>, Vec<&mut RingReader>) = parts.unzip();
        if !self.live {
            return queries.run_due(&windows);
        }
        let (mut rings, worker) = (rings, thread::current());
        thread::scope(|scope| {
            let taking = thread::Builder::new().name("queries".into());
            let take = || {
                queries.run_due(&windows);
                worker.unpark();
            };
            let Ok(taking) = taking.spawn_scoped(scope, take) else {
                return;
            };
            while !taking.is_finished() {
                thread::park_timeout(SET_ASIDE_EVERY);
                rings.iter_mut().for_each(|ring| ring.set_aside());
            }
        });
    }

    fn publish(&self, state: &mut State) {
        let ended = state.ended.iter().map(Arc::clone);
        let live = state.interfaces.iter_mut().map(|interface| {
            interface.count_ring_used();
            interface.view()
        });
        self.snapshot.store(Arc::new(Snapshot {
            interfaces: ended.chain(live).collect(),
            names: self.names.clone(),
            lookup: Arc::clone(&self.lookup),
            published: Instant::now(),
        }));
        state.unpublished = false;
    }
}

/// Removes the saved window of an interface whose window has just ended early, so that the
/// next run does not resume it.
fn forget_ended(saver: Option<&Saver>, interface: &Interface) {
    if let Some(saver) = saver
        && interface.is_empty()
    {
        saver.forget(interface.name());
    }
}

/// Saves the windows that are due, while the writer has room.
fn save_due(state: &mut State) -> anyhow::Result<()> {
    let Some(saver) = &state.saver else {
        return Ok(());
    };
    let now = Instant::now();
    let looked_at = state.save_looked_at;
    if looked_at.is_some_and(|at| now.duration_since(at) < IDLE_SLEEP) {
        return Ok(());
    }
    state.save_looked_at = Some(now);
    let interfaces = &mut state.interfaces;
    let is_due = |at: &usize| interfaces[*at].is_to_be_saved(saver.interval, now);
    let mut due: Vec<usize> = (0..interfaces.len()).filter(is_due).collect();
    // With a slow disk, windows take turns.
    due.sort_by_key(|at| interfaces[*at].saved_at());
    for at in due {
        if !saver.has_room() {
            break;
        }
        state.at = Some(at);
        interfaces[at].save(saver)?;
    }
    state.at = None;
    Ok(())
}

/// Saves the window of an interface that ends for the next run, or removes its file if it is
/// empty or forgotten. Returns whether it is queued to be saved.
fn save_last(
    saver: &Saver,
    interface: &mut Interface,
    deadline: Option<Instant>,
) -> anyhow::Result<bool> {
    if interface.is_forgotten() || interface.is_empty() {
        saver.forget(interface.name());
        return Ok(false);
    }
    // Only a stop waits. Captures may end before the deadline is known.
    let until = match deadline {
        Some(deadline) => deadline + LAST_SAVES,
        None if stop::is_requested() => Instant::now() + LAST_SAVES,
        None => Instant::now(),
    };
    let has_room = saver.wait_for_room(until);
    match has_room {
        true => interface.save(saver)?,
        false => tracing::warn!(
            interface = interface.name(),
            "its last packets are not saved: the disk is too slow"
        ),
    }
    Ok(has_room)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_waiting_queries_is_limited() {
        let (requests, worker) = std::sync::mpsc::channel();
        let handle = WorkerHandle::new(requests, thread::current());
        let query = || handle.query(Vec::new(), |_| ());
        let answers: Vec<_> = (0..MOST_QUERIES).map(|_| query()).collect();
        assert!(answers.iter().all(Result::is_ok));
        assert_eq!(query().err(), Some(QueryError::TooMany));
        drop(worker.recv().unwrap());
        assert!(query().is_ok(), "a query was dropped");
        drop(worker);
        assert_eq!(query().err(), Some(QueryError::WorkerGone));
    }
}
