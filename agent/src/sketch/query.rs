//! Queries about pairs, networks and nodes. Only the worker can answer them:
//! the sketches are its own.
//!
//! An answer from a sketch needs a model of its load, which holds until the next
//! packet is stored. A window that is over has one for good. Queries about the
//! current window wait and are answered together at the next publication, so that
//! one model serves them all, however many they are.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::answer::{About, Answer, WindowName};
use super::interface::Interface;

/// How long packets may wait for queries between two publications: a small
/// part of the time in which the rings fill up.
const ANSWER_TIME: Duration = Duration::from_millis(25);

/// A query on its way to the worker.
pub struct Query {
    /// Of this interface; none for all.
    pub interface: Option<String>,
    /// In this window; none for the last complete one, or the current one
    /// until there is one.
    pub window: Option<WindowName>,
    /// About what.
    pub about: About,
    /// Where the answers go.
    pub reply: oneshot::Sender<Reply>,
    /// Its place among those that wait, free again when it is gone.
    pub _place: OwnedSemaphorePermit,
}

/// What a query is told.
pub type Reply = crane_model::Result<Vec<Answer>>;

impl Query {
    fn is_about(&self, interface: &Interface) -> bool {
        let name = self.interface.as_ref();
        name.is_none_or(|name| name == interface.name())
    }

    /// Whether only windows that are over are meant.
    fn is_settled(&self, interfaces: &[Interface]) -> bool {
        let meant = interfaces.iter().filter(|other| self.is_about(other));
        let mut windows = meant.filter_map(|interface| interface.meant(self.window));
        windows.all(|window| window == WindowName::Last)
    }

    /// Asks all interfaces that are meant and sends their answers.
    fn answer(self, interfaces: &[Interface]) {
        let meant = interfaces.iter().filter(|other| self.is_about(other));
        let answers = meant.filter_map(|interface| interface.answer(self.window, &self.about));
        let answers = answers.collect();
        // Who asked may have gone.
        let _ = self.reply.send(answers);
    }
}

/// Queries that wait for the next publication.
#[derive(Default)]
pub struct Queries {
    waiting: VecDeque<Query>,
    /// Time that answers have taken since the last publication.
    taken: Duration,
}

impl Queries {
    /// Answers a query about windows that are over; keeps any other one.
    pub fn take(&mut self, query: Query, interfaces: &[Interface]) {
        if self.taken < ANSWER_TIME && query.is_settled(interfaces) {
            let start = Instant::now();
            query.answer(interfaces);
            self.taken += start.elapsed();
        } else {
            self.waiting.push_back(query);
        }
    }

    /// Answers those that wait; what is too much for now waits on. No packet
    /// is stored meanwhile. Where nobody waits for the answer there is none.
    pub fn answer(&mut self, interfaces: &[Interface]) {
        let start = Instant::now();
        self.waiting.retain(|query| !query.reply.is_closed());
        while start.elapsed() < ANSWER_TIME
            && let Some(query) = self.waiting.pop_front()
        {
            query.answer(interfaces);
        }
        self.taken = start.elapsed();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crane_model::Secret;
    use tokio::sync::Semaphore;

    use super::*;
    use crate::config;
    use crate::edge::{Edge, Pair};
    use crate::service::Service;
    use crate::sketch::batch::Cut;
    use crate::sketch::budget::Budget;
    use crate::sketch::interface::{Buffers, Options, Progress};
    use crate::sketch::ring::{RingWriter, ring};
    use crate::sketch::sketches::Blueprint;
    use crate::sketch::slot::Slot;
    use crate::sketch::window::{PacketTime, WindowClock};
    use crate::tally::Tally;

    const WINDOW: u64 = 1_000_000_000;

    /// An interface and the other end of its ring.
    fn interface() -> (Interface, RingWriter) {
        let config = config::Sketch::default();
        let blueprint = Blueprint::new(&config, Secret::from_seed(1)).unwrap();
        let (writer, ring) = ring(65536, std::thread::current(), 4096);
        let interface = Interface::new(Options {
            name: "eth0".into(),
            tally: Arc::new(Tally::default()),
            ring,
            past: None,
            clock: WindowClock::Packets(PacketTime::new("1s".parse().unwrap())),
            scale: 1,
            stores: true,
            budget: Budget::new(&config, 1, 2, blueprint.least()).unwrap(),
            blueprint: Arc::new(blueprint),
            names: None,
            settings: None,
        });
        (interface.unwrap(), writer)
    }

    /// The nth pair.
    fn pair(n: u32) -> Pair {
        Pair::V4(n.into(), [10, 0, 0, 1].into())
    }

    /// A question about it.
    fn flow(n: u32) -> About {
        format!("{},{}", pair(n).src(), pair(n).dst())
            .parse()
            .unwrap()
    }

    /// Stores a packet of each of these pairs.
    fn store(
        (interface, ring): &mut (Interface, RingWriter),
        pairs: std::ops::Range<u32>,
        time: u64,
    ) {
        let mut slots = Vec::new();
        for n in pairs {
            let edge = Edge {
                name: pair(n).name(),
                service: Service::FRAGMENT,
                bytes: 100,
                time,
            };
            Slot::write(&edge, &mut slots);
        }
        ring.push(&mut slots);
        assert!(slots.is_empty(), "the ring is large enough");
        let mut buffers = Buffers::default();
        let mut work = || interface.work(&mut buffers, Cut::Linger(Duration::ZERO));
        while work().unwrap() == Progress::Stored {}
    }

    fn query(window: Option<WindowName>, about: About) -> (Query, oneshot::Receiver<Reply>) {
        let (reply, answer) = oneshot::channel();
        let place = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
        let query = Query {
            interface: None,
            window,
            about,
            reply,
            _place: place,
        };
        (query, answer)
    }

    fn packets(answer: &mut oneshot::Receiver<Reply>) -> Option<u64> {
        let answers = answer.try_recv().ok()?.unwrap();
        Some(answers[0].flows[0].packets.estimate)
    }

    #[test]
    fn what_is_over_is_answered_at_once_and_the_rest_together() {
        let mut interface = interface();
        let mut queries = Queries::default();
        store(&mut interface, 0..1, 1);
        let about = || flow(0);
        let (first, mut first_answer) = query(None, about());
        queries.take(first, std::slice::from_ref(&interface.0));
        store(&mut interface, 0..1, 2);
        let (second, mut second_answer) = query(Some(WindowName::Current), about());
        queries.take(second, std::slice::from_ref(&interface.0));
        store(&mut interface, 0..1, 3);
        assert_eq!(packets(&mut first_answer), None, "it waits");
        queries.answer(std::slice::from_ref(&interface.0));
        // Both see the same window at the same time.
        assert_eq!(packets(&mut first_answer), Some(3));
        assert_eq!(packets(&mut second_answer), Some(3));

        store(&mut interface, 0..1, WINDOW + 1);
        let (last, mut answer) = query(None, about());
        queries.take(last, std::slice::from_ref(&interface.0));
        assert_eq!(packets(&mut answer), Some(3));
    }

    /// So many queries are more than there is time for at one publication.
    const TOO_MANY: usize = 50_000;

    /// An interface whose sketches have to estimate.
    fn busy() -> Interface {
        let mut interface = interface();
        for round in 0..4 {
            store(&mut interface, round * 50_000..(round + 1) * 50_000, 1);
        }
        interface.0
    }

    #[test]
    fn many_queries_do_not_keep_packets_waiting() {
        let interfaces = [busy()];
        let mut queries = Queries::default();
        let asked = (0..TOO_MANY).map(|n| {
            let about = About::Node(pair(n as u32).src());
            let (query, answer) = query(None, about);
            queries.take(query, &interfaces);
            answer
        });
        let mut answers: Vec<_> = asked.collect();
        let start = Instant::now();
        queries.answer(&interfaces);
        assert!(start.elapsed() < 10 * ANSWER_TIME, "{:?}", start.elapsed());
        assert!(packets(&mut answers[0]).is_some());
        let last = &mut answers[TOO_MANY - 1];
        assert_eq!(packets(last), None, "there was time for all");
        while !queries.waiting.is_empty() {
            queries.answer(&interfaces);
        }
        assert!(packets(last).is_some(), "but none is forgotten");
    }

    #[test]
    fn an_abandoned_query_costs_nothing() {
        let interfaces = [busy()];
        let mut queries = Queries::default();
        for n in 0..TOO_MANY {
            let (query, _) = query(None, About::Node(pair(n as u32).src()));
            queries.take(query, &interfaces);
        }
        let (last, mut answer) = query(None, flow(7));
        queries.take(last, &interfaces);
        queries.answer(&interfaces);
        assert!(packets(&mut answer).is_some(), "nobody is before it");
    }
}
