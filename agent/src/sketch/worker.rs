//! The sketch worker: the only writer of sketch state.
//!
//! Drains the rings of all lanes in batches, stores them, publishes what it
//! knows, and answers questions.

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
use crate::sketch::interface::{Lane, Work};
use crate::sketch::query::{About, Question, Questions, Reply, Which};
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
    /// Work on this lane, too.
    Lane(Box<Lane>),
    /// Answer this.
    Ask(Question),
    /// End when all lanes have ended, and give up what is not stored by then.
    Finish(Option<Instant>),
}

/// How long readers may see old numbers.
const PUBLISH_EVERY: Duration = Duration::from_millis(250);
/// Questions that may wait for an answer.
const MOST_QUESTIONS: usize = 4096;
/// How long the worker rests when no batch is full. Captures wake it when one
/// is, and so does everyone who wants something.
const NAP: Duration = Duration::from_millis(50);

/// The way to the worker.
#[derive(Clone)]
pub struct Desk {
    requests: Sender<Request>,
    worker: Thread,
    places: Arc<Semaphore>,
}

/// Why a question is not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unasked {
    /// Too many others wait for an answer.
    TooMany,
    /// There is no worker any more.
    WorkerGone,
}

impl Desk {
    /// The desk of the thread that works on `requests`.
    pub fn new(requests: Sender<Request>, worker: Thread) -> Self {
        Self {
            requests,
            worker,
            places: Arc::new(Semaphore::new(MOST_QUESTIONS)),
        }
    }

    /// Hands in a request.
    pub fn send(&self, request: Request) -> Result<(), WorkerGone> {
        self.requests.send(request).map_err(|_| WorkerGone)?;
        self.worker.unpark();
        Ok(())
    }

    /// Hands in a question; none for all interfaces, and none for the window
    /// that answers are about unless asked otherwise. Whoever drops the
    /// receiver has withdrawn the question.
    pub fn ask(
        &self,
        interface: Option<String>,
        window: Option<Which>,
        about: About,
    ) -> Result<oneshot::Receiver<Reply>, Unasked> {
        let place = Arc::clone(&self.places).try_acquire_owned();
        let (reply, answer) = oneshot::channel();
        let question = Question {
            interface,
            window,
            about,
            reply,
            _place: place.map_err(|_| Unasked::TooMany)?,
        };
        let sent = self.requests.send(Request::Ask(question));
        sent.map_err(|_| Unasked::WorkerGone)?;
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
    /// Where lanes and questions come from.
    pub requests: Receiver<Request>,
    /// Where lanes that have ended are reported.
    pub ended: Sender<Summary>,
    /// Packets of a full batch.
    pub batch: usize,
    /// When a batch is stored.
    pub cut: Cut,
    /// How many heavy hitters are published.
    pub top: usize,
    /// Pairs that are always published.
    pub watch: Vec<Pair>,
    /// Whether lanes that have ended still answer questions.
    pub keep_ended: bool,
    /// Where all is published.
    pub snapshot: Arc<ArcSwap<Snapshot>>,
}

/// What the worker is working on.
#[derive(Default)]
struct Bench {
    lanes: Vec<Lane>,
    /// Each lane's picture.
    views: Vec<Arc<InterfaceView>>,
    /// What wants to be known of them.
    questions: Questions,
    finish: bool,
    deadline: Option<Instant>,
}

impl Worker {
    /// Works until it is asked to finish and the last capture has ended.
    pub fn run(self) -> anyhow::Result<()> {
        let mut bench = Bench::default();
        let mut tools = Work::default();
        let mut published = Instant::now();
        loop {
            self.take_requests(&mut bench)?;
            let mut stored = false;
            let mut at = 0;
            while at < bench.lanes.len() {
                let lane = &mut bench.lanes[at];
                if bench
                    .deadline
                    .is_some_and(|deadline| Instant::now() > deadline)
                {
                    lane.abandon();
                }
                let (work, ended) = self
                    .work(lane, &mut tools)
                    .with_context(|| lane.name.clone())?;
                stored |= work;
                if ended && !lane.ended {
                    self.end(&mut bench, at)?;
                    if !self.keep_ended {
                        continue;
                    }
                }
                at += 1;
            }
            let done = bench.finish && bench.lanes.iter().all(|lane| lane.ended);
            if done || published.elapsed() >= PUBLISH_EVERY {
                self.publish(&mut bench)?;
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

    fn take_requests(&self, bench: &mut Bench) -> anyhow::Result<()> {
        loop {
            match self.requests.try_recv() {
                Ok(Request::Lane(mut lane)) => {
                    bench.views.push(Arc::new(InterfaceView::of(
                        &mut lane,
                        self.top,
                        &self.watch,
                    )?));
                    bench.lanes.push(*lane);
                    self.show(bench);
                }
                Ok(Request::Ask(question)) => bench.questions.take(question, &bench.lanes),
                Ok(Request::Finish(deadline)) => {
                    bench.finish = true;
                    bench.deadline = deadline;
                }
                Err(TryRecvError::Disconnected) => {
                    bench.finish = true;
                    return Ok(());
                }
                Err(TryRecvError::Empty) => return Ok(()),
            }
        }
    }

    /// Stores a batch if one is due, or turns the window; whether it did, and
    /// whether the lane has ended.
    fn work(&self, lane: &mut Lane, tools: &mut Work) -> anyhow::Result<(bool, bool)> {
        // Asked before looking into the ring: nothing comes after it.
        let ended = lane.ring.is_abandoned();
        let full = full_batch(self.batch, lane.ring.buffer().capacity());
        let ready = lane.ring.slots().min(full);
        let time = Instant::now();
        if lane.clock.is_over(time) && !ended {
            // What is in the ring came before.
            let mut left = lane.ring.slots();
            while left > 0 {
                let count = left.min(full);
                lane.store(tools, count)?;
                left -= count;
            }
            lane.turn_at(time, now())?;
            return Ok((true, false));
        }
        if ready == 0 {
            return Ok((false, ended));
        }
        let since = *lane.waiting.get_or_insert_with(Instant::now);
        let due = matches!(self.cut, Cut::Linger(linger) if since.elapsed() >= linger);
        if ready == full || ended || due {
            lane.store(tools, ready)?;
            return Ok((true, false));
        }
        Ok((false, false))
    }

    /// Reports a lane that has ended.
    fn end(&self, bench: &mut Bench, at: usize) -> anyhow::Result<()> {
        let lane = &mut bench.lanes[at];
        lane.close()?;
        lane.ended = true;
        let summary = Summary::of(lane, self.top)?;
        if self.keep_ended {
            bench.views[at] = Arc::new(InterfaceView::of(lane, self.top, &self.watch)?);
        } else {
            bench.lanes.remove(at);
            bench.views.remove(at);
        }
        self.show(bench);
        // Nobody has to be interested.
        let _ = self.ended.send(summary);
        Ok(())
    }

    fn publish(&self, bench: &mut Bench) -> anyhow::Result<()> {
        for (lane, view) in bench.lanes.iter_mut().zip(&mut bench.views) {
            lane.tally
                .ring_used
                .store(lane.ring.slots() as u64, Relaxed);
            if std::mem::take(&mut lane.dirty) {
                *view = Arc::new(InterfaceView::of(lane, self.top, &self.watch)?);
            }
        }
        self.show(bench);
        bench.questions.answer(&bench.lanes);
        Ok(())
    }

    fn show(&self, bench: &Bench) {
        self.snapshot.store(Arc::new(Snapshot {
            interfaces: bench.views.clone(),
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
    use crate::sketch::pipeline::{Key, Pipeline, Purpose};

    #[test]
    fn so_many_questions_wait_and_no_more() {
        let (requests, worker) = std::sync::mpsc::channel();
        let desk = Desk::new(requests, thread::current());
        let ask = || {
            let node = About::Node(std::net::Ipv6Addr::LOCALHOST.into());
            desk.ask(None, Some(Which::Current), node)
        };
        let answers: Vec<_> = (0..MOST_QUESTIONS).map(|_| ask()).collect();
        assert!(answers.iter().all(Result::is_ok));
        assert_eq!(ask().err(), Some(Unasked::TooMany));
        drop(worker.recv().unwrap());
        assert!(ask().is_ok(), "one has gone");
        drop(worker);
        assert_eq!(ask().err(), Some(Unasked::WorkerGone));
    }

    /// A replay of many files would keep the lists of all of them otherwise.
    #[test]
    fn a_file_that_has_ended_is_kept_only_for_those_who_ask() {
        for serve in [false, true] {
            let purpose = Purpose::Replay {
                window: None,
                history: true,
                exactly: false,
                serve,
                sketch: true,
            };
            let mut pipeline =
                Pipeline::start(&Config::default(), purpose, 10, &Key::of_seed(1)).unwrap();
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
