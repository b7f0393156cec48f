//! Rates over the last seconds. Windows are only queried while rates are requested: the first
//! request for the rates of an interface starts a task that queries its current window twice a
//! second, and the task ends half a minute after the last request.

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

/// Time between two queries.
const STEP: Duration = Duration::from_millis(500);
/// The result of a query no older than this is used again.
const FRESH: Duration = Duration::from_millis(200);
/// How long an interface is followed after the last request.
const FOLLOW_TIME: Duration = Duration::from_secs(30);
/// Most interfaces that are followed at once. The rates of others are unknown.
const MOST: usize = 16;
/// Timeout of a query. A later result would be too old.
const QUERY_TIME: Duration = Duration::from_secs(3);

/// Interfaces that are followed.
#[derive(Clone)]
pub struct Rates {
    followed: Arc<Mutex<BTreeMap<String, Followed>>>,
    /// How long an interface is followed after the last request.
    follow_time: Duration,
}

impl Default for Rates {
    fn default() -> Self {
        Self {
            followed: Arc::default(),
            follow_time: FOLLOW_TIME,
        }
    }
}

struct Followed {
    /// Time of the last request.
    requested_at: Instant,
    track: Shared,
    /// Queries the current window twice a second.
    task: JoinHandle<()>,
}

type Shared = Arc<tokio::sync::Mutex<Tracked>>;

#[derive(Default)]
struct Tracked {
    track: Track,
    /// Time of the last query.
    queried_at: Option<Instant>,
}

impl Rates {
    /// Returns the latest traffic of each of these interfaces, up to now. Interfaces whose traffic
    /// is unknown are left out.
    pub async fn recent(
        &self,
        reader: &Reader,
        interfaces: Vec<String>,
    ) -> BTreeMap<String, Arc<Recent>> {
        if let [interface] = &interfaces[..] {
            // Queried directly, not in a spawned task, so that the worker's next round includes it.
            let Some(track) = self.follow(reader, interface) else {
                return BTreeMap::new();
            };
            let queried = query(reader, interface, track).await;
            let recent = match queried {
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
                let recent = sums(query(&reader, &interface, track).await?).await?;
                Some((interface, recent))
            });
        }
        asked.join_all().await.into_iter().flatten().collect()
    }

    /// Returns the traffic of an interface up to the last query, without a new query.
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
            one.requested_at = Instant::now();
            return Some(Arc::clone(&one.track));
        }
        followed.retain(|_, one| !one.task.is_finished());
        if followed.len() >= MOST {
            return None;
        }
        let track = Shared::default();
        let (rates, reader) = (self.clone(), reader.clone());
        let following = rates.query_periodically(reader, interface.into(), Arc::clone(&track));
        let one = Followed {
            requested_at: Instant::now(),
            track: Arc::clone(&track),
            task: tokio::spawn(following),
        };
        followed.insert(interface.into(), one);
        Some(track)
    }

    /// Queries the current window twice a second as long as rates are requested.
    async fn query_periodically(self, reader: Reader, interface: String, track: Shared) {
        let mut ticks = tokio::time::interval(STEP);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            {
                let mut followed = self.followed();
                let asked = followed.get(&interface).map(|one| one.requested_at);
                if asked.is_none_or(|asked| asked.elapsed() > self.follow_time) {
                    followed.remove(&interface);
                    return;
                }
            }
            query(&reader, &interface, Arc::clone(&track)).await;
        }
    }
}

/// Queries the current window, unless that was done just now. Concurrent calls share a query.
async fn query(
    reader: &Reader,
    interface: &str,
    track: Shared,
) -> Option<OwnedMutexGuard<Tracked>> {
    let mut tracked = track.lock_owned().await;
    if tracked.queried_at.is_some_and(|at| at.elapsed() < FRESH) {
        return Some(tracked);
    }
    let known = tracked.track.window();
    let asked = reader.query(interface, move |windows| Moment::of(windows, known));
    // If the worker is busy for too long, this step is left out.
    let seen = timeout(QUERY_TIME, asked).await.ok()?;
    tracked.queried_at = Some(Instant::now());
    let Ok(Some(moment)) = seen else {
        // The interface is gone, or is a file that has been read.
        tracked.track.clear();
        return None;
    };
    let added = tokio::task::spawn_blocking(move || {
        tracked.track.add(moment);
        tracked
    });
    added.await.ok()
}

/// Returns the sums of the latest traffic. They are made at most once after each query.
async fn sums(mut tracked: OwnedMutexGuard<Tracked>) -> Option<Arc<Recent>> {
    let sums = tokio::task::spawn_blocking(move || tracked.track.recent());
    sums.await.ok()
}

/// Number of seconds over which rates are measured.
pub fn seconds(recent: Option<&Recent>) -> RateSeconds {
    recent.map_or_else(RateSeconds::default, |recent| recent.seconds)
}

/// Rates that an address sends and receives.
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

/// Sets the rates of every pair.
pub fn rate_pairs(pairs: &mut [Row<PairKey>], recent: Option<&Recent>, view: &View) {
    for row in pairs {
        let rates = recent.and_then(|recent| row.key.rates(recent, view));
        row.rates = Some(rates.unwrap_or_default());
    }
}

/// Sets the rates of rows.
pub struct Rating<'a> {
    pub recent: Option<&'a Recent>,
    pub view: &'a View,
    /// Rate by which rows are ordered; `None` to keep their order.
    pub order: Option<Period>,
    /// Most rows of a list.
    pub top: usize,
}

impl Rating<'_> {
    /// Sets the rates of every row of all lists. If rows are ordered by rate, the rows of `more`
    /// are added.
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

    /// `is_complete` tells whether all keys with a rate are known.
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
            // Its rate may be from another interface.
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
        // Stable: rows of the same rate stay in the order of their bytes.
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

    /// Nothing is queried before the first request, nor after the time that follows the last one.
    #[test]
    fn an_interface_is_followed_only_while_rates_are_requested() {
        let mut config = Config::default();
        config.sketch.device = crane_model::DeviceChoice::Cpu;
        let mode = Mode::Live(1, WindowLength::seconds(366 * 86_400));
        let mut pipeline = Pipeline::start(&config, mode, &Key::of_seed(1)).unwrap();
        let writer = pipeline.add("eth0").unwrap();
        let reader = pipeline.reader();
        let rates = Rates {
            follow_time: Duration::from_millis(1200),
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
            // The window is queried although no further rates are requested.
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
            // Concurrent requests share a query. The time is taken before them, because the
            // interface is followed for a time that begins with the last request.
            let start = Instant::now();
            let (one, other) = tokio::join!(asked(), asked());
            assert!(Arc::ptr_eq(&one["eth0"], &other["eth0"]));
            while !rates.followed().is_empty() {
                assert!(start.elapsed() < Duration::from_secs(60));
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            assert!(start.elapsed() > rates.follow_time);
            let again = asked().await;
            assert_eq!(
                again["eth0"].seconds,
                RateSeconds::default(),
                "rates start again"
            );
            // The number of interfaces that are followed at once is limited.
            let many = (0..2 * MOST).map(|n| format!("veth{n}")).collect();
            rates.recent(&reader, many).await;
            assert_eq!(rates.followed().len(), MOST);
        });
        drop(writer);
        pipeline.finish(None).unwrap();
    }
}
