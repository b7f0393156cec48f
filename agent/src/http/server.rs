//! Accepting connections, on TCP addresses and on a unix socket, within limits; those
//! on TCP may be protected.
//!
//! A slow, large, deaf or idle request costs its sender the connection and others
//! next to nothing: TCP and the unix socket have permits of their own, and where
//! all are held the idlest connection makes room for a new one. What does cost
//! others something is answers: those that are being made hold their permits, and
//! a peer that has too many of them is turned away; and one thread makes them all,
//! each after the one before.

use std::convert::Infallible;
use std::fs::Permissions;
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Poll, ready};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use axum::response::Response;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::timeout;

use super::api::{self, ApiState};
use super::history;
use super::page::Page;
use super::permits::{GRACE, Permit, Permits};
use super::protection::{Protection, Rules};
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
    tcp: Vec<TcpListener>,
    unix: Option<UnixListener>,
    /// What protects those on TCP; the socket has the permissions of a file.
    web_config: Option<PathBuf>,
}

impl Listeners {
    /// Where it is served, as a browser asks for it.
    fn addresses(&self, protection: Option<&Protection>) -> anyhow::Result<Vec<String>> {
        let scheme = match protection.is_some_and(|one| one.rules().tls.is_some()) {
            true => "https",
            false => "http",
        };
        let addresses = self.tcp.iter().map(|tcp| {
            let address = tcp.local_addr()?;
            Ok(format!("{scheme}://{address}"))
        });
        addresses.collect()
    }
}

/// Takes ports and socket, so that a port in use is found before anything starts.
pub fn bind(config: &config::Export) -> anyhow::Result<Listeners> {
    let several = config.listen.len() > 1;
    let tcp = config.listen.iter();
    let tcp = tcp.map(|address| bind_tcp(*address, several));
    let tcp = tcp.collect::<anyhow::Result<_>>()?;
    let unix = config.socket.as_deref().map(bind_unix).transpose()?;
    Ok(Listeners {
        tcp,
        unix,
        web_config: config.web_config.clone(),
    })
}

fn bind_tcp(address: SocketAddr, several: bool) -> anyhow::Result<TcpListener> {
    let hint = match several {
        true => " ([::] takes IPv4, too, and 0.0.0.0 every address)",
        false => "",
    };
    let tcp = TcpListener::bind(address).map_err(|error| match error.kind() {
        std::io::ErrorKind::AddrInUse => {
            anyhow::anyhow!(
                "{address} is in use by another program; choose another port with --listen{hint}"
            )
        }
        _ => anyhow::anyhow!("cannot listen on {address}: {error}"),
    })?;
    rustix::net::listen(&tcp, BACKLOG)?;
    tcp.set_nonblocking(true)?;
    Ok(tcp)
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

/// Serves requests on a thread of its own until the program ends; says where.
pub fn serve(listeners: Listeners, state: ApiState) -> anyhow::Result<Vec<String>> {
    let protection = listeners.web_config.as_deref().map(Protection::open);
    let protection = protection.transpose()?.map(Arc::new);
    let addresses = listeners.addresses(protection.as_deref())?;
    let state = Arc::new(state);
    let router = TowerToHyperService::new(api::router(Arc::clone(&state), Page::new()?));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("the HTTP server cannot start")?;
    let inside = runtime.enter();
    let tcp: Vec<_> = listeners
        .tcp
        .into_iter()
        .map(tokio::net::TcpListener::from_std)
        .collect::<Result<_, _>>()?;
    let unix = listeners
        .unix
        .map(tokio::net::UnixListener::from_std)
        .transpose()?;
    drop(inside);
    thread::Builder::new().name("http".into()).spawn(move || {
        runtime.block_on(async move {
            let permits = Permits::new(TCP, PEER);
            let mut doors = tokio::task::JoinSet::new();
            doors.spawn(history::keep(state));
            for door in tcp {
                let (permits, protection) = (Arc::clone(&permits), protection.clone());
                doors.spawn(accept(door, permits, protection, router.clone()));
            }
            if let Some(door) = unix {
                doors.spawn(accept(door, Permits::new(UNIX, UNIX), None, router));
            }
            // None of them ever ends.
            while doors.join_next().await.is_some() {}
        });
    })?;
    Ok(addresses)
}

/// Where connections come in.
trait Door {
    type Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static;

    /// The next one, and from which address, if there are addresses.
    fn next(&self) -> impl Future<Output = io::Result<(Self::Stream, Option<IpAddr>)>> + Send;
}

impl Door for tokio::net::TcpListener {
    type Stream = tokio::net::TcpStream;

    async fn next(&self) -> io::Result<(Self::Stream, Option<IpAddr>)> {
        let (stream, address) = self.accept().await?;
        Ok((stream, Some(address.ip())))
    }
}

impl Door for tokio::net::UnixListener {
    type Stream = tokio::net::UnixStream;

    async fn next(&self) -> io::Result<(Self::Stream, Option<IpAddr>)> {
        self.accept().await.map(|(stream, _)| (stream, None))
    }
}

/// What protects a connection.
struct Guard {
    protection: Arc<Protection>,
    rules: Arc<Rules>,
    peer: IpAddr,
}

/// Accepts what comes next, again and again.
async fn accept(
    door: impl Door,
    permits: Arc<Permits>,
    protection: Option<Arc<Protection>>,
    router: Router,
) {
    let mut complaints = RateLimit::default();
    loop {
        match door.next().await {
            Ok((stream, peer)) => {
                let guard = protection
                    .as_ref()
                    .zip(peer)
                    .map(|(protection, peer)| Guard {
                        protection: Arc::clone(protection),
                        rules: protection.rules(),
                        peer,
                    });
                match permits.acquire(peer).await {
                    Some(permit) => {
                        tokio::spawn(serve_connection(stream, permit, router.clone(), guard));
                        // Whoever lost its permit closes its descriptor now.
                        tokio::task::yield_now().await;
                    }
                    // Who expects TLS would not understand.
                    None if guard.is_some_and(|guard| guard.rules.tls.is_some()) => {}
                    None => turn_away(stream).await,
                }
            }
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

/// Answers the request of one connection, which may have to be unwrapped first.
async fn serve_connection<S>(stream: S, permit: Permit, router: Router, guard: Option<Guard>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let permit = Arc::new(permit);
    let tls = guard.as_ref().and_then(|guard| guard.rules.tls.clone());
    let served = async {
        let Some(tls) = tls else {
            return converse(stream, &permit, router, guard).await;
        };
        let stream = timeout(HEAD_TIME, tls.accept(stream)).await??;
        converse(stream, &permit, router, guard).await
    };
    tokio::select! {
        ended = timeout(CONNECTION_TIME, served) => if let Ok(Err(error)) = ended {
            tracing::debug!("a connection broke off: {error:#}");
        },
        () = permit.revoked() => tracing::debug!("an idle connection made room for another"),
    }
}

async fn converse<S>(
    stream: S,
    permit: &Arc<Permit>,
    router: Router,
    guard: Option<Guard>,
) -> anyhow::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let progress = Arc::clone(permit);
    let guard = guard.map(Arc::new);
    let service = service_fn(move |request: Request<Incoming>| {
        progress.answering();
        let (router, progress, guard) = (router.clone(), Arc::clone(&progress), guard.clone());
        async move {
            let answer = match guard {
                Some(guard) => guard.answer(request, &router).await,
                None => router.call(request).await,
            };
            progress.writing();
            answer
        }
    });
    let stream = PermittedStream::new(TokioIo::new(stream), Arc::clone(permit));
    http1::Builder::new()
        .timer(TokioTimer::new())
        // Whoever keeps a connection keeps a permit.
        .keep_alive(false)
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD_BYTES)
        .max_headers(HEADERS)
        .serve_connection(stream, service)
        .await?;
    Ok(())
}

impl Guard {
    /// The answer to whoever may have one.
    async fn answer(
        &self,
        request: Request<Incoming>,
        router: &Router,
    ) -> Result<Response, Infallible> {
        let (rules, peer) = (&self.rules, self.peer);
        let refused = self.protection.refuse(rules, peer, request.headers());
        let mut answer = match refused.await {
            Some(refusal) => refusal,
            None => router.call(request).await?,
        };
        rules.dress(answer.headers_mut());
        Ok(answer)
    }
}
