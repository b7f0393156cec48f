//! Accepting connections, on TCP addresses and on a unix socket, within limits; those
//! on TCP may be protected.
//!
//! A slow, large, deaf or idle request costs its sender the connection and others
//! next to nothing: TCP and the unix socket have permits of their own, and where
//! all are held the idlest connection makes room for a new one. What does cost
//! others something is answers: those that are being made hold their permits, and
//! a peer that has too many of them is turned away; and one thread makes them all,
//! each after the one before. A panic costs the connection that it came with.

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

use super::api::{self, ApiState};
use super::history;
use super::hosts::{self, Hosts};
use super::listeners::{self, Listener, Listeners, Place};
use super::page::Page;
use super::permits::{GRACE, Permit, Permits};
use super::protection::{self, Protection, Rules};
use super::stream::PermittedStream;
use crate::config;
use crate::log::RateLimit;
use crate::panics;

/// Connections at once on TCP. With those of the unix socket they are far fewer
/// than the 1024 descriptors a process usually has.
const TCP: usize = 320;
/// Of these for one peer. A thousand questions a second about the current window
/// are 250 at a time, and all may come through one proxy.
const PEER: usize = 288;
/// Connections at once on the unix socket.
const UNIX: usize = 288;
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

/// The server at work: what it listens on and how that is protected can change.
pub struct Server {
    listeners: Listeners,
    shared: Arc<Shared>,
}

/// What the thread of the server goes by.
struct Shared {
    listeners: ArcSwap<Listeners>,
    /// Says that there are others.
    changed: Notify,
    /// What protects those on TCP; the socket has the permissions of a file.
    protection: ArcSwapOption<Protection>,
    /// By which names they may be asked over loopback.
    hosts: ArcSwap<Hosts>,
    tcp: Arc<Permits>,
    unix: Arc<Permits>,
    router: Router,
}

/// What the server shall listen on, ready to be used.
pub struct Prepared {
    listeners: Listeners,
    protection: Option<protection::Prepared>,
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
        // Requests that are being answered go on after a panic.
        while panics::caught(|| runtime.block_on(shared.listen())).is_none() {
            thread::sleep(RECOVERY);
        }
    })?;
    Ok(server)
}

impl Server {
    /// Where it is served, as a browser asks for it.
    pub fn addresses(&self) -> Vec<String> {
        let protection = self.shared.protection.load();
        let tls = protection.as_ref().map(|one| one.rules().tls.is_some());
        let scheme = match tls {
            Some(true) => "https",
            _ => "http",
        };
        let address = |(_, listener): &(Place, Listener)| match listener {
            Listener::Tcp(tcp) => Some(format!("{scheme}://{}", tcp.local_addr().ok()?)),
            Listener::Unix(_) => None,
        };
        self.listeners.iter().filter_map(address).collect()
    }

    /// Makes ready for another configuration; nothing changes yet, but ports are taken.
    pub fn prepare(&self, config: &config::Export) -> anyhow::Result<Prepared> {
        let before = self.shared.protection.load_full();
        let protection = config.web_config.as_deref();
        let protection = protection.map(|path| protection::Prepared::read(path, before));
        Ok(Prepared {
            protection: protection.transpose()?,
            hosts: Hosts::new(&config.hosts),
            listeners: listeners::bind_beside(&self.listeners, config)?,
        })
    }

    /// Listens and protects by another configuration from now on.
    pub fn adopt(&mut self, prepared: Prepared) {
        // Nobody comes in by a new address before it is protected, nor by one that is
        // closed after its protection is gone.
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
        for (place, _) in before {
            if let Place::Unix(path) = &place
                && !self.listeners.iter().any(|(other, _)| *other == place)
            {
                // Nobody listens there any more; it may be gone already.
                let _ = std::fs::remove_file(path);
            }
        }
    }
}

impl Shared {
    /// Accepts connections wherever they shall come in.
    async fn listen(self: &Arc<Self>) {
        let mut tasks = JoinSet::new();
        let mut doors: Vec<(Listener, AbortHandle)> = Vec::new();
        loop {
            let listeners = self.listeners.load_full();
            // Not where they are: one may have been closed and another opened there since.
            doors.retain(|(listener, task)| {
                let stays = listeners.iter().any(|(_, other)| other.is(listener));
                if !stays {
                    task.abort();
                }
                stays && !task.is_finished()
            });
            for (_, listener) in listeners.iter() {
                if !doors.iter().any(|(other, _)| other.is(listener)) {
                    let task = tasks.spawn(Arc::clone(self).open(listener.clone()));
                    doors.push((listener.clone(), task));
                }
            }
            drop(listeners);
            panics::provoke("http", "thread");
            tokio::select! {
                () = self.changed.notified() => {}
                // It was aborted, or has panicked and may do so again at once.
                Some(_) = tasks.join_next() => tokio::time::sleep(RECOVERY).await,
            }
        }
    }

    /// Accepts what comes to a listener.
    async fn open(self: Arc<Self>, listener: Listener) {
        let mut complaints = RateLimit::default();
        loop {
            let failed = match &listener {
                Listener::Tcp(tcp) => {
                    let door = tcp.try_clone().and_then(tokio::net::TcpListener::from_std);
                    match door {
                        Ok(door) => accept(door, &listener, &self, &self.tcp).await,
                        Err(error) => error,
                    }
                }
                Listener::Unix(unix) => {
                    let door = unix
                        .try_clone()
                        .and_then(tokio::net::UnixListener::from_std);
                    match door {
                        Ok(door) => accept(door, &listener, &self, &self.unix).await,
                        Err(error) => error,
                    }
                }
            };
            if complaints.allows() {
                tracing::warn!(error = %failed, "a listener could not be opened; trying again");
            }
            tokio::time::sleep(RECOVERY).await;
        }
    }
}

/// Where connections come in.
trait Door {
    type Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static;

    /// The next one, and between which addresses, if there are addresses.
    fn next(&self) -> impl Future<Output = io::Result<(Self::Stream, Option<Ends>)>> + Send;
}

/// The addresses of a connection.
#[derive(Clone, Copy)]
struct Ends {
    peer: SocketAddr,
    own: SocketAddr,
}

impl Door for tokio::net::TcpListener {
    type Stream = tokio::net::TcpStream;

    async fn next(&self) -> io::Result<(Self::Stream, Option<Ends>)> {
        let (stream, peer) = self.accept().await?;
        let own = stream.local_addr()?;
        Ok((stream, Some(Ends { peer, own })))
    }
}

impl Door for tokio::net::UnixListener {
    type Stream = tokio::net::UnixStream;

    async fn next(&self) -> io::Result<(Self::Stream, Option<Ends>)> {
        self.accept().await.map(|(stream, _)| (stream, None))
    }
}

/// What protects a connection on TCP.
struct Guard {
    /// What the file says, if there is one.
    protection: Option<(Arc<Protection>, Arc<Rules>)>,
    /// By which names it may be asked, if it came over loopback.
    hosts: Option<Arc<Hosts>>,
    peer: IpAddr,
}

/// Accepts what comes next, again and again.
async fn accept(
    door: impl Door,
    listener: &Listener,
    shared: &Shared,
    permits: &Arc<Permits>,
) -> ! {
    let mut complaints = RateLimit::default();
    loop {
        match door.next().await {
            Ok((stream, ends)) => {
                panics::provoke("http", "accept");
                let protection = shared.protection.load_full();
                // One that is being closed is not for this protection.
                let listeners = shared.listeners.load();
                if !listeners.iter().any(|(_, other)| other.is(listener)) {
                    continue;
                }
                drop(listeners);
                let guard = ends.map(|Ends { peer, own }| Guard {
                    protection: protection.map(|one| {
                        let rules = one.rules();
                        (one, rules)
                    }),
                    hosts: hosts::is_loopback(peer, own).then(|| shared.hosts.load_full()),
                    peer: peer.ip(),
                });
                match permits.acquire(ends.map(|ends| ends.peer.ip())).await {
                    Some(permit) => {
                        let router = shared.router.clone();
                        tokio::spawn(serve_connection(stream, permit, router, guard));
                        // Whoever lost its permit closes its descriptor now.
                        tokio::task::yield_now().await;
                    }
                    // Who expects TLS would not understand.
                    None if guard.is_some_and(|guard| guard.tls().is_some()) => {}
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
    let mut guard = guard;
    let tls = guard.as_ref().and_then(|guard| guard.tls().cloned());
    let served = async {
        let Some(tls) = tls else {
            return converse(stream, &permit, router, guard).await;
        };
        let stream = timeout(HEAD_TIME, tls.accept(stream)).await??;
        if let Some(guard) = &mut guard
            && stream.get_ref().1.peer_certificates().is_some()
        {
            // Whoever has shown a certificate may ask by any name.
            guard.hosts = None;
        }
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
    /// What speaks TLS, if it is spoken.
    fn tls(&self) -> Option<&TlsAcceptor> {
        let (_, rules) = self.protection.as_ref()?;
        rules.tls.as_ref()
    }

    /// The answer to whoever may have one.
    async fn answer(
        &self,
        request: Request<Incoming>,
        router: &Router,
    ) -> Result<Response, Infallible> {
        let Some((protection, rules)) = &self.protection else {
            return match self.refuse_host(&request) {
                Some(refusal) => Ok(refusal),
                None => router.call(request).await,
            };
        };
        let verdict = protection.refuse(rules, self.peer, request.headers());
        let refused = match (verdict.await, rules.has_users()) {
            (Some(refusal), _) => Some(refusal),
            // Whoever knows a password may ask by any name.
            (None, true) => None,
            (None, false) => self.refuse_host(&request),
        };
        let mut answer = match refused {
            Some(refusal) => refusal,
            None => router.call(request).await?,
        };
        rules.dress(answer.headers_mut());
        Ok(answer)
    }

    fn refuse_host(&self, request: &Request<Incoming>) -> Option<Response> {
        let hosts = self.hosts.as_ref()?;
        hosts.refuse(request.uri(), request.headers())
    }
}
