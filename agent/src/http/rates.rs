//! How fast everything is now. Nothing is looked at while nobody asks: the first question
//! about the rates of an interface begins to follow it, with a look at its current window
//! twice a second, and half a minute after the last one it is forgotten.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::OwnedMutexGuard;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{MissedTickBehavior, timeout};

use super::answers::NodeRates;
use crate::ring::reader::Reader;
use crate::traffic::service::Service;
use crate::window::conversations::ConversationKey;
use crate::window::keys::{AddressKey, PairKey};
use crate::window::list::{Key, List, Row, Value};
use crate::window::lists::Lists;
use crate::window::rates::{
    FastestRows, Moment, Period, RateSeconds, Rated, Recent, RowRates, Sums, Track, of_destination,
    of_source,
};
use crate::window::view::View;

/// Time between two looks.
const STEP: Duration = Duration::from_millis(500);
/// What was seen so lately answers a question.
const FRESH: Duration = Duration::from_millis(200);
/// For how long an interface is followed after the last question.
const INTEREST: Duration = Duration::from_secs(30);
/// Interfaces that are followed at once. Of others rates are not known.
const MOST: usize = 16;
/// How long a look may take. What it would have found is too old then.
const PATIENCE: Duration = Duration::from_secs(3);

/// Interfaces that are followed.
#[derive(Clone)]
pub struct Rates {
    followed: Arc<Mutex<BTreeMap<String, Followed>>>,
    /// For how long an interface is followed after the last question.
    interest: Duration,
}

impl Default for Rates {
    fn default() -> Self {
        Self {
            followed: Arc::default(),
            interest: INTEREST,
        }
    }
}

struct Followed {
    /// When somebody last asked.
    asked: Instant,
    track: Shared,
    /// What looks twice a second.
    task: JoinHandle<()>,
}

type Shared = Arc<tokio::sync::Mutex<Tracked>>;

#[derive(Default)]
struct Tracked {
    track: Track,
    looked: Option<Instant>,
}

impl Rates {
    /// What came lately on each of these interfaces until now, as far as it is known.
    pub async fn recent(
        &self,
        reader: &Reader,
        interfaces: Vec<String>,
    ) -> BTreeMap<String, Arc<Recent>> {
        if let [interface] = &interfaces[..] {
            // At once, so that the next round of looks has it.
            let Some(track) = self.follow(reader, interface) else {
                return BTreeMap::new();
            };
            let looked = look(reader, interface, track).await;
            let recent = match looked {
                Some(tracked) => sums(tracked).await,
                None => None,
            };
            return recent
                .map(|one| (interface.clone(), one))
                .into_iter()
                .collect();
        }
        let mut asked = JoinSet::new();
        for interface in interfaces {
            let Some(track) = self.follow(reader, &interface) else {
                continue;
            };
            let reader = reader.clone();
            asked.spawn(async move {
                let recent = sums(look(&reader, &interface, track).await?).await?;
                Some((interface, recent))
            });
        }
        asked.join_all().await.into_iter().flatten().collect()
    }

    /// What came on an interface until a moment ago, without a look.
    pub async fn latest(&self, reader: &Reader, interface: &str) -> Option<Arc<Recent>> {
        let track = self.follow(reader, interface)?;
        sums(track.lock_owned().await).await
    }

    fn followed(&self) -> MutexGuard<'_, BTreeMap<String, Followed>> {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Follows an interface from now on, if it is not followed yet.
    fn follow(&self, reader: &Reader, interface: &str) -> Option<Shared> {
        let mut followed = self.followed();
        if let Some(one) = followed.get_mut(interface)
            && !one.task.is_finished()
        {
            one.asked = Instant::now();
            return Some(Arc::clone(&one.track));
        }
        followed.retain(|_, one| !one.task.is_finished());
        if followed.len() >= MOST {
            return None;
        }
        let track = Shared::default();
        let (rates, reader) = (self.clone(), reader.clone());
        let following = rates.keep_looking(reader, interface.into(), Arc::clone(&track));
        let one = Followed {
            asked: Instant::now(),
            track: Arc::clone(&track),
            task: tokio::spawn(following),
        };
        followed.insert(interface.into(), one);
        Some(track)
    }

    /// Looks twice a second for as long as somebody is interested.
    async fn keep_looking(self, reader: Reader, interface: String, track: Shared) {
        let mut ticks = tokio::time::interval(STEP);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            {
                let mut followed = self.followed();
                let asked = followed.get(&interface).map(|one| one.asked);
                if asked.is_none_or(|asked| asked.elapsed() > self.interest) {
                    followed.remove(&interface);
                    return;
                }
            }
            look(&reader, &interface, Arc::clone(&track)).await;
        }
    }
}

/// Takes a look unless there was one just now. Several that want one share it.
async fn look(reader: &Reader, interface: &str, track: Shared) -> Option<OwnedMutexGuard<Tracked>> {
    let mut tracked = track.lock_owned().await;
    if tracked.looked.is_some_and(|at| at.elapsed() < FRESH) {
        return Some(tracked);
    }
    let known = tracked.track.window();
    let asked = reader.query(interface, move |windows| Moment::of(windows, known));
    // A worker that is busy for long leaves out a step.
    let seen = timeout(PATIENCE, asked).await.ok()?;
    tracked.looked = Some(Instant::now());
    let Ok(Some(moment)) = seen else {
        // It is gone, or a file that has been read.
        tracked.track.clear();
        return None;
    };
    let added = tokio::task::spawn_blocking(move || {
        tracked.track.add(moment);
        tracked
    });
    added.await.ok()
}

/// What came lately, as sums. They are made at most once after a look.
async fn sums(mut tracked: OwnedMutexGuard<Tracked>) -> Option<Arc<Recent>> {
    let sums = tokio::task::spawn_blocking(move || tracked.track.recent());
    sums.await.ok()
}

/// Of how many seconds rates are.
pub fn seconds(recent: Option<&Recent>) -> RateSeconds {
    recent.map_or_else(RateSeconds::default, |recent| recent.seconds)
}

/// What an address sends and receives.
pub fn of_node(node: IpAddr, recent: Option<&Recent>) -> NodeRates {
    let of = |sums: fn(&Recent) -> &Sums<IpAddr>| {
        let rates = recent.map(|recent| recent.rates(sums(recent), &[node]));
        rates.unwrap_or_default()
    };
    NodeRates {
        rate_seconds: seconds(recent),
        sent_rates: of(|recent| &recent.sources),
        received_rates: of(|recent| &recent.destinations),
    }
}

/// Has every pair tell its rates.
pub fn rate_pairs(pairs: &mut [Row<PairKey>], recent: Option<&Recent>, view: &View) {
    for row in pairs {
        let rates = recent.and_then(|recent| row.key.rates(recent, view));
        row.rates = Some(rates.unwrap_or_default());
    }
}

/// How rows get their rates.
pub struct Rating<'a> {
    pub recent: Option<&'a Recent>,
    pub view: &'a View,
    /// By which rate rows are ordered; none to leave them where they are.
    pub order: Option<Period>,
    /// Rows of a list.
    pub top: usize,
}

impl Rating<'_> {
    /// Has every row of all lists tell its rates; the rows of `more` come in.
    pub fn rate(&self, lists: &mut Lists, more: FastestRows) {
        let Self { recent, view, .. } = *self;
        let all = |sums: fn(&Recent, Period) -> bool| {
            let both = recent.zip(self.order);
            both.is_some_and(|(recent, period)| sums(recent, period))
        };
        let pairs = all(|recent, period| recent.pairs.is_complete(period));
        let rates = |key: &PairKey| key.rates(recent?, view);
        self.rate_list(&mut lists.pairs, more.pairs, pairs, rates);
        let rates = |key: &ConversationKey| key.rates(recent?, view);
        self.rate_list(&mut lists.conversations, more.conversations, pairs, rates);
        let complete = all(|recent, period| recent.sources.is_complete(period));
        let rates = |key: &AddressKey| of_source(key, recent?, view);
        self.rate_list(&mut lists.sources, more.sources, complete, rates);
        let complete = all(|recent, period| recent.destinations.is_complete(period));
        let rates = |key: &AddressKey| of_destination(key, recent?, view);
        self.rate_list(&mut lists.destinations, more.destinations, complete, rates);
        let complete = all(|recent, period| recent.services.is_complete(period));
        let rates = |key: &Service| key.rates(recent?, view);
        self.rate_list(&mut lists.services, more.services, complete, rates);
    }

    /// `is_complete` says that everyone that has a rate is known.
    fn rate_list<K: Key, V: Value>(
        &self,
        list: &mut List<K, V>,
        more: Vec<Row<K, V>>,
        is_complete: bool,
        rates: impl Fn(&K) -> Option<RowRates>,
    ) {
        let rated = |mut row: Row<K, V>| {
            row.rates = Some(rates(&row.key).unwrap_or_default());
            row
        };
        list.rows = list.rows.drain(..).map(rated).collect();
        let Some(period) = self.order else {
            return;
        };
        for row in more.into_iter().map(rated) {
            // It may be fast on another interface.
            let rate = row.rates.and_then(|rates| rates.of(period));
            let is_fast = rate.is_some_and(|rate| rate.packets_per_second > 0.0);
            if is_fast && !list.rows.iter().any(|known| known.key.is_same(&row.key)) {
                list.rows.push(row);
            }
        }
        let speed = |row: &Row<K, V>| {
            let rate = row.rates.and_then(|rates| rates.of(period));
            rate.map_or(-1.0, |rate| rate.bits_per_second)
        };
        // Stable: equal ones stay in the order of their bytes.
        list.rows
            .sort_by(|one, other| speed(other).total_cmp(&speed(one)));
        list.rows.truncate(self.top);
        list.others_at_most = None;
        list.incomplete = !is_complete;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::config::length::WindowLength;
    use crate::ring::pipeline::{Mode, Pipeline};
    use crate::sketches::key::Key;

    /// Nothing is looked at before somebody asks, nor half a minute after that.
    #[test]
    fn an_interface_is_followed_only_while_somebody_asks() {
        let mut config = Config::default();
        config.sketch.device = crane_model::DeviceChoice::Cpu;
        let mode = Mode::Live(1, WindowLength::seconds(366 * 86_400));
        let mut pipeline = Pipeline::start(&config, mode, &Key::of_seed(1)).unwrap();
        let writer = pipeline.add("eth0").unwrap();
        let reader = pipeline.reader();
        let rates = Rates {
            interest: Duration::from_millis(1200),
            ..Rates::default()
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(async {
            assert!(rates.followed().is_empty());
            let asked = || rates.recent(&reader, vec!["eth0".into(), "eth1".into()]);
            let first = asked().await;
            assert_eq!(
                first.keys().collect::<Vec<_>>(),
                ["eth0"],
                "no such interface"
            );
            assert_eq!(first["eth0"].seconds, RateSeconds::default(), "not yet");
            // It looks although nobody asks again.
            let start = Instant::now();
            while rates
                .latest(&reader, "eth0")
                .await
                .unwrap()
                .seconds
                .rate_2s
                .is_none()
            {
                assert!(start.elapsed() < Duration::from_secs(60));
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            // Those that ask together share a look. The time is taken before they ask, because
            // the interface is followed for a time that begins when it is asked for.
            let start = Instant::now();
            let (one, other) = tokio::join!(asked(), asked());
            assert!(Arc::ptr_eq(&one["eth0"], &other["eth0"]));
            while !rates.followed().is_empty() {
                assert!(start.elapsed() < Duration::from_secs(60));
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            assert!(start.elapsed() > rates.interest);
            let again = asked().await;
            assert_eq!(
                again["eth0"].seconds,
                RateSeconds::default(),
                "from the beginning"
            );
            // There is an end to what is followed at once.
            let many = (0..2 * MOST).map(|n| format!("veth{n}")).collect();
            rates.recent(&reader, many).await;
            assert_eq!(rates.followed().len(), MOST);
        });
        drop(writer);
        pipeline.finish(None).unwrap();
    }
}
