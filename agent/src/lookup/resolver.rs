//! Host names of addresses, by reverse look-ups in the background.
//!
//! A name is returned from a cache at once. An address that is not in the cache is put into a
//! queue; a few threads look it up, in `/etc/hosts` and then by DNS, and later calls return
//! its name. The queue, the cache and the number of queries per second are limited; an address
//! that does not fit the queue is added by a later call. Only [`Resolver::wait`] waits for
//! these threads; the end of the agent does not.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fs::File;
use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::{hosts, server};

const THREADS: usize = 4;
/// Most addresses that wait or are looked up at the moment.
const MAX_WAITING: usize = 1024;
/// Most addresses in the cache, which takes some 200 bytes for each.
const MAX_KNOWN: usize = 16_384;
/// Pause between two queries to name servers, of all threads together: 100 per second.
const PAUSE: Duration = Duration::from_millis(10);
/// How long a name server has for an answer.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Least number of queries for an address. They go to the servers in turn, and at least one to
/// each of the first three servers.
const TRIES: usize = 2;
/// How long a name is used.
const NAME_LASTS: Duration = Duration::from_secs(3600);
/// How long an address without a name is not looked up again.
const NO_NAME_LASTS: Duration = Duration::from_secs(600);
/// How long an address is not looked up again if no server has answered.
const FAILURE_LASTS: Duration = Duration::from_secs(60);
/// How long files of the system are used before they are read again.
const FILES_LAST: Duration = Duration::from_secs(30);
const MAX_FILE: u64 = 1 << 20;
const HOSTS: &str = "/etc/hosts";
const NAME_SERVERS: &str = "/etc/resolv.conf";
const DNS_PORT: u16 = 53;

/// Looks names up. Its threads end when it is dropped.
pub struct Resolver {
    shared: Arc<Shared>,
}

struct Shared {
    /// Empty for those of the system.
    servers: Vec<SocketAddr>,
    state: Mutex<State>,
    /// Notified when an address was queued or the resolver was dropped.
    work: Condvar,
    /// Notified when no address waits any longer.
    idle: Condvar,
    files: Mutex<Option<Files>>,
}

#[derive(Default)]
struct State {
    known: HashMap<IpAddr, CachedName>,
    /// The addresses in `known`, in the order in which they were added.
    order: VecDeque<IpAddr>,
    queue: VecDeque<IpAddr>,
    /// Addresses in the queue, and those that are being looked up.
    waiting: HashSet<IpAddr>,
    /// When the next query may be sent.
    next: Option<Instant>,
    ended: bool,
}

struct CachedName {
    name: Option<Arc<str>>,
    until: Instant,
}

/// Contents of the files of the system, and when they were read.
struct Files {
    read: Instant,
    hosts: HashMap<IpAddr, Arc<str>>,
    servers: Vec<SocketAddr>,
}

/// Result of a look-up.
enum Found {
    Name(Arc<str>),
    Nothing,
    /// No server has answered.
    Failed,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Resolver {
    /// Starts threads that query these name servers; those of `/etc/resolv.conf` if the list
    /// is empty.
    pub fn start(servers: Vec<SocketAddr>) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            servers,
            state: Mutex::default(),
            work: Condvar::new(),
            idle: Condvar::new(),
            files: Mutex::new(None),
        });
        let resolver = Self { shared };
        for _ in 0..THREADS {
            let shared = Arc::clone(&resolver.shared);
            thread::Builder::new()
                .name("resolver".into())
                .spawn(move || shared.work())?;
        }
        Ok(resolver)
    }

    /// The name servers that it was started with.
    pub fn servers(&self) -> &[SocketAddr] {
        &self.shared.servers
    }

    /// Returns the name of an address, if it is known. It is looked up in the background if
    /// it is unknown or outdated.
    pub fn name(&self, address: IpAddr) -> Option<Arc<str>> {
        if address.is_unspecified() || address.is_multicast() {
            return None;
        }
        let mut state = locked(&self.shared.state);
        let known = state.known.get(&address);
        let name = known.and_then(|known| known.name.clone());
        let is_fresh = known.is_some_and(|known| known.until > Instant::now());
        let has_room = state.waiting.len() < MAX_WAITING;
        if !is_fresh && has_room && state.waiting.insert(address) {
            state.queue.push_back(address);
            self.shared.work.notify_one();
        }
        name
    }

    /// Waits until all queued addresses have been looked up, for `timeout` at most.
    pub fn wait(&self, timeout: Duration) {
        let state = locked(&self.shared.state);
        let is_busy = |state: &mut State| !state.waiting.is_empty();
        let waited = self.shared.idle.wait_timeout_while(state, timeout, is_busy);
        drop(waited);
    }
}

impl Drop for Resolver {
    fn drop(&mut self) {
        locked(&self.shared.state).ended = true;
        self.shared.work.notify_all();
    }
}

impl Shared {
    /// Looks up queued addresses until the resolver is dropped.
    fn work(&self) {
        while let Some(address) = self.next() {
            let found = panic::catch_unwind(AssertUnwindSafe(|| self.find(address)));
            let found = found.unwrap_or(Found::Failed);
            let mut state = locked(&self.state);
            state.store(address, found);
            state.waiting.remove(&address);
            if state.waiting.is_empty() {
                self.idle.notify_all();
            }
        }
    }

    fn next(&self) -> Option<IpAddr> {
        let state = locked(&self.state);
        let is_idle = |state: &mut State| state.queue.is_empty() && !state.ended;
        let waited = self.work.wait_while(state, is_idle);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        if state.ended {
            return None;
        }
        state.queue.pop_front()
    }

    fn find(&self, address: IpAddr) -> Found {
        let (own, servers) = self.files(address);
        if let Some(name) = own {
            return Found::Name(name);
        }
        let turns = servers.iter().cycle().take(TRIES.max(servers.len().min(3)));
        for server in turns {
            thread::sleep(self.pause());
            match server::ask(*server, address, TIMEOUT) {
                Ok(Some(name)) => return Found::Name(name.into()),
                Ok(None) => return Found::Nothing,
                Err(_) => {}
            }
        }
        Found::Failed
    }

    /// Returns the name of an address in `/etc/hosts`, and the name servers to query.
    fn files(&self, address: IpAddr) -> (Option<Arc<str>>, Vec<SocketAddr>) {
        let mut files = locked(&self.files);
        let is_old = |files: &Files| files.read.elapsed() > FILES_LAST;
        if files.as_ref().is_none_or(is_old) {
            let server = |address| SocketAddr::new(address, DNS_PORT);
            let servers = hosts::name_servers(&text(NAME_SERVERS));
            *files = Some(Files {
                read: Instant::now(),
                hosts: hosts::parse(&text(HOSTS)),
                servers: match self.servers.is_empty() {
                    true => servers.into_iter().map(server).collect(),
                    false => self.servers.clone(),
                },
            });
        }
        match &*files {
            Some(files) => (files.hosts.get(&address).cloned(), files.servers.clone()),
            None => (None, Vec::new()),
        }
    }

    /// Returns how long to wait before the next query.
    fn pause(&self) -> Duration {
        let now = Instant::now();
        let mut state = locked(&self.state);
        let turn = state.next.map_or(now, |next| next.max(now));
        state.next = Some(turn + PAUSE);
        turn - now
    }
}

/// Returns the text of a file; empty if it cannot be read.
fn text(path: &str) -> String {
    let mut bytes = Vec::new();
    if let Ok(file) = File::open(path) {
        // What was read before an error is used.
        let _ = file.take(MAX_FILE).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

impl State {
    fn store(&mut self, address: IpAddr, found: Found) {
        let before = self.known.get(&address);
        let (name, lasts) = match found {
            Found::Name(name) => (Some(name), NAME_LASTS),
            Found::Nothing => (None, NO_NAME_LASTS),
            // The previous name is kept.
            Found::Failed => (before.and_then(|known| known.name.clone()), FAILURE_LASTS),
        };
        let until = Instant::now() + lasts;
        if self
            .known
            .insert(address, CachedName { name, until })
            .is_none()
        {
            self.order.push_back(address);
        }
        while self.known.len() > MAX_KNOWN
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use super::*;
    use crate::lookup::dns::tests::{encoded, reply};

    /// Starts a name server on loopback that answers with `name`; it never answers for `None`,
    /// and that there is no name for an empty one. Returns its address and its number of queries.
    fn serve(name: Option<&'static str>) -> (SocketAddr, Arc<AtomicUsize>) {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let at = socket.local_addr().unwrap();
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        thread::spawn(move || {
            let mut message = [0; 512];
            while let Ok((length, from)) = socket.recv_from(&mut message) {
                count.fetch_add(1, Relaxed);
                let question = &message[..length];
                let answer = match name {
                    None => continue,
                    Some("") => reply(question, 3, &[]),
                    Some(name) => reply(question, 0, &[(12, encoded(name))]),
                };
                // A forged answer with another id comes first.
                let mut other = answer.clone();
                other[0] ^= 1;
                socket.send_to(&other, from).unwrap();
                socket.send_to(&answer, from).unwrap();
            }
        });
        (at, asked)
    }

    fn address(n: u16) -> IpAddr {
        let [high, low] = n.to_be_bytes();
        [192, 0, high, low].into()
    }

    #[test]
    fn a_name_is_queried_once_and_then_cached() {
        let (server, asked) = serve(Some("web.example"));
        let resolver = Resolver::start(vec![server]).unwrap();
        assert_eq!(resolver.name(address(1)), None, "the call does not wait");
        resolver.wait(Duration::from_secs(10));
        for _ in 0..3 {
            assert_eq!(resolver.name(address(1)).as_deref(), Some("web.example"));
        }
        resolver.wait(Duration::from_secs(10));
        assert_eq!(asked.load(Relaxed), 1);
        // Names in /etc/hosts are not queried.
        let own: IpAddr = [127, 0, 0, 1].into();
        assert!(hosts::parse(&text(HOSTS)).contains_key(&own));
        resolver.name(own);
        resolver.wait(Duration::from_secs(10));
        assert_eq!(resolver.name(own).as_deref(), Some("localhost"));
        assert_eq!(asked.load(Relaxed), 1);
    }

    #[test]
    fn a_missing_name_is_cached_as_well() {
        let (server, asked) = serve(Some(""));
        let resolver = Resolver::start(vec![server]).unwrap();
        for _ in 0..3 {
            assert_eq!(resolver.name(address(1)), None);
            resolver.wait(Duration::from_secs(10));
        }
        assert_eq!(asked.load(Relaxed), 1);
        // These addresses are never queried.
        for useless in ["0.0.0.0", "::", "224.0.0.1", "ff02::1"] {
            resolver.name(useless.parse().unwrap());
        }
        resolver.wait(Duration::from_secs(10));
        assert_eq!(asked.load(Relaxed), 1);
    }

    #[test]
    fn a_server_that_never_answers_delays_no_caller() {
        let ((silent, asked), (other, _)) = (serve(None), serve(Some("web.example")));
        let resolver = Resolver::start(vec![silent, other]).unwrap();
        let start = Instant::now();
        for n in 0..3000 {
            resolver.name(address(n));
        }
        assert!(start.elapsed() < TIMEOUT, "{:?}", start.elapsed());
        {
            let state = locked(&resolver.shared.state);
            assert_eq!(state.waiting.len(), MAX_WAITING, "the queue is limited");
        }
        // The second server is queried after the timeout of the first one.
        let known = || {
            (0..4)
                .filter(|n| resolver.name(address(*n)).is_some())
                .count()
        };
        while known() < 4 {
            assert!(start.elapsed() < 10 * TIMEOUT);
            thread::sleep(Duration::from_millis(20));
        }
        assert!(start.elapsed() >= TIMEOUT);
        let asked = asked.load(Relaxed);
        assert!(asked <= 2 * THREADS + THREADS, "{asked}");
        let start = Instant::now();
        let shared = Arc::downgrade(&resolver.shared);
        drop(resolver);
        assert!(
            start.elapsed() < Duration::from_millis(500),
            "dropping it does not wait"
        );
        while shared.strong_count() > 0 {
            assert!(start.elapsed() < 10 * TIMEOUT, "its threads end");
            thread::sleep(Duration::from_millis(20));
        }
    }

    #[test]
    fn queries_are_limited_per_second() {
        let (server, asked) = serve(Some("web.example"));
        let resolver = Resolver::start(vec![server]).unwrap();
        let start = Instant::now();
        (0..60).for_each(|n| drop(resolver.name(address(n))));
        resolver.wait(Duration::from_secs(30));
        let asked = asked.load(Relaxed) as u32;
        assert_eq!(asked, 60);
        assert!(start.elapsed() >= (asked - 1) * PAUSE);
    }

    #[test]
    fn the_oldest_names_are_removed_and_a_failure_keeps_a_known_name() {
        let mut state = State::default();
        state.store(address(0), Found::Name("a.example".into()));
        state.store(address(0), Found::Failed);
        assert_eq!(state.known[&address(0)].name.as_deref(), Some("a.example"));
        for n in 1..=MAX_KNOWN as u16 {
            state.store(address(n), Found::Nothing);
        }
        assert_eq!(
            (state.known.len(), state.order.len()),
            (MAX_KNOWN, MAX_KNOWN)
        );
        assert!(!state.known.contains_key(&address(0)));
    }
}
