//! The sketch worker: the only writer of sketch state.
//!
//! Drains the rings of all interfaces in batches, stores them, publishes what it
//! knows, and answers queries.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use anyhow::Context;
use arc_swap::ArcSwap;
use tokio::sync::{Semaphore, oneshot};

use super::answer::{About, WindowName};
use super::batch::Cut;
use super::interface::{Buffers, Interface, Progress};
use super::query::{Queries, Query, Reply};
use super::renewal::{Change, Rules};
use super::ring::{RingReader, WorkerGone};
use super::saved::writer::Saver;
use super::summary::Summary;
use super::view::Lists;
use crate::export::snapshot::Snapshot;
use crate::names::Names;
use crate::panics;
use crate::stop;
use crate::systemd::Watchdog;

/// What others want of the worker.
pub enum Request {
    /// Work on this interface, too.
    Interface(Box<Interface>),
    /// Packets of this interface come through another ring from now on, and may have
    /// to be stored in another way.
    Ring(String, RingReader, Option<Box<Change>>),
    /// Go by these from now on.
    Rules(Box<Rules>),
    /// This interface is not to be seen any more when it has ended.
    Forget(String),
    /// Have windows saved from now on.
    Save(Saver),
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
/// How long a stop waits for a disk that is slow.
const LAST_SAVES: Duration = Duration::from_secs(4);

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
        window: Option<WindowName>,
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
        if window != Some(WindowName::Current) {
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
    /// When a batch is stored.
    pub cut: Cut,
    /// What is published of each interface.
    pub lists: Lists,
    /// Whether interfaces that have ended still answer queries.
    pub keep_ended: bool,
    /// Whether anyone looks at what is published.
    pub publishes: bool,
    /// Whether it goes on after a panic.
    pub recovers: bool,
    /// Names of networks, if there are any.
    pub names: Option<Arc<Names>>,
    /// Where all is published.
    pub snapshot: Arc<ArcSwap<Snapshot>>,
}

/// What the worker is working on.
#[derive(Default)]
struct State {
    interfaces: Vec<Interface>,
    /// What wants to be known of them.
    queries: Queries,
    /// The one that is being worked on.
    at: Option<usize>,
    /// Who saves windows, if anyone.
    saver: Option<Saver>,
    /// When it was last asked whether it is time to save.
    save_looked_at: Option<Instant>,
    finish: bool,
    deadline: Option<Instant>,
}

impl State {
    /// The interface of this name that has not ended.
    fn live(&mut self, name: &str) -> Option<&mut Interface> {
        let mut live = self.interfaces.iter_mut().filter(|one| !one.has_ended());
        live.find(|interface| interface.name() == name)
    }
}

impl Worker {
    /// Works until it is asked to finish and the last capture has ended.
    pub fn run(mut self) -> anyhow::Result<()> {
        let mut state = State::default();
        if !self.recovers {
            return self.run_on(&mut state);
        }
        loop {
            match panics::caught(|| self.run_on(&mut state)) {
                Some(result) => return result,
                None => self.recover(&mut state)?,
            }
        }
    }

    fn run_on(&mut self, state: &mut State) -> anyhow::Result<()> {
        let mut buffers = Buffers::default();
        let mut published = Instant::now();
        let mut watchdog = Watchdog::from_environment();
        loop {
            self.take_requests(state)?;
            let stored = self.work(state, &mut buffers)?;
            save_due(state)?;
            let done = state.finish && state.interfaces.iter().all(Interface::has_ended);
            if self.publishes && (done || published.elapsed() >= PUBLISH_EVERY) {
                self.publish(state)?;
                published = Instant::now();
                watchdog.feed();
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

    /// Goes on after a panic: the interface that was worked on begins new windows, and
    /// the others go on as before.
    fn recover(&self, state: &mut State) -> anyhow::Result<()> {
        let at = state.at.take();
        match at.and_then(|at| state.interfaces.get_mut(at)) {
            Some(interface) => interface.recover(),
            // Whatever it was may come again at once.
            None => {
                thread::sleep(NAP);
                Ok(())
            }
        }
    }

    fn take_requests(&mut self, state: &mut State) -> anyhow::Result<()> {
        let before = state.interfaces.len();
        self.take_all(state)?;
        // Once, however many interfaces came.
        if state.interfaces.len() > before {
            self.show(state);
        }
        Ok(())
    }

    fn take_all(&mut self, state: &mut State) -> anyhow::Result<()> {
        loop {
            match self.requests.try_recv() {
                Ok(Request::Interface(mut interface)) => {
                    interface.refresh(&self.lists)?;
                    state.interfaces.push(*interface);
                }
                Ok(Request::Ring(name, ring, change)) => {
                    if let Some(interface) = state.live(&name) {
                        interface.follow(ring, change);
                    }
                }
                Ok(Request::Rules(rules)) => self.adopt(*rules, state),
                Ok(Request::Forget(name)) => {
                    if let Some(interface) = state.live(&name) {
                        interface.forget();
                    }
                }
                Ok(Request::Save(saver)) => state.saver = Some(saver),
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

    /// Goes by other rules; what is published changes at the next publication.
    fn adopt(&mut self, rules: Rules, state: &mut State) {
        let (relist, rename) = (rules.lists != self.lists, rules.names != self.names);
        for interface in &mut state.interfaces {
            if relist {
                interface.relist();
            }
            if rename {
                interface.rename(rules.names.clone());
            }
        }
        if let Some(saver) = &mut state.saver {
            saver.interval = rules.save_interval;
        }
        (self.cut, self.lists, self.names) = (rules.cut, rules.lists, rules.names);
    }

    /// Goes round all interfaces once; whether there was anything to store.
    fn work(&mut self, state: &mut State, buffers: &mut Buffers) -> anyhow::Result<bool> {
        let (mut stored, mut at) = (false, 0);
        while at < state.interfaces.len() {
            state.at = Some(at);
            let interface = &mut state.interfaces[at];
            if state
                .deadline
                .is_some_and(|deadline| Instant::now() > deadline)
            {
                interface.abandon();
            }
            let progress = interface
                .work(buffers, self.cut)
                .with_context(|| interface.name().to_owned())?;
            stored |= progress == Progress::Stored;
            if progress == Progress::Drained && !interface.has_ended() {
                // Who drops a ring has named the next one before.
                self.take_requests(state)?;
                let interface = &mut state.interfaces[at];
                if interface.change_ring()? {
                    forget_ended(state.saver.as_ref(), interface);
                    continue;
                }
                let keep = self.keep_ended && !interface.is_forgotten();
                self.end(state, at, keep)?;
                if !keep {
                    continue;
                }
            }
            at += 1;
        }
        state.at = None;
        Ok(stored)
    }

    /// Reports an interface that has ended, which may be kept for queries.
    fn end(&self, state: &mut State, at: usize, keep: bool) -> anyhow::Result<()> {
        let interface = &mut state.interfaces[at];
        if let Some(saver) = &state.saver {
            save_last(saver, interface, state.deadline)?;
        }
        interface.end()?;
        let summary = interface.summary(self.lists.top)?;
        if keep {
            interface.refresh(&self.lists)?;
        } else {
            state.interfaces.remove(at);
        }
        self.show(state);
        // Nobody has to be interested.
        let _ = self.ended.send(summary);
        Ok(())
    }

    fn publish(&self, state: &mut State) -> anyhow::Result<()> {
        for (at, interface) in state.interfaces.iter_mut().enumerate() {
            state.at = Some(at);
            interface.refresh(&self.lists)?;
        }
        state.at = None;
        self.show(state);
        state.queries.answer(&state.interfaces);
        Ok(())
    }

    fn show(&self, state: &State) {
        let views = state.interfaces.iter().filter_map(Interface::view);
        self.snapshot.store(Arc::new(Snapshot {
            interfaces: views.cloned().collect(),
            names: self.names.clone(),
            published: Instant::now(),
        }));
    }
}

/// Has what was saved of the window before removed, if another has begun: nobody shall
/// take up one that ended early.
fn forget_ended(saver: Option<&Saver>, interface: &Interface) {
    if let Some(saver) = saver
        && interface.is_empty()
    {
        saver.forget(interface.name());
    }
}

/// Has windows saved for which it is time, as long as there is room for them.
fn save_due(state: &mut State) -> anyhow::Result<()> {
    let Some(saver) = &state.saver else {
        return Ok(());
    };
    let now = Instant::now();
    let looked_at = state.save_looked_at;
    if looked_at.is_some_and(|at| now.duration_since(at) < NAP) {
        return Ok(());
    }
    state.save_looked_at = Some(now);
    let interfaces = &mut state.interfaces;
    let is_due = |at: &usize| interfaces[*at].is_to_be_saved(saver.interval, now);
    let mut due: Vec<usize> = (0..interfaces.len()).filter(is_due).collect();
    // Where the disk is slow each has its turn.
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

/// Has the window of an interface that ends saved for the next run, or what there is of it
/// removed if nobody will ask for it again.
fn save_last(
    saver: &Saver,
    interface: &mut Interface,
    deadline: Option<Instant>,
) -> anyhow::Result<()> {
    if interface.is_forgotten() || interface.is_empty() {
        saver.forget(interface.name());
        return Ok(());
    }
    // Only a stop has time to wait. Captures end before it says until when.
    let until = match deadline {
        Some(deadline) => deadline + LAST_SAVES,
        None if stop::asked() => Instant::now() + LAST_SAVES,
        None => Instant::now(),
    };
    match saver.wait_for_room(until) {
        true => interface.save(saver)?,
        false => tracing::warn!(
            interface = interface.name(),
            "its last packets are not saved: the disk is too slow"
        ),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_queries_wait_and_no_more() {
        let (requests, worker) = std::sync::mpsc::channel();
        let handle = WorkerHandle::new(requests, thread::current());
        let ask = || {
            let node = About::Node(std::net::Ipv6Addr::LOCALHOST.into());
            handle.ask(None, Some(WindowName::Current), node)
        };
        let answers: Vec<_> = (0..MOST_QUERIES).map(|_| ask()).collect();
        assert!(answers.iter().all(Result::is_ok));
        assert_eq!(ask().err(), Some(QueryError::TooMany));
        drop(worker.recv().unwrap());
        assert!(ask().is_ok(), "one has gone");
        drop(worker);
        assert_eq!(ask().err(), Some(QueryError::WorkerGone));
    }
}
