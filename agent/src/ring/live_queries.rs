//! Queries about windows that are being filled, which only the worker can access.
//!
//! A query is a function that the worker calls with the windows of an interface. An answer from a
//! sketch needs a model of its load, which is valid until the next packet is stored. So queries
//! wait for a round, at most four a second, in which one model serves all of them. Without queries
//! nothing is computed.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::process::panics;
use crate::window::windows::Windows;

/// Pause between two rounds of queries.
pub const PAUSE: Duration = Duration::from_millis(250);
/// How long packets may wait for a round: a small part of the time in which the rings fill up.
const ROUND: Duration = Duration::from_millis(25);
/// On average, queries take at most one part in this many of the worker's time.
const SHARE: u32 = 10;

/// Of a query that is not finished in a round, the rest may take one part in this many.
const SHARE_OF_REST: u32 = 4;

/// A query that waits for the next round.
pub struct LiveQuery {
    /// The requested interfaces that it has not been run for, by name.
    interfaces: VecDeque<String>,
    job: Box<dyn Job>,
    /// Limits how many queries wait.
    _permit: OwnedSemaphorePermit,
}

/// The function of a query, with any type of result.
trait Job: Send {
    /// Calls the function for an interface.
    fn run(&mut self, interface: &Windows);

    /// Sends the results.
    fn finish(self: Box<Self>);

    /// Whether the receiver has been dropped.
    fn is_withdrawn(&self) -> bool;
}

struct Call<F, T> {
    query: F,
    results: Vec<T>,
    reply: oneshot::Sender<Vec<T>>,
}

impl<F, T> Job for Call<F, T>
where
    F: Fn(&Windows) -> T + Send,
    T: Send,
{
    fn run(&mut self, interface: &Windows) {
        self.results.push((self.query)(interface));
    }

    fn finish(self: Box<Self>) {
        // The receiver may have been dropped.
        let _ = self.reply.send(self.results);
    }

    fn is_withdrawn(&self) -> bool {
        self.reply.is_closed()
    }
}

impl LiveQuery {
    /// A query about these interfaces, and the receiver of its results: one for each
    /// interface that still exists.
    pub fn new<T: Send + 'static>(
        interfaces: Vec<String>,
        query: impl Fn(&Windows) -> T + Send + 'static,
        permit: OwnedSemaphorePermit,
    ) -> (Self, oneshot::Receiver<Vec<T>>) {
        let (reply, seen) = oneshot::channel();
        let query = Self {
            interfaces: interfaces.into_iter().collect(),
            job: Box::new(Call {
                query,
                results: Vec::new(),
                reply,
            }),
            _permit: permit,
        };
        (query, seen)
    }

    /// Runs the query for its interfaces until `until`, and for one at least. Returns the query if
    /// there are more.
    fn run(mut self, interfaces: &HashMap<&str, &Windows>, until: Instant) -> Option<Self> {
        while let Some(name) = self.interfaces.pop_front() {
            if let Some(windows) = interfaces.get(name.as_str()) {
                // Windows are not changed, so a panic only costs this query its reply.
                panics::catch(|| self.job.run(windows))?;
            }
            if Instant::now() >= until && !self.interfaces.is_empty() {
                return Some(self);
            }
        }
        self.job.finish();
        None
    }
}

/// Queries that wait.
pub struct LiveQueries {
    waiting: VecDeque<LiveQuery>,
    /// When the next round may begin.
    next: Instant,
}

impl Default for LiveQueries {
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
            next: Instant::now(),
        }
    }
}

impl LiveQueries {
    /// Adds a query to the next round.
    pub fn add(&mut self, query: LiveQuery) {
        self.waiting.push_back(query);
    }

    /// Whether a round is due.
    pub fn is_due(&self) -> bool {
        self.due().is_some_and(|due| Instant::now() >= due)
    }

    /// Runs a round. Queries, and interfaces of a query, for which there is no time left wait for
    /// the next one. No packet is stored meanwhile.
    pub fn run_due(&mut self, interfaces: &[&Windows]) {
        let start = Instant::now();
        self.waiting.retain(|query| !query.job.is_withdrawn());
        let by_name = interfaces.iter().map(|one| (one.interface(), *one));
        let by_name = by_name.collect();
        let mut rest = None;
        while rest.is_none()
            && start.elapsed() < ROUND
            && let Some(query) = self.waiting.pop_front()
        {
            rest = query.run(&by_name, start + ROUND);
        }
        // One interface may take longer than a round should; the pause grows with it.
        let pause = match &rest {
            None => PAUSE.max(SHARE * start.elapsed()),
            Some(_) => SHARE_OF_REST * start.elapsed(),
        };
        if let Some(rest) = rest {
            self.waiting.push_front(rest);
        }
        self.next = start + pause;
    }

    /// When the next round is due, if a query waits.
    pub fn due(&self) -> Option<Instant> {
        (!self.waiting.is_empty()).then_some(self.next)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use tokio::sync::Semaphore;

    use super::*;
    use crate::ring::interface::tests::interface;

    const LONG: Duration = Duration::from_secs(366 * 86_400);

    fn query<T: Send + 'static>(
        at: &str,
        query: impl Fn(&Windows) -> T + Send + 'static,
    ) -> (LiveQuery, oneshot::Receiver<Vec<T>>) {
        let permit = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
        LiveQuery::new(vec![at.into()], query, permit)
    }

    #[test]
    fn a_query_runs_at_once_and_the_next_one_after_a_pause() {
        let (interface, ..) = interface(LONG, 4096);
        let interfaces = [interface.windows()];
        let mut queries = LiveQueries::default();
        assert!(queries.due().is_none(), "no query waits");
        let ask = |queries: &mut LiveQueries, at: &str| {
            let (query, seen) = query(at, |windows| windows.interface().to_owned());
            queries.add(query);
            seen
        };
        let mut first = ask(&mut queries, "eth0");
        let mut unknown = ask(&mut queries, "eth1");
        queries.run_due(&interfaces);
        assert_eq!(first.try_recv().unwrap(), ["eth0"], "at once");
        assert!(unknown.try_recv().unwrap().is_empty(), "no such interface");
        let mut second = ask(&mut queries, "eth0");
        assert!(!queries.is_due(), "not yet");
        thread::sleep(PAUSE);
        assert!(queries.is_due());
        queries.run_due(&interfaces);
        assert_eq!(second.try_recv().unwrap(), ["eth0"]);
        assert!(queries.due().is_none());
    }

    #[test]
    fn the_pause_grows_with_the_duration_of_a_round() {
        let (interface, ..) = interface(LONG, 4096);
        let interfaces = [interface.windows()];
        let mut queries = LiveQueries::default();
        let slow = || query("eth0", |_| thread::sleep(2 * ROUND));
        let mut waiting: Vec<_> = (0..3)
            .map(|_| {
                let (query, seen) = slow();
                queries.add(query);
                seen
            })
            .collect();
        let start = Instant::now();
        queries.run_due(&interfaces);
        assert!(waiting[0].try_recv().is_ok());
        assert!(
            waiting[1].try_recv().is_err(),
            "the first query took all the time of the round"
        );
        assert!(queries.due().unwrap() - start >= 2 * ROUND * SHARE);
    }

    #[test]
    fn a_withdrawn_query_is_not_run_and_a_panic_affects_no_other_query() {
        let (interface, ..) = interface(LONG, 4096);
        let interfaces = [interface.windows()];
        let mut queries = LiveQueries::default();
        let (withdrawn, _) = query("eth0", |_| panic!("a withdrawn query was run"));
        queries.add(withdrawn);
        let (faulty, mut nothing) = query("eth0", |windows| {
            assert!(
                windows.interface().is_empty(),
                "this panic is part of a test"
            );
        });
        queries.add(faulty);
        let (query, mut seen) = query("eth0", |_| 7);
        queries.add(query);
        queries.run_due(&interfaces);
        assert!(nothing.try_recv().is_err());
        // Reporting the panic may take all the time of a round.
        queries.run_due(&interfaces);
        assert_eq!(seen.try_recv().unwrap(), [7]);
    }
}
