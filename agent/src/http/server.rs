//! Accepting connections, on TCP and on a unix socket, within limits.
//!
//! A slow, large, deaf or idle request costs its sender the connection and others
//! next to nothing: TCP and the unix socket have permits of their own, and where
//! all are held the idlest connection makes room for a new one. What does cost
//! others something is answers: those that are being made hold their permits, and
//! a peer that has too many of them is turned away; and one thread makes them all,
//! each after the one before.

use std::fs::Permissions;
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Poll, ready};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::timeout;

use super::api::{self, ApiState};
use super::permits::{GRACE, Permit, Permits};
use super::stream::PermittedStream;
use crate::config;
use crate::log::RateLimit;

/// Connections at once on TCP. With those of the unix socket they are far fewer
/// than the 1024 descriptors a process usually has.
const TCP: usize = 320;
/// Of these for one peer. A thousand questions a second about the current window
/// are 250 at a time, and all may come through one proxy.
const PEER: usize = 288;
/// Connections at once on the unix socket.
const UNIX: usize = 288;
/// Connections that may wait to be accepted. Whoever comes when there is no room
/// tries again only after a second, and the usual 128 are soon full.
const BACKLOG: i32 = 1024;
/// How long a request's head may take.
const HEAD_TIME: Duration = Duration::from_secs(5);
/// How large it may be.
const HEAD_BYTES: usize = 16 << 10;
/// How many headers it may have.
const HEADERS: usize = 64;
/// How long a connection may last: one request and its answer.
const CONNECTION_TIME: Duration = Duration::from_secs(15);
/// How long to wait after a connection could not be accepted.
const RECOVERY: Duration = Duration::from_millis(100);
/// What a peer is told that has too many requests in progress.
const TURNED_AWAY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\n\
    Content-Type: application/json\r\n\r\n\
    {\"error\":\"too many requests from this address are in progress\"}";

type Router = TowerToHyperService<axum::Router>;

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
    rustix::net::listen(&tcp, BACKLOG)?;
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
pub fn serve(listeners: Listeners, state: ApiState) -> anyhow::Result<()> {
    let router = TowerToHyperService::new(api::router(Arc::new(state)));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("the HTTP server cannot start")?;
    let inside = runtime.enter();
    let tcp = tokio::net::TcpListener::from_std(listeners.tcp)?;
    let unix = listeners
        .unix
        .map(tokio::net::UnixListener::from_std)
        .transpose()?;
    drop(inside);
    thread::Builder::new().name("http".into()).spawn(move || {
        runtime.block_on(async move {
            let next_tcp = async || {
                let (stream, address) = tcp.accept().await?;
                Ok((stream, Some(address.ip())))
            };
            let next_unix = async || match &unix {
                Some(unix) => unix.accept().await.map(|(stream, _)| (stream, None)),
                None => std::future::pending().await,
            };
            tokio::join!(
                accept(next_tcp, Permits::new(TCP, PEER), &router),
                accept(next_unix, Permits::new(UNIX, UNIX), &router),
            )
        });
    })?;
    Ok(())
}

/// Accepts what comes next, again and again.
async fn accept<S>(
    next: impl AsyncFn() -> io::Result<(S, Option<IpAddr>)>,
    permits: Arc<Permits>,
    router: &Router,
) where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let mut complaints = RateLimit::default();
    loop {
        match next().await {
            Ok((stream, peer)) => match permits.acquire(peer).await {
                Some(permit) => {
                    tokio::spawn(serve_connection(stream, permit, router.clone()));
                    // Whoever lost its permit closes its descriptor now.
                    tokio::task::yield_now().await;
                }
                None => turn_away(stream).await,
            },
            Err(error) => {
                if complaints.allows() {
                    tracing::warn!(%error, "a connection could not be accepted");
                }
                // It may be for want of descriptors.
                permits.shed();
                tokio::time::sleep(RECOVERY).await;
            }
        }
    }
}

/// Says why and hangs up.
async fn turn_away(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    let said = poll_fn(|context| {
        let _ = ready!(Pin::new(&mut stream).poll_write(context, TURNED_AWAY));
        // Where a request is left unread the answer may be lost with it.
        let mut request = [0; 1024];
        let mut request = ReadBuf::new(&mut request);
        let _ = Pin::new(&mut stream).poll_read(context, &mut request);
        Poll::Ready(())
    });
    // Whoever does not listen is not waited for.
    let _ = timeout(GRACE, said).await;
}

/// Answers the request of one connection.
async fn serve_connection<S>(stream: S, permit: Permit, router: Router)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let permit = Arc::new(permit);
    let progress = Arc::clone(&permit);
    let service = service_fn(move |request| {
        progress.answering();
        let (answer, progress) = (router.call(request), Arc::clone(&progress));
        async move {
            let answer = answer.await;
            progress.writing();
            answer
        }
    });
    let stream = PermittedStream::new(TokioIo::new(stream), Arc::clone(&permit));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        // Whoever keeps a connection keeps a permit.
        .keep_alive(false)
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD_BYTES)
        .max_headers(HEADERS)
        .serve_connection(stream, service);
    tokio::select! {
        ended = timeout(CONNECTION_TIME, connection) => if let Ok(Err(error)) = ended {
            tracing::debug!(%error, "a connection broke off");
        },
        () = permit.revoked() => tracing::debug!("an idle connection made room for another"),
    }
}
