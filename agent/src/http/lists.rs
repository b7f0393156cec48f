//! Who is heavy: the published lists, or longer ones of one interface.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use crane_model::Flow;

use super::answers::{HeavyHitters, HeavyNode, HeavyPair, InterfaceHitters};
use super::api::{Answered, ApiState, Parameters, Refusal, ask, meant, parameters, which, wrong};
use crate::export::hitters::Hitters;
use crate::export::snapshot::WindowView;
use crate::names::Names;
use crate::sketch::answer::{About, WindowName};
use crate::sketch::fan_rows::FanRows;

/// The longest list.
const MOST: usize = 500;

/// `/api/v1/heavy-hitters`
pub async fn heavy_hitters(
    State(state): State<Arc<ApiState>>,
    Query(given): Parameters,
) -> Answered<HeavyHitters> {
    let given = parameters(given, &["interface", "window", "by", "top"])?;
    let asked = which(&given)?;
    let by_bytes = by_bytes(&given)?;
    if let Some(top) = top(&given)? {
        of_one(&given, "top")?;
        // Cut after networks are added up: a list that grows one by one would take them
        // apart again.
        let most = if state.snapshot.adds_up() { MOST } else { top };
        let about = About::Lists {
            top: most,
            with: None,
        };
        let answers = ask(&state, &given, about).await?;
        let interfaces = answers.into_iter().filter_map(|answer| {
            let (mut view, names) = state.snapshot.window(*answer.lists?);
            view.fans.shorten(top);
            let (interface, window) = (answer.interface, answer.window);
            let mut all = hitters(interface, window, &view, by_bytes, names.as_deref());
            all.pairs.truncate(top);
            all.sources.truncate(top);
            all.destinations.truncate(top);
            all.services.truncate(top);
            Some(all)
        });
        let interfaces = interfaces.collect();
        return Ok(Json(HeavyHitters { interfaces }));
    }
    let snapshot = state.snapshot.load();
    let names = snapshot.names.as_deref();
    let mut interfaces = Vec::new();
    for view in meant(&snapshot, &given)? {
        let Some(which) = WindowName::meant(asked, view.last.is_some()) else {
            continue;
        };
        let window = view.last.as_deref().filter(|_| which == WindowName::Last);
        let window = window.unwrap_or(&view.current);
        interfaces.push(hitters(view.name.clone(), which, window, by_bytes, names));
    }
    Ok(Json(HeavyHitters { interfaces }))
}

/// How long a list shall be, if anything is said of it.
pub fn top(given: &BTreeMap<String, String>) -> Result<Option<usize>, Refusal> {
    let Some(text) = given.get("top") else {
        return Ok(None);
    };
    match text.parse() {
        Ok(top @ 1..=MOST) => Ok(Some(top)),
        _ => Err(wrong("top", text, &format!("1 to {MOST}"))),
    }
}

/// Refuses what would hold up the worker if all interfaces were asked at once.
pub fn of_one(given: &BTreeMap<String, String>, what: &str) -> Result<(), Refusal> {
    match given.contains_key("interface") {
        true => Ok(()),
        false => {
            let message = format!("{what} is for one interface: give interface, too");
            Err(Refusal(StatusCode::BAD_REQUEST, message))
        }
    }
}

/// The heaviest pairs that a node is an end of, as may be shown, by interface.
pub async fn pairs_with(
    state: &ApiState,
    given: &BTreeMap<String, String>,
    node: IpAddr,
    top: usize,
) -> Result<BTreeMap<String, Vec<HeavyPair>>, Refusal> {
    let with = Some(node);
    let answers = ask(state, given, About::Lists { top, with }).await?;
    let pairs = answers.into_iter().filter_map(|answer| {
        let (view, names) = state.snapshot.window(*answer.lists?);
        let pair = |flow: &Flow<_>| HeavyPair::new(flow, &view, names.as_deref());
        Some((
            answer.interface,
            list(&view.pairs, by_bytes(given).ok()?, pair),
        ))
    });
    Ok(pairs.collect())
}

/// Whether lists are ordered by bytes.
pub fn by_bytes(given: &BTreeMap<String, String>) -> Result<bool, Refusal> {
    match given.get("by").map(String::as_str) {
        None | Some("packets") => Ok(false),
        Some("bytes") => Ok(true),
        Some(other) => Err(wrong("by", other, "packets or bytes")),
    }
}

/// The lists of a window.
fn hitters(
    interface: String,
    which: WindowName,
    window: &WindowView,
    by_bytes: bool,
    names: Option<&Names>,
) -> InterfaceHitters {
    let node = |flow: &Flow<_>| HeavyNode::new(flow, names);
    InterfaceHitters {
        interface,
        window: which,
        state: window.into(),
        pairs: list(&window.pairs, by_bytes, |flow| {
            HeavyPair::new(flow, window, names)
        }),
        sources: list(&window.sources, by_bytes, node),
        destinations: list(&window.destinations, by_bytes, node),
        services: list(&window.services, by_bytes, |flow| flow.into()),
        fans: FanRows::new(&window.fans, names),
    }
}

fn list<K, T>(hitters: &Hitters<K>, by_bytes: bool, entry: impl Fn(&Flow<K>) -> T) -> Vec<T> {
    let flows = match by_bytes {
        true => &hitters.by_bytes,
        false => &hitters.by_packets,
    };
    flows.iter().map(entry).collect()
}
