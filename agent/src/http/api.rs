//! What the server answers.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use arc_swap::ArcSwap;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use crane_model::Flow;
use serde_json::{Value, json};

use crate::edge::Pair;
use crate::export::hitters::Hitters;
use crate::export::metrics::Exporter;
use crate::export::snapshot::{InterfaceView, Snapshot, WindowView};
use crate::sketch::query::{About, Answer, Estimate, Which};
use crate::sketch::worker::{QueryError, WorkerHandle};

/// The text format Prometheus reads.
const PROMETHEUS_TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
/// A worker that has published nothing for this long stands still.
const STILL: Duration = Duration::from_secs(10);
/// How long a query may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// What requests are answered from.
pub struct Source {
    /// Renders metrics.
    pub exporter: Exporter,
    /// What the worker knew last.
    pub snapshot: Arc<ArcSwap<Snapshot>>,
    /// Where queries go.
    pub worker: WorkerHandle,
}

type Parameters = Query<Vec<(String, String)>>;

/// Why a request cannot be answered.
struct Refusal(StatusCode, String);

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.0, Json(json!({ "error": self.1 }))).into_response()
    }
}

type Answered = Result<Json<Value>, Refusal>;

/// All paths.
pub fn router(source: Arc<Source>) -> Router {
    Router::new()
        .route(
            "/",
            get(|| async { "crane-agent: metrics are at /metrics\n" }),
        )
        .route("/metrics", get(metrics))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/api/v1/interfaces", get(interfaces))
        .route("/api/v1/heavy-hitters", get(heavy_hitters))
        .route("/api/v1/flow", get(flow))
        .route("/api/v1/node", get(node))
        .fallback(|| async { Refusal(StatusCode::NOT_FOUND, "no such path".into()) })
        .with_state(source)
}

async fn metrics(State(source): State<Arc<Source>>) -> impl IntoResponse {
    let text = source.exporter.render(&source.snapshot.load());
    ([(CONTENT_TYPE, PROMETHEUS_TEXT)], text)
}

/// Whether the agent works: its worker goes round.
async fn healthz(State(source): State<Arc<Source>>) -> Response {
    let age = source.snapshot.load().published.elapsed();
    if age < STILL {
        return "ok\n".into_response();
    }
    let message = format!("the sketch worker stands still for {} s\n", age.as_secs());
    (StatusCode::SERVICE_UNAVAILABLE, message).into_response()
}

/// Whether the agent sees what it is to see: its captures are open.
async fn readyz(State(source): State<Arc<Source>>) -> Response {
    let snapshot = source.snapshot.load();
    let down = snapshot
        .interfaces
        .iter()
        .filter(|view| !view.ended && !view.tally.up.load(Relaxed));
    let down: Vec<&str> = down.map(|view| view.name.as_str()).collect();
    if snapshot.interfaces.is_empty() {
        return (StatusCode::SERVICE_UNAVAILABLE, "no capture is open yet\n").into_response();
    }
    if down.is_empty() {
        return "ok\n".into_response();
    }
    let message = format!("not captured: {}\n", down.join(", "));
    (StatusCode::SERVICE_UNAVAILABLE, message).into_response()
}

async fn interfaces(State(source): State<Arc<Source>>, Query(given): Parameters) -> Answered {
    parameters(given, &[])?;
    let snapshot = source.snapshot.load();
    let views = snapshot.interfaces.iter().map(|view| {
        let tally = &view.tally;
        let ignored: BTreeMap<_, _> = tally.ignored_by_reason().collect();
        let dropped: BTreeMap<_, _> = tally.dropped().into_iter().collect();
        json!({
            "interface": view.name,
            "up": tally.up.load(Relaxed),
            "packets": tally.packets.load(Relaxed),
            "bytes": tally.bytes.load(Relaxed),
            "edges": tally.edges.load(Relaxed),
            "ignored": ignored,
            "dropped": dropped,
            "layers": view.loads.len(),
            "expansions": view.expansions,
            "memory_bytes": view.memory_bytes,
            "saturated": view.saturated,
            "current": window_json(&view.current),
            "last": view.last.as_deref().map(window_json),
        })
    });
    Ok(Json(json!({ "interfaces": views.collect::<Vec<_>>() })))
}

fn window_json(window: &WindowView) -> Value {
    let seconds = |time: Option<u64>| time.map(|time| time as f64 / 1e9);
    json!({
        "start": seconds(window.start),
        "end": seconds(window.end),
        "seconds": window.seconds(),
        "packets": window.packets,
        "bytes": window.bytes,
    })
}

async fn heavy_hitters(State(source): State<Arc<Source>>, Query(given): Parameters) -> Answered {
    let given = parameters(given, &["interface", "window", "by"])?;
    let which = which(&given)?;
    let by_bytes = match given.get("by").map(String::as_str) {
        None | Some("packets") => false,
        Some("bytes") => true,
        Some(other) => return Err(wrong("by", other, "packets or bytes")),
    };
    let snapshot = source.snapshot.load();
    let mut answers = Vec::new();
    for view in meant(&snapshot, &given)? {
        let Some(name) = Which::meant(which, view.last.is_some()) else {
            continue;
        };
        let window = view.last.as_deref().filter(|_| name == Which::Last);
        let window = window.unwrap_or(&view.current);
        let mut answer = json!({
            "interface": view.name,
            "window": name,
            "pairs": list(&window.pairs, by_bytes, |pair| {
                vec![("src", pair.src()), ("dst", pair.dst())]
            }),
            "sources": list(&window.sources, by_bytes, |ip| vec![("ip", *ip)]),
            "destinations": list(&window.destinations, by_bytes, |ip| vec![("ip", *ip)]),
        });
        if let (Value::Object(answer), Value::Object(about)) = (&mut answer, window_json(window)) {
            answer.extend(about);
        }
        answers.push(answer);
    }
    Ok(Json(json!({ "interfaces": answers })))
}

fn list<K>(
    hitters: &Hitters<K>,
    by_bytes: bool,
    addresses: fn(&K) -> Vec<(&'static str, IpAddr)>,
) -> Vec<Value>
where
    K: Copy + Eq,
{
    let flows = if by_bytes {
        &hitters.by_bytes
    } else {
        &hitters.by_packets
    };
    let entry = |flow: &Flow<K>| {
        let mut entry = json!({
            "packets": flow.packets, "low": flow.low, "high": flow.high,
            "bytes": flow.bytes, "bytes_at_least": flow.bytes_at_least,
        });
        for (name, address) in addresses(&flow.key) {
            entry[name] = json!(address);
        }
        entry
    };
    flows.iter().map(entry).collect()
}

async fn flow(State(source): State<Arc<Source>>, Query(given): Parameters) -> Answered {
    let given = parameters(given, &["src", "dst", "interface", "window"])?;
    let (src, dst) = (address(&given, "src")?, address(&given, "dst")?);
    let pair = Pair::between(src, dst).ok_or_else(|| {
        let allowed = "an address of the same kind as src";
        wrong("dst", &dst.to_string(), allowed)
    })?;
    let answers = ask(&source, &given, About::Flow(pair)).await?;
    let entry = |answer: Answer| {
        let estimate = answer.estimates.first().copied();
        described(&answer, json!({ "estimate": estimate }))
    };
    let flows: Vec<Value> = answers.into_iter().map(entry).collect();
    Ok(Json(json!({ "src": src, "dst": dst, "interfaces": flows })))
}

async fn node(State(source): State<Arc<Source>>, Query(given): Parameters) -> Answered {
    let given = parameters(given, &["ip", "interface", "window"])?;
    let ip = address(&given, "ip")?;
    let answers = ask(&source, &given, About::Node(ip)).await?;
    let entry = |answer: Answer| {
        let estimates: Vec<Estimate> = answer.estimates.clone();
        described(
            &answer,
            json!({ "sent": estimates.first(), "received": estimates.get(1) }),
        )
    };
    let nodes: Vec<Value> = answers.into_iter().map(entry).collect();
    Ok(Json(json!({ "ip": ip, "interfaces": nodes })))
}

fn described(answer: &Answer, mut value: Value) -> Value {
    value["interface"] = json!(answer.interface);
    value["window"] = json!(answer.window);
    value
}

async fn ask(
    source: &Source,
    given: &BTreeMap<String, String>,
    about: About,
) -> Result<Vec<Answer>, Refusal> {
    let window = which(given)?;
    meant(&source.snapshot.load(), given)?;
    let unavailable = |why: &str| Refusal(StatusCode::SERVICE_UNAVAILABLE, why.into());
    let silent = || unavailable("the sketch worker does not answer");
    let asked = source
        .worker
        .ask(given.get("interface").cloned(), window, about);
    let answer = asked.map_err(|reason| match reason {
        QueryError::TooMany => {
            unavailable("too many questions wait for an answer; ask again later")
        }
        QueryError::WorkerGone => silent(),
    })?;
    let answer = tokio::time::timeout(PATIENCE, answer).await;
    let answer = answer.map_err(|_| silent())?.map_err(|_| silent())?;
    answer.map_err(|error| Refusal(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))
}

/// The interfaces that are meant; an unknown one is the sender's mistake.
fn meant<'a>(
    snapshot: &'a Snapshot,
    given: &BTreeMap<String, String>,
) -> Result<Vec<&'a InterfaceView>, Refusal> {
    let views = snapshot.interfaces.iter().map(AsRef::as_ref);
    let Some(name) = given.get("interface") else {
        return Ok(views.collect());
    };
    let views: Vec<&InterfaceView> = views.filter(|view| view.name == *name).collect();
    if views.is_empty() {
        let known: Vec<&str> = snapshot
            .interfaces
            .iter()
            .map(|view| view.name.as_str())
            .collect();
        return Err(wrong(
            "interface",
            name,
            &format!("one of {}", known.join(", ")),
        ));
    }
    Ok(views)
}

fn which(given: &BTreeMap<String, String>) -> Result<Option<Which>, Refusal> {
    match given.get("window").map(String::as_str) {
        None => Ok(None),
        Some("current") => Ok(Some(Which::Current)),
        Some("last") => Ok(Some(Which::Last)),
        Some(other) => Err(wrong("window", other, "current or last")),
    }
}

fn address(given: &BTreeMap<String, String>, name: &str) -> Result<IpAddr, Refusal> {
    let text = given.get(name).ok_or_else(|| {
        Refusal(
            StatusCode::BAD_REQUEST,
            format!("{name} is missing: give an IP address"),
        )
    })?;
    IpAddr::from_str(text).map_err(|_| wrong(name, text, "an IPv4 or IPv6 address"))
}

/// What was given, each parameter once and none that is not `allowed`.
fn parameters(
    given: Vec<(String, String)>,
    allowed: &[&str],
) -> Result<BTreeMap<String, String>, Refusal> {
    let refuse = |message| Err(Refusal(StatusCode::BAD_REQUEST, message));
    let mut parameters = BTreeMap::new();
    for (name, value) in given {
        if !allowed.contains(&name.as_str()) {
            let allowed = if allowed.is_empty() {
                "none".into()
            } else {
                allowed.join(", ")
            };
            return refuse(format!("unknown parameter {name}, allowed: {allowed}"));
        }
        if parameters.insert(name.clone(), value).is_some() {
            return refuse(format!("{name} is given twice"));
        }
    }
    Ok(parameters)
}

fn wrong(name: &str, value: &str, allowed: &str) -> Refusal {
    let message = format!("{name}={value} is not possible, allowed: {allowed}");
    Refusal(StatusCode::BAD_REQUEST, message)
}
