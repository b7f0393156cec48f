//! Packets and bytes of the last quarter of an hour for each interface, so that a chart has data as
//! soon as it is opened. The counters are read at regular intervals. A point takes 24 bytes: 4 KiB
//! per interface.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Json;
use axum::extract::{Query, State};
use parking_lot::Mutex;
use serde::Serialize;
use tokio::time::MissedTickBehavior;

use super::api::{Answered, ApiState, Parameters, parameters, selected, wrong};
use crate::traffic::tally::Tally;
use crate::window::snapshot::Snapshot;

const STEP: Duration = Duration::from_secs(5);
/// Most points of an interface.
const MOST: usize = 180;

/// Points of all interfaces.
#[derive(Default)]
pub struct History {
    recorded: Mutex<Recorded>,
}

#[derive(Default)]
struct Recorded {
    /// Time of the last point, in seconds since 1970.
    end: f64,
    interfaces: BTreeMap<String, Points>,
}

/// Points of one interface, oldest first.
#[derive(Default)]
struct Points {
    /// Counters at the last point.
    before: Point,
    points: VecDeque<Point>,
}

/// Packets, bytes and packets lost in one step.
type Point = [u64; 3];

#[derive(Debug, Serialize)]
pub struct HistoryAnswer {
    step_seconds: f64,
    /// End of the last step, in seconds since 1970. `None` before the first.
    end: Option<f64>,
    interfaces: Vec<InterfaceHistory>,
}

/// Values of each step, oldest first.
#[derive(Debug, Serialize)]
struct InterfaceHistory {
    interface: String,
    /// Packets received by the capture.
    packets: Vec<u64>,
    /// Their bytes.
    bytes: Vec<u64>,
    /// Packets lost, for any reason.
    dropped: Vec<u64>,
}

/// Records a point at every step. Never returns.
pub async fn keep(state: Arc<ApiState>) {
    let mut ticks = tokio::time::interval(STEP);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first tick is immediate.
    ticks.tick().await;
    loop {
        ticks.tick().await;
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0.0, |now| now.as_secs_f64());
        state.history.record(&state.reader.snapshot(), now);
    }
}

/// `/api/v1/history`
pub async fn history(
    State(state): State<Arc<ApiState>>,
    Query(given): Parameters,
) -> Answered<HistoryAnswer> {
    let given = parameters(given, &["interface", "points"])?;
    let most = match given.get("points") {
        None => MOST,
        Some(text) => match text.parse() {
            Ok(points @ 1..=MOST) => points,
            _ => return Err(wrong("points", text, &format!("1 to {MOST}"))),
        },
    };
    let snapshot = state.reader.snapshot();
    let views = selected(&snapshot, &given)?;
    let names = views.iter().map(|view| view.name.as_str());
    Ok(Json(state.history.last(names, most)))
}

impl History {
    fn record(&self, snapshot: &Snapshot, now: f64) {
        let mut recorded = self.recorded.lock();
        recorded.end = now;
        let mut before = std::mem::take(&mut recorded.interfaces);
        for view in &snapshot.interfaces {
            let mut points = before.remove(&view.name).unwrap_or_default();
            points.record(counters(&view.tally));
            recorded.interfaces.insert(view.name.clone(), points);
        }
    }

    fn last<'a>(&self, names: impl Iterator<Item = &'a str>, most: usize) -> HistoryAnswer {
        let recorded = self.recorded.lock();
        let interfaces = names.map(|name| {
            let points = recorded.interfaces.get(name);
            let column = |at: usize| {
                let points = points.map(|points| &points.points).into_iter().flatten();
                let skipped = points.clone().count().saturating_sub(most);
                points.skip(skipped).map(|point| point[at]).collect()
            };
            InterfaceHistory {
                interface: name.into(),
                packets: column(0),
                bytes: column(1),
                dropped: column(2),
            }
        });
        HistoryAnswer {
            step_seconds: STEP.as_secs_f64(),
            end: (recorded.end > 0.0).then_some(recorded.end),
            interfaces: interfaces.collect(),
        }
    }
}

impl Points {
    fn record(&mut self, now: Point) {
        if self.points.len() == MOST {
            self.points.pop_front();
        }
        let before = std::mem::replace(&mut self.before, now);
        // Counters start again at 0 if an interface was removed and added again.
        let since = |at: usize| now[at].checked_sub(before[at]).unwrap_or(now[at]);
        self.points.push_back([since(0), since(1), since(2)]);
    }
}

fn counters(tally: &Tally) -> Point {
    let dropped = tally.dropped().map(|(_, count)| count);
    let (packets, bytes) = (tally.packets.load(Relaxed), tally.bytes.load(Relaxed));
    [packets, bytes, dropped.iter().sum()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_points_is_limited_and_counters_may_restart() {
        let mut points = Points::default();
        for n in 1..=MOST as u64 + 3 {
            points.record([n * 10, n * 100, 0]);
        }
        assert_eq!(points.points.len(), MOST);
        points.record([7, 70, 1]);
        assert_eq!(points.points.back(), Some(&[7, 70, 1]));
        assert_eq!(points.points.front(), Some(&[10, 100, 0]));
    }
}
