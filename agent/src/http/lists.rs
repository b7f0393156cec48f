//! The lists of all interfaces, or longer ones of a single interface.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Query, State};
use axum::http::StatusCode;

use super::answers::{HeavyHitters, InterfaceHitters};
use super::api::{
    Answered, ApiError, ApiState, Parameters, ask, flag, parameters, selected, wrong,
};
use super::rates::{self, Rating};
use crate::traffic::question::By;
use crate::window::Window;
use crate::window::rates::{Fastest, Order, Period};

/// The longest list.
const MOST: usize = 500;

/// `/api/v1/heavy-hitters`
pub async fn heavy_hitters(
    State(state): State<Arc<ApiState>>,
    Query(given): Parameters,
) -> Answered<HeavyHitters> {
    let given = parameters(given, &["interface", "window", "by", "top", "rates"])?;
    let (order, view) = (order(&given)?, state.shown.view());
    let with_rates = flag(&given, "rates")? || matches!(order, Order::Rate(_));
    let names = names(&state, &given)?;
    let top = match top(&given)? {
        Some(top) => checked_length(top, names.len())?,
        None => view.top,
    };
    let mut fastest = Fastest::default();
    if let Order::Rate(period) = order {
        for name in &names {
            let latest = state.rates.latest(&state.reader, name).await;
            fastest.extend(latest.map(|latest| latest.fastest(top, period)));
        }
    }
    let shown = Arc::clone(&view);
    let lists = move |window: &Window| {
        let rows = window.rows_of(&fastest, shown.anonymiser());
        (window.lists(top, shown.anonymiser()), rows)
    };
    // Queried together, so that both see the same packets.
    let rated = if with_rates { names } else { Vec::new() };
    let rates = state.rates.recent(&state.reader, rated);
    let (rates, answers) = tokio::join!(rates, ask(&state, &given, lists));
    let interfaces = answers?.into_iter().map(|answered| {
        let (lists, more) = answered.answer;
        let mut lists = match order.by() {
            By::Packets => lists.by_packets,
            By::Bytes => lists.by_bytes,
        };
        let recent = rates.get(&answered.interface).map(AsRef::as_ref);
        if with_rates {
            let rating = Rating {
                recent,
                view: &view,
                order: order.period(),
                top,
            };
            rating.rate(&mut lists, more);
        }
        InterfaceHitters {
            interface: answered.interface,
            window: answered.window,
            state: answered.state,
            rate_seconds: with_rates.then(|| rates::seconds(recent)),
            lists,
        }
    });
    Ok(Json(HeavyHitters {
        interfaces: interfaces.collect(),
    }))
}

/// Returns the names of the interfaces that the request selects.
pub fn names(state: &ApiState, given: &BTreeMap<String, String>) -> Result<Vec<String>, ApiError> {
    let snapshot = state.reader.snapshot();
    let views = selected(&snapshot, given)?;
    Ok(views.iter().map(|view| view.name.clone()).collect())
}

/// Returns the requested length of lists, if there is one.
pub fn top(given: &BTreeMap<String, String>) -> Result<Option<usize>, ApiError> {
    let Some(text) = given.get("top") else {
        return Ok(None);
    };
    match text.parse() {
        Ok(top @ 1..=MOST) => Ok(Some(top)),
        _ => Err(wrong("top", text, &format!("1 to {MOST}"))),
    }
}

/// Refuses lists that are so long that making them for all interfaces would delay the worker.
fn checked_length(top: usize, interfaces: usize) -> Result<usize, ApiError> {
    let most = MOST / interfaces.max(1);
    if interfaces == 1 || top <= most {
        return Ok(top);
    }
    let message = format!(
        "top={top} of {interfaces} interfaces is too much at once: give interface, too, or at \
         most top={most}"
    );
    Err(ApiError(StatusCode::BAD_REQUEST, message))
}

/// Refuses requests for all interfaces that would delay the worker.
pub fn require_interface(given: &BTreeMap<String, String>, what: &str) -> Result<(), ApiError> {
    match given.contains_key("interface") {
        true => Ok(()),
        false => {
            let message = format!("{what} is for one interface: give interface, too");
            Err(ApiError(StatusCode::BAD_REQUEST, message))
        }
    }
}

fn order(given: &BTreeMap<String, String>) -> Result<Order, ApiError> {
    let text = given.get("by").map(String::as_str);
    let rate = Period::ALL.into_iter().find(|one| text == Some(one.name()));
    match (rate, text) {
        (Some(period), _) => Ok(Order::Rate(period)),
        (None, Some(other)) if other != "packets" && other != "bytes" => {
            Err(wrong("by", other, "packets, bytes, rate_2s or rate_10s"))
        }
        (None, _) => by(given).map(Order::Window),
    }
}

/// What lists are ordered by.
pub fn by(given: &BTreeMap<String, String>) -> Result<By, ApiError> {
    match given.get("by").map(String::as_str) {
        None | Some("packets") => Ok(By::Packets),
        Some("bytes") => Ok(By::Bytes),
        Some(other) => Err(wrong("by", other, "packets or bytes")),
    }
}
