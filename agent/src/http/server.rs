//! Accepting connections, on TCP and on a unix socket, within limits: a slow,
//! large or endless request costs its sender the connection and nobody else
//! anything.

use std::fs::Permissions;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;

use super::api::{self, Source};
use crate::config;
use crate::log::Seldom;

/// Connections at once.
const CONNECTIONS: usize = 64;
/// How long a request's head may take.
const HEAD_TIME: Duration = Duration::from_secs(5);
/// How large it may be.
const HEAD_BYTES: usize = 16 << 10;
/// How many headers it may have.
const HEADERS: usize = 64;
/// How long a connection may last: one request and its answer.
const CONNECTION_TIME: Duration = Duration::from_secs(15);
/// How often histograms are tidied up, whether or not anyone looks at them.
const UPKEEP: Duration = Duration::from_secs(5);

/// The open doors of the server.
pub struct Listeners {
    tcp: TcpListener,
    unix: Option<UnixListener>,
}

impl Listeners {
    /// Where the TCP door is.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.tcp.local_addr()
    }
}

/// Takes port and socket, so that a port in use is found before anything starts.
pub fn bind(config: &config::Export) -> anyhow::Result<Listeners> {
    let address = config.listen;
    let tcp = TcpListener::bind(address).map_err(|error| match error.kind() {
        std::io::ErrorKind::AddrInUse => {
            anyhow::anyhow!(
                "{address} is in use by another program; choose another port with --listen"
            )
        }
        _ => anyhow::anyhow!("cannot listen on {address}: {error}"),
    })?;
    tcp.set_nonblocking(true)?;
    let unix = config.socket.as_deref().map(bind_unix).transpose()?;
    Ok(Listeners { tcp, unix })
}

fn bind_unix(path: &Path) -> anyhow::Result<UnixListener> {
    let shown = path.display();
    let left_over = std::fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket());
    if left_over {
        anyhow::ensure!(
            UnixStream::connect(path).is_err(),
            "{shown} is in use by another program; choose another export.socket"
        );
        std::fs::remove_file(path).with_context(|| format!("cannot replace {shown}"))?;
    }
    let listener = UnixListener::bind(path).with_context(|| format!("cannot listen on {shown}"))?;
    // For the agent's user and group, whatever the umask.
    std::fs::set_permissions(path, Permissions::from_mode(0o660))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Serves requests on a thread of its own until the program ends.
pub fn serve(listeners: Listeners, source: Source) -> anyhow::Result<()> {
    let source = Arc::new(source);
    let service = TowerToHyperService::new(api::router(Arc::clone(&source)));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("the HTTP server cannot start")?;
    let guests = Arc::new(Semaphore::new(CONNECTIONS));
    let inside = runtime.enter();
    let tcp = tokio::net::TcpListener::from_std(listeners.tcp)?;
    let unix = listeners
        .unix
        .map(tokio::net::UnixListener::from_std)
        .transpose()?;
    drop(inside);
    thread::Builder::new().name("http".into()).spawn(move || {
        runtime.block_on(async move {
            tokio::spawn(async move {
                loop {
                    tokio::time::sleep(UPKEEP).await;
                    source.exporter.tidy_up();
                }
            });
            let mut complaints = Seldom::default();
            loop {
                let Ok(seat) = Arc::clone(&guests).acquire_owned().await else {
                    return;
                };
                let accepted = tokio::select! {
                    guest = tcp.accept() => guest.map(|(stream, _)| Guest::Tcp(stream)),
                    guest = accept_unix(unix.as_ref()) => guest.map(Guest::Unix),
                };
                let service = service.clone();
                match accepted {
                    Ok(guest) => drop(tokio::spawn(async move {
                        match guest {
                            Guest::Tcp(stream) => attend(stream, service).await,
                            Guest::Unix(stream) => attend(stream, service).await,
                        }
                        drop(seat);
                    })),
                    Err(error) => {
                        if complaints.allows() {
                            tracing::warn!(%error, "a connection could not be accepted");
                        }
                        tokio::time::sleep(Duration::from_secs(1)).await;
                    }
                }
            }
        });
    })?;
    Ok(())
}

enum Guest {
    Tcp(tokio::net::TcpStream),
    Unix(tokio::net::UnixStream),
}

/// The next guest at the unix socket; nobody ever comes where there is none.
async fn accept_unix(
    listener: Option<&tokio::net::UnixListener>,
) -> std::io::Result<tokio::net::UnixStream> {
    match listener {
        Some(listener) => listener.accept().await.map(|(stream, _)| stream),
        None => std::future::pending().await,
    }
}

/// Answers the requests of one connection.
async fn attend<S>(stream: S, service: TowerToHyperService<axum::Router>)
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        // Who keeps a connection keeps a seat.
        .keep_alive(false)
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD_BYTES)
        .max_headers(HEADERS)
        .serve_connection(TokioIo::new(stream), service);
    if let Ok(Err(error)) = tokio::time::timeout(CONNECTION_TIME, connection).await {
        tracing::debug!(%error, "a connection broke off");
    }
}
