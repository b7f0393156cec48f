//! The last quarter of an hour of every interface, so that whoever opens a chart sees
//! one at once. What became of packets is counted anyway; here it is noted from
//! time to time. 24 bytes a point: 4 KiB an interface.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Json;
use axum::extract::{Query, State};
use serde::Serialize;
use tokio::time::MissedTickBehavior;

use super::api::{Answered, ApiState, Parameters, meant, parameters, wrong};
use crate::export::snapshot::Snapshot;
use crate::tally::Tally;

/// Time between two points.
const STEP: Duration = Duration::from_secs(5);
/// Points of an interface.
const MOST: usize = 180;

/// Points of all interfaces.
#[derive(Default)]
pub struct History {
    noted: Mutex<Noted>,
}

#[derive(Default)]
struct Noted {
    /// When the last point was noted, in seconds since 1970.
    end: f64,
    interfaces: BTreeMap<String, Points>,
}

/// Points of one interface, oldest first.
#[derive(Default)]
struct Points {
    /// What its counters were.
    before: Point,
    points: VecDeque<Point>,
}

/// Packets, bytes and packets lost, of a step.
type Point = [u64; 3];

/// What is known of the past.
#[derive(Debug, Serialize)]
pub struct HistoryAnswer {
    /// Seconds of a step.
    step_seconds: f64,
    /// When the last step ended, in seconds since 1970; none before the first.
    end: Option<f64>,
    interfaces: Vec<InterfaceHistory>,
}

/// Of each step what an interface had, oldest first.
#[derive(Debug, Serialize)]
struct InterfaceHistory {
    interface: String,
    /// Packets the capture handed over.
    packets: Vec<u64>,
    /// Their bytes.
    bytes: Vec<u64>,
    /// Packets lost, whoever lost them.
    dropped: Vec<u64>,
}

/// Notes points for ever.
pub async fn keep(state: Arc<ApiState>) {
    let mut ticks = tokio::time::interval(STEP);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first is now.
    ticks.tick().await;
    loop {
        ticks.tick().await;
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0.0, |now| now.as_secs_f64());
        state.history.note(&state.snapshot.load(), now);
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
    let snapshot = state.snapshot.load();
    let views = meant(&snapshot, &given)?;
    let names = views.iter().map(|view| view.name.as_str());
    Ok(Json(state.history.last(names, most)))
}

impl History {
    fn note(&self, snapshot: &Snapshot, now: f64) {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        noted.end = now;
        let mut before = std::mem::take(&mut noted.interfaces);
        for view in &snapshot.interfaces {
            let mut points = before.remove(&view.name).unwrap_or_default();
            points.note(counters(&view.tally));
            noted.interfaces.insert(view.name.clone(), points);
        }
    }

    fn last<'a>(&self, names: impl Iterator<Item = &'a str>, most: usize) -> HistoryAnswer {
        let noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        let interfaces = names.map(|name| {
            let points = noted.interfaces.get(name);
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
            end: (noted.end > 0.0).then_some(noted.end),
            interfaces: interfaces.collect(),
        }
    }
}

impl Points {
    fn note(&mut self, now: Point) {
        if self.points.len() == MOST {
            self.points.pop_front();
        }
        let before = std::mem::replace(&mut self.before, now);
        // An interface that was gone for good begins anew.
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
    fn so_many_points_are_kept_and_a_new_beginning_is_one() {
        let mut points = Points::default();
        for n in 1..=MOST as u64 + 3 {
            points.note([n * 10, n * 100, 0]);
        }
        assert_eq!(points.points.len(), MOST);
        points.note([7, 70, 1]);
        assert_eq!(points.points.back(), Some(&[7, 70, 1]));
        assert_eq!(points.points.front(), Some(&[10, 100, 0]));
    }
}
