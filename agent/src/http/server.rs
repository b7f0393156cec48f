//! Accepts connections on TCP addresses and a unix socket, within limits. TCP may be protected.
//!
//! A slow, large or idle request, or a client that does not read, must not delay others. So TCP and
//! the unix socket have separate [`Permits`], and if all are held, the connection that has been
//! idle for longest is dropped. Requests that are being answered keep their permits, and a peer
//! with too many of them is refused. One thread makes all answers, one after the other. A panic
//! only ends the connection in which it happened.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Poll, ready};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use arc_swap::{ArcSwap, ArcSwapOption};
use axum::response::Response;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::io::InspectWriter;

use super::api::{self, ApiState};
use super::history;
use super::hosts::{self, Hosts};
use super::listeners::{self, ListenAddress, Listener, Listeners};
use super::page::Page;
use super::permits::{GRACE, Permit, Permits};
use super::protection::{self, Protection, WebPolicy};
use crate::config;
use crate::process::log::RateLimit;
use crate::process::panics;

/// Most connections at once on TCP. Together with those of the unix socket they are far fewer
/// than the 1024 descriptors a process usually has.
const TCP: usize = 320;
/// Most of these for one peer. A thousand queries a second about the current window take 250
/// connections at a time, and all may come through one proxy.
const PEER: usize = 288;
/// Most connections at once on the unix socket.
const UNIX: usize = 288;
/// How long a request's head may take.
const HEAD_TIME: Duration = Duration::from_secs(5);
/// Largest size of a request's head.
const HEAD_BYTES: usize = 16 << 10;
/// Most headers of a request.
const HEADERS: usize = 64;
/// How long a connection may last: one request and its answer.
const CONNECTION_TIME: Duration = Duration::from_secs(15);
/// How long to wait after a connection could not be accepted.
const RECOVERY: Duration = Duration::from_millis(100);
/// The answer to a peer that has too many requests in progress.
const REFUSAL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\n\
    Content-Type: application/json\r\n\r\n\
    {\"error\":\"too many requests from this address are in progress\"}";

type Router = TowerToHyperService<axum::Router>;

/// A running server, whose listeners and protection can be replaced.
pub struct Server {
    listeners: Listeners,
    shared: Arc<Shared>,
}

/// State shared with the server thread.
struct Shared {
    listeners: ArcSwap<Listeners>,
    /// Notified when `listeners` has changed.
    changed: Notify,
    /// Protects the TCP listeners; the unix socket has file permissions.
    protection: ArcSwapOption<Protection>,
    /// Host names that are accepted over loopback.
    hosts: ArcSwap<Hosts>,
    tcp: Arc<Permits>,
    unix: Arc<Permits>,
    router: Router,
}

/// A configuration of the server that is ready to be put into force.
pub struct PreparedServer {
    listeners: Listeners,
    protection: Option<protection::PreparedProtection>,
    hosts: Hosts,
}

/// Serves requests on a thread of its own until the program ends.
pub fn serve(
    listeners: Listeners,
    config: &config::Export,
    state: ApiState,
) -> anyhow::Result<Server> {
    let protection = config.web_config.as_deref();
    let protection = protection.map(Protection::open).transpose()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("the HTTP server cannot start")?;
    let state = Arc::new(state);
    runtime.spawn(history::keep(Arc::clone(&state)));
    let shared = Arc::new(Shared {
        listeners: ArcSwap::from_pointee(listeners.clone()),
        changed: Notify::new(),
        protection: ArcSwapOption::from(protection.map(Arc::new)),
        hosts: ArcSwap::from_pointee(Hosts::new(&config.hosts)),
        tcp: Permits::new(TCP, PEER),
        unix: Permits::new(UNIX, UNIX),
        router: TowerToHyperService::new(api::router(Arc::clone(&state), Page::new()?)),
    });
    let server = Server {
        listeners,
        shared: Arc::clone(&shared),
    };
    thread::Builder::new().name("http".into()).spawn(move || {
        // After a panic the runtime continues with the requests that are being answered.
        while panics::catch(|| runtime.block_on(shared.listen())).is_none() {
            thread::sleep(RECOVERY);
        }
    })?;
    Ok(server)
}

impl Server {
    /// URLs of all TCP listeners.
    pub fn addresses(&self) -> Vec<String> {
        let protection = self.shared.protection.load();
        let tls = protection.as_ref().map(|one| one.policy().tls.is_some());
        let scheme = match tls {
            Some(true) => "https",
            _ => "http",
        };
        let address = |(_, listener): &(ListenAddress, Listener)| match listener {
            Listener::Tcp(tcp) => Some(format!("{scheme}://{}", tcp.local_addr().ok()?)),
            Listener::Unix(_) => None,
        };
        self.listeners.iter().filter_map(address).collect()
    }

    /// Prepares another configuration. Its ports are bound; nothing else changes.
    pub fn prepare(&self, config: &config::Export) -> anyhow::Result<PreparedServer> {
        let before = self.shared.protection.load_full();
        let protection = config.web_config.as_deref();
        let protection = protection.map(|path| protection::PreparedProtection::read(path, before));
        Ok(PreparedServer {
            protection: protection.transpose()?,
            hosts: Hosts::new(&config.hosts),
            listeners: listeners::bind_beside(&self.listeners, config)?,
        })
    }

    /// Puts a prepared configuration into force.
    pub fn adopt(&mut self, prepared: PreparedServer) {
        // A new address is protected before it is opened, and an old one is
        // closed before its protection is removed.
        let listeners = Arc::new(prepared.listeners.clone());
        self.shared.hosts.store(Arc::new(prepared.hosts));
        match prepared.protection {
            Some(protection) => {
                self.shared.protection.store(Some(protection.adopt()));
                self.shared.listeners.store(listeners);
            }
            None => {
                self.shared.listeners.store(listeners);
                self.shared.protection.store(None);
            }
        }
        let before = std::mem::replace(&mut self.listeners, prepared.listeners);
        self.shared.changed.notify_one();
        for (address, _) in before {
            if let ListenAddress::Unix(path) = &address
                && !self.listeners.iter().any(|(other, _)| *other == address)
            {
                // The file may have been removed already.
                let _ = std::fs::remove_file(path);
            }
        }
    }
}

impl Shared {
    /// Runs one task for each listener, and updates the tasks when the listeners change.
    async fn listen(self: &Arc<Self>) {
        let mut tasks = JoinSet::new();
        let mut open: Vec<(Listener, AbortHandle)> = Vec::new();
        loop {
            let listeners = self.listeners.load_full();
            // Compared by identity: another listener may have been opened on the same
            // address.
            open.retain(|(listener, task)| {
                let stays = listeners.iter().any(|(_, other)| other.is(listener));
                if !stays {
                    task.abort();
                }
                stays && !task.is_finished()
            });
            for (_, listener) in listeners.iter() {
                if !open.iter().any(|(other, _)| other.is(listener)) {
                    let task = tasks.spawn(Arc::clone(self).open(listener.clone()));
                    open.push((listener.clone(), task));
                }
            }
            drop(listeners);
            panics::provoke("http", "thread");
            tokio::select! {
                () = self.changed.notified() => {}
                // The task was aborted or has panicked; the pause limits how often it can.
                Some(_) = tasks.join_next() => tokio::time::sleep(RECOVERY).await,
            }
        }
    }

    /// Accepts connections of one listener.
    async fn open(self: Arc<Self>, listener: Listener) {
        let mut log_limit = RateLimit::default();
        loop {
            let failed = match &listener {
                Listener::Tcp(tcp) => {
                    let socket = tcp.try_clone().and_then(tokio::net::TcpListener::from_std);
                    match socket {
                        Ok(socket) => accept(socket, &listener, &self, &self.tcp).await,
                        Err(error) => error,
                    }
                }
                Listener::Unix(unix) => {
                    let socket = unix
                        .try_clone()
                        .and_then(tokio::net::UnixListener::from_std);
                    match socket {
                        Ok(socket) => accept(socket, &listener, &self, &self.unix).await,
                        Err(error) => error,
                    }
                }
            };
            if log_limit.allows() {
                tracing::warn!(error = %failed, "a listener could not be opened; trying again");
            }
            tokio::time::sleep(RECOVERY).await;
        }
    }
}

/// A listening socket.
trait Accept {
    type Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static;

    /// Accepts the next connection; a unix socket has no addresses.
    fn next(&self) -> impl Future<Output = io::Result<(Self::Stream, Option<Ends>)>> + Send;
}

/// The addresses of a connection.
#[derive(Clone, Copy)]
struct Ends {
    peer: SocketAddr,
    own: SocketAddr,
}

impl Accept for tokio::net::TcpListener {
    type Stream = tokio::net::TcpStream;

    async fn next(&self) -> io::Result<(Self::Stream, Option<Ends>)> {
        let (stream, peer) = self.accept().await?;
        let own = stream.local_addr()?;
        Ok((stream, Some(Ends { peer, own })))
    }
}

impl Accept for tokio::net::UnixListener {
    type Stream = tokio::net::UnixStream;

    async fn next(&self) -> io::Result<(Self::Stream, Option<Ends>)> {
        self.accept().await.map(|(stream, _)| (stream, None))
    }
}

/// The checks that a request on TCP has to pass.
struct Guard {
    /// The protection and the policy when the connection was accepted.
    protection: Option<(Arc<Protection>, Arc<WebPolicy>)>,
    /// Host names that are accepted; only for connections over loopback.
    hosts: Option<Arc<Hosts>>,
    peer: IpAddr,
}

/// Accepts connections until accepting fails.
async fn accept(
    socket: impl Accept,
    listener: &Listener,
    shared: &Shared,
    permits: &Arc<Permits>,
) -> ! {
    let mut log_limit = RateLimit::default();
    loop {
        match socket.next().await {
            Ok((stream, ends)) => {
                panics::provoke("http", "accept");
                let protection = shared.protection.load_full();
                // A listener that is being closed may belong to an earlier protection.
                let listeners = shared.listeners.load();
                if !listeners.iter().any(|(_, other)| other.is(listener)) {
                    continue;
                }
                drop(listeners);
                let guard = ends.map(|Ends { peer, own }| Guard {
                    protection: protection.map(|one| {
                        let policy = one.policy();
                        (one, policy)
                    }),
                    hosts: hosts::is_loopback(peer, own).then(|| shared.hosts.load_full()),
                    peer: peer.ip(),
                });
                match permits.acquire(ends.map(|ends| ends.peer.ip())).await {
                    Some(permit) => {
                        let router = shared.router.clone();
                        tokio::spawn(serve_connection(stream, permit, router, guard));
                        // This lets a connection that has lost its permit close its descriptor.
                        tokio::task::yield_now().await;
                    }
                    // A client that expects TLS could not read the refusal.
                    None if guard.is_some_and(|guard| guard.tls().is_some()) => {}
                    None => send_refusal(stream).await,
                }
            }
            Err(error) => {
                if log_limit.allows() {
                    tracing::warn!(%error, "a connection could not be accepted");
                }
                // Probably there are no free descriptors: closing an idle connection frees one.
                permits.shed();
                tokio::time::sleep(RECOVERY).await;
            }
        }
    }
}

/// Sends the reason and closes the connection.
async fn send_refusal(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    let sent = poll_fn(|context| {
        let _ = ready!(Pin::new(&mut stream).poll_write(context, REFUSAL));
        // If the request is left unread, the kernel may reset the connection and the
        // answer is lost.
        let mut request = [0; 1024];
        let mut request = ReadBuf::new(&mut request);
        let _ = Pin::new(&mut stream).poll_read(context, &mut request);
        Poll::Ready(())
    });
    // A client that does not read is not waited for.
    let _ = timeout(GRACE, sent).await;
}

/// Serves one connection: the TLS handshake if TLS is configured, then one request.
async fn serve_connection<S>(stream: S, permit: Permit, router: Router, guard: Option<Guard>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let permit = Arc::new(permit);
    let mut guard = guard;
    let tls = guard.as_ref().and_then(|guard| guard.tls().cloned());
    let served = async {
        let Some(tls) = tls else {
            return answer_request(stream, &permit, router, guard).await;
        };
        let stream = timeout(HEAD_TIME, tls.accept(stream)).await??;
        if let Some(guard) = &mut guard
            && stream.get_ref().1.peer_certificates().is_some()
        {
            // A client with a certificate may use any name.
            guard.hosts = None;
        }
        answer_request(stream, &permit, router, guard).await
    };
    tokio::select! {
        ended = timeout(CONNECTION_TIME, served) => if let Ok(Err(error)) = ended {
            tracing::debug!("a connection broke off: {error:#}");
        },
        () = permit.revoked() => tracing::debug!("an idle connection made room for another"),
    }
}

/// Answers one request, then closes the connection.
async fn answer_request<S>(
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
        panics::provoke("http", request.uri().path());
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
    let progress = Arc::clone(permit);
    let stream = InspectWriter::new(stream, move |_: &[u8]| progress.writing());
    http1::Builder::new()
        .timer(TokioTimer::new())
        // A connection that stays open would keep its permit.
        .keep_alive(false)
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD_BYTES)
        .max_headers(HEADERS)
        .serve_connection(TokioIo::new(stream), service)
        .await?;
    Ok(())
}

impl Guard {
    /// Returns the TLS acceptor, if TLS is configured.
    fn tls(&self) -> Option<&TlsAcceptor> {
        let (_, policy) = self.protection.as_ref()?;
        policy.tls.as_ref()
    }

    /// Answers a request, or refuses it.
    async fn answer(
        &self,
        request: Request<Incoming>,
        router: &Router,
    ) -> Result<Response, Infallible> {
        let Some((protection, policy)) = &self.protection else {
            return match self.refuse_host(&request) {
                Some(refusal) => Ok(refusal),
                None => router.call(request).await,
            };
        };
        let verdict = protection.refuse(policy, self.peer, request.headers());
        let refused = match (verdict.await, policy.has_users()) {
            (Some(refusal), _) => Some(refusal),
            // A client with a password may use any name.
            (None, true) => None,
            (None, false) => self.refuse_host(&request),
        };
        let mut answer = match refused {
            Some(refusal) => refusal,
            None => router.call(request).await?,
        };
        policy.set_headers(answer.headers_mut());
        Ok(answer)
    }

    fn refuse_host(&self, request: &Request<Incoming>) -> Option<Response> {
        let hosts = self.hosts.as_ref()?;
        hosts.refuse(request.uri(), request.headers())
    }
}
