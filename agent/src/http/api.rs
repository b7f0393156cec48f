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
use ipnet::IpNet;

use super::answers::{
    self, ErrorAnswer, FlowAnswer, InterfaceFlow, InterfaceNode, Interfaces, NodeAnswer,
};
use super::history::{self, History};
use super::page::Page;
use super::shown::Shown;
use super::{hosts, inside, lists};
use crate::endpoint::{Between, Endpoint};
use crate::export::metrics::Exporter;
use crate::export::snapshot::{InterfaceView, Snapshot};
use crate::names::{Names, name_of};
use crate::sketch::answer::{About, Answer, WindowName};
use crate::sketch::worker::{QueryError, WorkerHandle};

/// The text format Prometheus reads.
const PROMETHEUS_TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
/// A worker that has published nothing for this long stands still.
const STILL: Duration = Duration::from_secs(10);
/// How long a query may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// What requests are answered from.
pub struct ApiState {
    /// Renders metrics.
    pub exporter: Exporter,
    /// What may be seen of what the worker knew last.
    pub snapshot: Arc<Shown>,
    /// Where queries go.
    pub worker: WorkerHandle,
    /// Interfaces that are waited for.
    pub waiting: Arc<ArcSwap<Vec<String>>>,
    /// What interfaces had lately.
    pub history: History,
}

pub(super) type Parameters = Query<Vec<(String, String)>>;

/// Why a request cannot be answered.
pub(super) struct Refusal(pub StatusCode, pub String);

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let error = self.1;
        (self.0, Json(ErrorAnswer { error })).into_response()
    }
}

pub(super) type Answered<T> = Result<Json<T>, Refusal>;

/// All paths.
pub fn router(state: Arc<ApiState>, page: Page) -> Router {
    Router::new()
        .route("/", get(async move || page.answer()))
        .route("/metrics", get(metrics))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route(answers::INTERFACES, get(interfaces))
        .route(answers::HEAVY_HITTERS, get(lists::heavy_hitters))
        .route(answers::FLOW, get(flow))
        .route(answers::NODE, get(node))
        .route(answers::HISTORY, get(history::history))
        .route(answers::SKETCH, get(inside::sketch))
        .fallback(|| async { Refusal(StatusCode::NOT_FOUND, "no such path".into()) })
        .with_state(state)
}

async fn metrics(State(state): State<Arc<ApiState>>) -> impl IntoResponse {
    let text = state.exporter.render(&state.snapshot.load());
    ([(CONTENT_TYPE, PROMETHEUS_TEXT)], text)
}

/// Whether the agent works: its worker goes round.
async fn healthz(State(state): State<Arc<ApiState>>) -> Response {
    let age = state.snapshot.load().published.elapsed();
    if age < STILL {
        return "ok\n".into_response();
    }
    let message = format!("the sketch worker stands still for {} s\n", age.as_secs());
    (StatusCode::SERVICE_UNAVAILABLE, message).into_response()
}

/// Whether the agent sees what it is to see: its interfaces are up and their
/// captures open.
async fn readyz(State(state): State<Arc<ApiState>>) -> Response {
    let snapshot = state.snapshot.load();
    let down = snapshot.interfaces.iter().filter(|view| {
        // Those that are gone are waited for, or nobody asked for them by name.
        let tally = &view.tally;
        !view.ended && !tally.up.load(Relaxed) && !tally.gone.load(Relaxed)
    });
    let down: Vec<&str> = down.map(|view| view.name.as_str()).collect();
    let waiting = state.waiting.load();
    let mut faults = Vec::new();
    if !down.is_empty() {
        faults.push(format!("not captured: {}", down.join(", ")));
    }
    if !waiting.is_empty() {
        faults.push(format!("waiting for: {}", waiting.join(", ")));
    }
    if faults.is_empty() && snapshot.interfaces.is_empty() {
        faults.push("no capture is open yet".into());
    }
    if faults.is_empty() {
        return "ok\n".into_response();
    }
    let message = faults.join("; ") + "\n";
    (StatusCode::SERVICE_UNAVAILABLE, message).into_response()
}

async fn interfaces(
    State(state): State<Arc<ApiState>>,
    Query(given): Parameters,
) -> Answered<Interfaces> {
    let given = parameters(given, &["interface"])?;
    let snapshot = state.snapshot.load();
    let views = meant(&snapshot, &given)?;
    Ok(Json(Interfaces {
        host: hosts::node_name(),
        version: env!("CARGO_PKG_VERSION").into(),
        waiting: state.waiting.load().to_vec(),
        age_seconds: snapshot.published.elapsed().as_secs_f64(),
        interfaces: views.into_iter().map(Into::into).collect(),
    }))
}

async fn flow(
    State(state): State<Arc<ApiState>>,
    Query(given): Parameters,
) -> Answered<FlowAnswer> {
    let given = parameters(given, &["src", "dst", "both", "interface", "window"])?;
    let known = state.snapshot.names();
    let known = known.as_deref();
    let (src, dst) = (
        endpoint(&given, "src", known)?,
        endpoint(&given, "dst", known)?,
    );
    let both = match given.get("both").map(String::as_str) {
        None | Some("false") => false,
        Some("true") => true,
        Some(other) => return Err(wrong("both", other, "true or false")),
    };
    let ends = Between::new(real_end(&state, &src)?, real_end(&state, &dst)?);
    let ends = ends.ok_or_else(|| {
        let allowed = "an address of the same kind as src";
        wrong("dst", &dst.to_string(), allowed)
    })?;
    let names = ends.names(known);
    let about = About::Flow { ends, both };
    let answers = ask(&state, &given, about).await?;
    let entry = |answer: Answer| {
        Some(InterfaceFlow {
            interface: answer.interface,
            window: answer.window,
            time: (&*answer.view).into(),
            estimate: answer.flows.first()?.into(),
            back: answer.flows.get(1).map(Into::into),
        })
    };
    let interfaces = answers.into_iter().filter_map(entry).collect();
    Ok(Json(FlowAnswer {
        src,
        dst,
        names,
        interfaces,
    }))
}

async fn node(
    State(state): State<Arc<ApiState>>,
    Query(given): Parameters,
) -> Answered<NodeAnswer> {
    let given = parameters(given, &["ip", "interface", "window", "top", "by"])?;
    let ip = address(&given, "ip")?;
    let node = real(&state, ip)?;
    let (top, _) = (lists::top(&given)?, lists::by_bytes(&given)?);
    let pairs = async {
        match top {
            Some(top) => {
                lists::of_one(&given, "top")?;
                lists::pairs_with(&state, &given, node, top).await.map(Some)
            }
            None => Ok(None),
        }
    };
    // Together: the current window answers four times a second.
    let (answers, mut pairs) = tokio::try_join!(ask(&state, &given, About::Node(node)), pairs)?;
    let entry = |answer: Answer| {
        let (sent, received) = (answer.flows.first()?.into(), answer.flows.get(1)?.into());
        let [fan_out, fan_in] = answer.peers?.map(Into::into);
        let pairs = pairs.as_mut();
        let pairs = pairs.map(|pairs| pairs.remove(&answer.interface).unwrap_or_default());
        Some(InterfaceNode {
            pairs,
            interface: answer.interface,
            window: answer.window,
            time: (&*answer.view).into(),
            sent,
            received,
            fan_out,
            fan_in,
        })
    };
    let interfaces = answers.into_iter().filter_map(entry).collect();
    let name = name_of(state.snapshot.names().as_deref(), node);
    Ok(Json(NodeAnswer {
        ip,
        name,
        interfaces,
    }))
}

pub(super) async fn ask(
    state: &ApiState,
    given: &BTreeMap<String, String>,
    about: About,
) -> Result<Vec<Answer>, Refusal> {
    let window = which(given)?;
    meant(&state.snapshot.load(), given)?;
    let unavailable = |why: &str| Refusal(StatusCode::SERVICE_UNAVAILABLE, why.into());
    let silent = || unavailable("the sketch worker does not answer");
    let asked = state
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
pub(super) fn meant<'a>(
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

pub(super) fn which(given: &BTreeMap<String, String>) -> Result<Option<WindowName>, Refusal> {
    match given.get("window").map(String::as_str) {
        None => Ok(None),
        Some("current") => Ok(Some(WindowName::Current)),
        Some("last") => Ok(Some(WindowName::Last)),
        Some(other) => Err(wrong("window", other, "current or last")),
    }
}

/// An end that packets go from or to.
fn endpoint(
    given: &BTreeMap<String, String>,
    name: &str,
    names: Option<&Names>,
) -> Result<Endpoint, Refusal> {
    let text = text(given, name)?;
    let endpoint = text.parse::<Endpoint>().map_err(|why| {
        let message = format!("{name}={text} is not possible: {why}");
        Refusal(StatusCode::BAD_REQUEST, message)
    })?;
    let checked = endpoint.check(names);
    checked.map_err(|allowed| wrong(name, text, &allowed))?;
    Ok(endpoint)
}

fn text<'a>(given: &'a BTreeMap<String, String>, name: &str) -> Result<&'a str, Refusal> {
    let missing = || format!("{name} is missing: give an IP address");
    let text = given.get(name).map(String::as_str);
    text.ok_or_else(|| Refusal(StatusCode::BAD_REQUEST, missing()))
}

fn address(given: &BTreeMap<String, String>, name: &str) -> Result<IpAddr, Refusal> {
    let text = text(given, name)?;
    IpAddr::from_str(text).map_err(|_| wrong(name, text, "an IPv4 or IPv6 address"))
}

/// The address that a question is about, which names it as lists do.
fn real(state: &ApiState, asked: IpAddr) -> Result<IpAddr, Refusal> {
    state.snapshot.real(asked).ok_or_else(|| {
        Refusal(
            StatusCode::FORBIDDEN,
            "this agent shows networks in the place of addresses (export.anonymise = \"prefix\") \
             and answers no question about an address"
                .into(),
        )
    })
}

/// The end that a question is about.
fn real_end(state: &ApiState, asked: &Endpoint) -> Result<Endpoint, Refusal> {
    Ok(match asked {
        Endpoint::Address(address) => Endpoint::Address(real(state, *address)?),
        // Pseudonyms keep prefixes.
        Endpoint::Prefix(network) => {
            let first = real(state, network.network())?;
            let network = IpNet::new(first, network.prefix_len());
            Endpoint::Prefix(network.map_or(IpNet::from(first), |network| network.trunc()))
        }
        Endpoint::Any | Endpoint::Name(_) => asked.clone(),
    })
}

/// What was given, each parameter once and none that is not `allowed`.
pub(super) fn parameters(
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

pub(super) fn wrong(name: &str, value: &str, allowed: &str) -> Refusal {
    let message = format!("{name}={value} is not possible, allowed: {allowed}");
    Refusal(StatusCode::BAD_REQUEST, message)
}
