//! The handlers of requests.

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
    self, ErrorAnswer, FlowAnswer, InterfaceFlow, InterfaceNode, InterfaceState, Interfaces,
    NodeAnswer,
};
use super::history::{self, History};
use super::page::Page;
use super::rates::{self, Rates};
use super::{export, lists, scrape, services, sketch};
use crate::export::metrics::Exporter;
use crate::process::host;
use crate::ring::reader::{self, Reader};
use crate::ring::worker::QueryError;
use crate::traffic::endpoint::{Between, Endpoint, KnownNetworks};
use crate::traffic::names::name_of;
use crate::traffic::question::WindowName;
use crate::window::Window;
use crate::window::keys;
use crate::window::snapshot::{InterfaceView, Snapshot};
use crate::window::view::{CurrentView, View};

/// The text format Prometheus reads.
const PROMETHEUS_TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
/// A worker that has published nothing for this long is reported as stalled.
const WORKER_STALLED: Duration = Duration::from_secs(10);
/// How long a query may take.
const ANSWER_TIME: Duration = Duration::from_secs(5);

/// What the handlers share.
pub struct ApiState {
    /// Renders metrics.
    pub exporter: Exporter,
    /// Answers queries about windows.
    pub reader: Reader,
    /// How windows are shown.
    pub shown: Arc<CurrentView>,
    /// Names and patterns without an interface.
    pub waiting: Arc<ArcSwap<Vec<String>>>,
    /// Packets and bytes of the last quarter of an hour.
    pub history: History,
    /// Rates over the last seconds.
    pub rates: Rates,
}

pub(super) type Parameters = Query<Vec<(String, String)>>;

/// Why a request cannot be answered.
pub(super) struct ApiError(pub StatusCode, pub String);

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let error = self.1;
        (self.0, Json(ErrorAnswer { error })).into_response()
    }
}

pub(super) type Answered<T> = Result<Json<T>, ApiError>;

/// Returns the handlers of all paths.
pub fn router(state: Arc<ApiState>, page: Page) -> Router {
    Router::new()
        .route("/", get(async move || page.answer()))
        .route("/metrics", get(metrics))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route(answers::INTERFACES, get(interfaces))
        .route(answers::HEAVY_HITTERS, get(lists::heavy_hitters))
        .route(answers::EXPORT, get(export::export))
        .route(answers::FLOW, get(flow))
        .route(answers::NODE, get(node))
        .route(answers::SERVICE, get(services::service))
        .route(answers::HISTORY, get(history::history))
        .route(answers::SKETCH, get(sketch::sketch))
        .fallback(|| async { ApiError(StatusCode::NOT_FOUND, "no such path".into()) })
        .with_state(state)
}

async fn metrics(State(state): State<Arc<ApiState>>) -> impl IntoResponse {
    let text = scrape::scrape(&state).await;
    ([(CONTENT_TYPE, PROMETHEUS_TEXT)], text)
}

/// Liveness: the worker publishes snapshots.
async fn healthz(State(state): State<Arc<ApiState>>) -> Response {
    let age = state.reader.snapshot().published.elapsed();
    if age < WORKER_STALLED {
        return "ok\n".into_response();
    }
    let message = format!(
        "the sketch worker has not responded for {} s\n",
        age.as_secs()
    );
    (StatusCode::SERVICE_UNAVAILABLE, message).into_response()
}

/// Readiness: all selected interfaces are up and their captures open.
async fn readyz(State(state): State<Arc<ApiState>>) -> Response {
    let snapshot = state.reader.snapshot();
    let down = snapshot.interfaces.iter().filter(|view| {
        // Interfaces that are gone are either in `waiting`, or selected only by a pattern.
        let tally = &view.tally;
        view.ended.is_none() && !tally.up.load(Relaxed) && !tally.gone.load(Relaxed)
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
    let snapshot = state.reader.snapshot();
    selected(&snapshot, &given)?;
    let figures = in_time(state.reader.figures()).await?;
    let name = given.get("interface");
    let selected = figures
        .iter()
        .filter(|(view, _)| name.is_none_or(|name| *name == view.name));
    Ok(Json(Interfaces {
        host: host::name(),
        version: env!("CARGO_PKG_VERSION").into(),
        waiting: state.waiting.load().to_vec(),
        age_seconds: snapshot.published.elapsed().as_secs_f64(),
        interfaces: selected
            .map(|(view, figures)| InterfaceState::new(view, figures))
            .collect(),
    }))
}

async fn flow(
    State(state): State<Arc<ApiState>>,
    Query(given): Parameters,
) -> Answered<FlowAnswer> {
    let allowed = [
        "src",
        "dst",
        "both",
        "port",
        "service",
        "services",
        "by",
        "interface",
        "window",
    ];
    let given = parameters(given, &allowed)?;
    let by = lists::by(&given)?;
    let snapshot = state.reader.snapshot();
    let sources = snapshot.lookup.sources();
    let known = KnownNetworks {
        names: snapshot.names.as_deref(),
        asns: sources.databases().asns.as_ref(),
    };
    let (src, dst) = (
        endpoint(&given, "src", &known)?,
        endpoint(&given, "dst", &known)?,
    );
    let both = flag(&given, "both")?;
    let filter = services::filter(&given)?;
    // An answer about given services does not list services.
    let with_services = flag(&given, "services")? && filter.is_none();
    let ends = Between::new(real_end(&state, &src)?, real_end(&state, &dst)?);
    let ends = ends.ok_or_else(|| {
        let allowed = "an address of the same kind as src";
        wrong("dst", &dst.to_string(), allowed)
    })?;
    let names = ends.names(known.names);
    let info = shown(&snapshot, &state.shown.view()).ends(&ends);
    // Released before waiting, so that finished windows can be freed.
    drop(snapshot);
    let service = filter.as_ref().map(ToString::to_string);
    let about = move |window: &Window| {
        let mut flow = window.flow(&ends, both, filter.as_ref())?;
        if with_services {
            flow.services = Some(window.services(&ends, by)?);
        }
        crane_model::Result::Ok(flow)
    };
    let answers = ask(&state, &given, about).await?;
    let interfaces = answers.into_iter().map(|answered| {
        Ok(InterfaceFlow {
            interface: answered.interface,
            window: answered.window,
            time: answered.state.time,
            flow: answered.answer.map_err(fault)?,
        })
    });
    let interfaces = interfaces.collect::<Result<_, _>>()?;
    Ok(Json(FlowAnswer {
        src,
        dst,
        names,
        service,
        info,
        interfaces,
    }))
}

async fn node(
    State(state): State<Arc<ApiState>>,
    Query(given): Parameters,
) -> Answered<NodeAnswer> {
    let allowed = [
        "ip",
        "interface",
        "window",
        "top",
        "by",
        "rates",
        "services",
    ];
    let given = parameters(given, &allowed)?;
    let ip = address(&given, "ip")?;
    let node = real(&state, ip)?;
    let (top, by) = (lists::top(&given)?, lists::by(&given)?);
    if top.is_some() {
        lists::require_interface(&given, "top")?;
    }
    let with_services = flag(&given, "services")?;
    let view = state.shown.view();
    let about_view = Arc::clone(&view);
    let about = move |window: &Window| {
        let pairs = top.map(|top| window.pairs_with(node, top, by, about_view.anonymiser()));
        let mut known = window.node(node)?;
        if with_services {
            known.services = Some(window.node_services(node, by)?);
        }
        crane_model::Result::Ok((known, pairs))
    };
    let with_rates = flag(&given, "rates")?;
    let names = match with_rates {
        true => lists::names(&state, &given)?,
        false => Vec::new(),
    };
    let rates = state.rates.recent(&state.reader, names);
    let (rates, answers) = tokio::join!(rates, ask(&state, &given, about));
    let interfaces = answers?.into_iter().map(|answered| {
        let (known, mut pairs) = answered.answer.map_err(fault)?;
        let recent = rates.get(&answered.interface).map(AsRef::as_ref);
        if let Some(pairs) = pairs.as_mut().filter(|_| with_rates) {
            rates::rate_pairs(pairs, recent, &view);
        }
        Ok(InterfaceNode {
            interface: answered.interface,
            window: answered.window,
            state: answered.state,
            node: known,
            rates: with_rates.then(|| rates::of_node(node, recent)),
            pairs,
        })
    });
    let interfaces = interfaces.collect::<Result<_, _>>()?;
    let snapshot = state.reader.snapshot();
    let name = name_of(snapshot.names.as_deref(), node);
    let info = shown(&snapshot, &state.shown.view()).info(node);
    Ok(Json(NodeAnswer {
        ip,
        name,
        info,
        interfaces,
    }))
}

/// Queries a window of each interface that the request selects.
pub(super) async fn ask<T: Send + 'static>(
    state: &ApiState,
    given: &BTreeMap<String, String>,
    question: impl Fn(&Window) -> T + Send + Sync + 'static,
) -> Result<Vec<reader::Answered<T>>, ApiError> {
    let window = window_name(given)?;
    selected(&state.reader.snapshot(), given)?;
    let interface = given.get("interface").map(String::as_str);
    in_time(state.reader.ask(interface, window, question)).await
}

/// Waits for an answer for at most [`ANSWER_TIME`].
async fn in_time<T>(asked: impl Future<Output = Result<T, QueryError>>) -> Result<T, ApiError> {
    let unavailable = |why: &str| ApiError(StatusCode::SERVICE_UNAVAILABLE, why.into());
    let silent = || unavailable("the sketch worker does not answer");
    let answer = tokio::time::timeout(ANSWER_TIME, asked).await;
    answer
        .map_err(|_| silent())?
        .map_err(|reason| match reason {
            QueryError::TooMany => {
                unavailable("too many questions wait for an answer; ask again later")
            }
            QueryError::WorkerGone => silent(),
        })
}

/// An error of a sketch.
pub(super) fn fault(error: crane_model::Error) -> ApiError {
    ApiError(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
}

/// The interfaces that the request selects; an unknown name is an error.
pub(super) fn selected<'a>(
    snapshot: &'a Snapshot,
    given: &BTreeMap<String, String>,
) -> Result<Vec<&'a InterfaceView>, ApiError> {
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

pub(super) fn window_name(
    given: &BTreeMap<String, String>,
) -> Result<Option<WindowName>, ApiError> {
    match given.get("window").map(String::as_str) {
        None => Ok(None),
        Some("current") => Ok(Some(WindowName::Current)),
        Some("last") => Ok(Some(WindowName::Last)),
        Some(other) => Err(wrong("window", other, "current or last")),
    }
}

/// Returns a boolean parameter; `false` if it is missing.
pub(super) fn flag(given: &BTreeMap<String, String>, name: &str) -> Result<bool, ApiError> {
    match given.get(name).map(String::as_str) {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(other) => Err(wrong(name, other, "true or false")),
    }
}

/// Returns the source or the destination of a query.
fn endpoint(
    given: &BTreeMap<String, String>,
    name: &str,
    known: &KnownNetworks<'_>,
) -> Result<Endpoint, ApiError> {
    let text = text(given, name)?;
    let refuse = |why| {
        let message = format!("{name}={text}: {why}");
        ApiError(StatusCode::BAD_REQUEST, message)
    };
    let endpoint = text.parse::<Endpoint>().map_err(refuse)?;
    endpoint.check(known).map_err(refuse)?;
    Ok(endpoint)
}

fn text<'a>(given: &'a BTreeMap<String, String>, name: &str) -> Result<&'a str, ApiError> {
    let missing = || format!("{name} is missing: give an IP address");
    let text = given.get(name).map(String::as_str);
    text.ok_or_else(|| ApiError(StatusCode::BAD_REQUEST, missing()))
}

fn address(given: &BTreeMap<String, String>, name: &str) -> Result<IpAddr, ApiError> {
    let text = text(given, name)?;
    IpAddr::from_str(text).map_err(|_| wrong(name, text, "an IPv4 or IPv6 address"))
}

/// Returns the real address of a query, which contains the address as lists show it.
fn real(state: &ApiState, asked: IpAddr) -> Result<IpAddr, ApiError> {
    state.shown.view().real(asked).ok_or_else(|| {
        ApiError(
            StatusCode::FORBIDDEN,
            "this agent shows networks in the place of addresses (export.anonymise = \"prefix\") \
             and answers no question about an address"
                .into(),
        )
    })
}

/// Returns the real source or destination of a query, which contains it as lists show it.
fn real_end(state: &ApiState, asked: &Endpoint) -> Result<Endpoint, ApiError> {
    Ok(match asked {
        Endpoint::Address(address) => Endpoint::Address(real(state, *address)?),
        // Pseudonyms preserve prefixes.
        Endpoint::Prefix(network) => {
            let first = real(state, network.network())?;
            let network = IpNet::new(first, network.prefix_len());
            Endpoint::Prefix(network.map_or(IpNet::from(first), |network| network.trunc()))
        }
        // The difference between two answers would reveal the AS of an address.
        Endpoint::Asn(_) if state.shown.view().anonymiser().is_some() => {
            return Err(ApiError(
                StatusCode::FORBIDDEN,
                "this agent hides addresses (export.anonymise) and answers no question about an AS"
                    .into(),
            ));
        }
        Endpoint::Any | Endpoint::Asn(_) | Endpoint::Name(_) => asked.clone(),
    })
}

/// How the addresses of a query are shown.
fn shown<'a>(snapshot: &'a Snapshot, view: &'a View) -> keys::Shown<'a> {
    keys::Shown {
        names: snapshot.names.as_deref(),
        anonymiser: view.anonymiser(),
        sources: snapshot.lookup.sources(),
    }
}

/// Returns the parameters. A parameter that is given twice or is not `allowed` is an error.
pub(super) fn parameters(
    given: Vec<(String, String)>,
    allowed: &[&str],
) -> Result<BTreeMap<String, String>, ApiError> {
    let refuse = |message| Err(ApiError(StatusCode::BAD_REQUEST, message));
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

pub(super) fn wrong(name: &str, value: &str, allowed: &str) -> ApiError {
    let message = format!("{name}={value}: must be {allowed}");
    ApiError(StatusCode::BAD_REQUEST, message)
}
