//! The HTTP server: metrics for Prometheus.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread;

use anyhow::Context;
use arc_swap::ArcSwap;
use axum::Router;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;

use crate::metrics::Exporter;
use crate::snapshot::Snapshot;

/// The text format Prometheus reads.
const PROMETHEUS_TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What requests are answered from.
struct Source {
    exporter: Exporter,
    snapshot: Arc<ArcSwap<Snapshot>>,
}

/// Takes the port, so that a port in use is found before anything starts.
pub fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind(address).map_err(|error| match error.kind() {
        std::io::ErrorKind::AddrInUse => {
            anyhow::anyhow!(
                "{address} is in use by another program; choose another port with --listen"
            )
        }
        _ => anyhow::anyhow!("cannot listen on {address}: {error}"),
    })?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Serves requests on a thread of its own until the program ends.
pub fn serve(
    listener: TcpListener,
    exporter: Exporter,
    snapshot: Arc<ArcSwap<Snapshot>>,
) -> anyhow::Result<()> {
    let source = Arc::new(Source { exporter, snapshot });
    let app = Router::new()
        .route(
            "/",
            get(|| async { "crane-agent: metrics are at /metrics\n" }),
        )
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/metrics", get(metrics))
        .with_state(source);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("the HTTP server cannot start")?;
    let serve = async move {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        axum::serve(listener, app).await
    };
    thread::Builder::new().name("http".into()).spawn(move || {
        if let Err(error) = runtime.block_on(serve) {
            tracing::error!(%error, "the HTTP server ended");
        }
    })?;
    Ok(())
}

async fn metrics(State(source): State<Arc<Source>>) -> impl IntoResponse {
    let text = source.exporter.render(&source.snapshot.load());
    ([(CONTENT_TYPE, PROMETHEUS_TEXT)], text)
}
