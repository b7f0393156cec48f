//! Limits on connections: how many at once, and how many of one peer.
//!
//! If all permits are taken, a new connection gets the permit of the connection that has been
//! idle for longest; if its peer has too many connections, only those of this peer are considered.
//! A connection whose answer is being made or read is never dropped. If no connection is idle, the
//! new one waits, or is refused if its peer has too many requests that are being answered.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;

/// How long a request's head may be on its way before the connection counts as idle. A client
/// normally sends it at once.
pub const GRACE: Duration = Duration::from_millis(10);
/// How long no byte of an answer may be read before the connection counts as idle.
const STALLED: Duration = Duration::from_secs(1);

/// The permits of all TCP listeners, or of the unix socket.
pub struct Permits {
    most: usize,
    most_of_peer: usize,
    held: Mutex<Vec<Arc<Holder>>>,
}

/// A connection that holds a permit.
struct Holder {
    /// `None` on a unix socket, where all clients count as one.
    peer: Option<IpAddr>,
    progress: Mutex<Progress>,
    revoked: Notify,
}

#[derive(Debug, Clone, Copy)]
enum Progress {
    /// Accepted at this time; the head of the request is not complete.
    Asking(Instant),
    /// The answer is being made.
    Answering,
    /// A part of the answer was last accepted by the peer at this time.
    Writing(Instant),
}

/// Why there is no permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Full {
    /// No connection that could be dropped is idle, but one may become idle, so the new one waits.
    All,
    /// The peer has too many requests that are being answered, so the new connection is refused.
    Peer,
}

/// A permit, which is returned when it is dropped.
pub struct Permit {
    permits: Arc<Permits>,
    holder: Arc<Holder>,
}

impl Permits {
    pub fn new(most: usize, most_of_peer: usize) -> Arc<Self> {
        Arc::new(Self {
            most,
            most_of_peer,
            held: Mutex::default(),
        })
    }

    /// Waits for a permit for a new connection. `None` if its peer has too many requests that
    /// are being answered.
    pub async fn acquire(self: &Arc<Self>, peer: Option<IpAddr>) -> Option<Permit> {
        let peer = peer.map(network);
        loop {
            match self.try_acquire(peer, Instant::now()) {
                Ok(permit) => return Some(permit),
                Err(Full::Peer) => return None,
                Err(Full::All) => tokio::time::sleep(GRACE).await,
            }
        }
    }

    fn try_acquire(self: &Arc<Self>, peer: Option<IpAddr>, now: Instant) -> Result<Permit, Full> {
        let mut held = self.held.lock();
        let is_of_peer = |holder: &Holder| peer.is_some() && holder.peer == peer;
        let of_peer = held.iter().filter(|holder| is_of_peer(holder));
        if of_peer.clone().count() >= self.most_of_peer {
            let mut progress = of_peer.map(|holder| *holder.progress.lock());
            let may_become_idle = progress.any(|one| matches!(one, Progress::Asking(_)));
            if !drop_idlest(&mut held, now, is_of_peer) {
                return Err(if may_become_idle {
                    Full::All
                } else {
                    Full::Peer
                });
            }
        } else if held.len() >= self.most && !drop_idlest(&mut held, now, |_| true) {
            return Err(Full::All);
        }
        let holder = Arc::new(Holder {
            peer,
            progress: Mutex::new(Progress::Asking(now)),
            revoked: Notify::new(),
        });
        held.push(Arc::clone(&holder));
        Ok(Permit {
            permits: Arc::clone(self),
            holder,
        })
    }

    /// Drops the connection that has been idle for longest, if any is idle.
    pub fn shed(&self) {
        drop_idlest(&mut self.held.lock(), Instant::now(), |_| true);
    }
}

/// Takes the permit of the candidate that has been idle for longest. Returns whether there is one.
fn drop_idlest(
    held: &mut Vec<Arc<Holder>>,
    now: Instant,
    is_candidate: impl Fn(&Holder) -> bool,
) -> bool {
    let candidates = held
        .iter()
        .enumerate()
        .filter(|(_, holder)| is_candidate(holder));
    let idle = candidates.filter_map(|(at, holder)| Some((holder.idle_since(now)?, at)));
    let Some((_, idlest)) = idle.min() else {
        return false;
    };
    held.swap_remove(idlest).revoked.notify_one();
    true
}

impl Holder {
    /// Returns since when nothing has happened, if that is long enough to count as idle.
    fn idle_since(&self, now: Instant) -> Option<Instant> {
        let (since, allowed) = match *self.progress.lock() {
            Progress::Asking(since) => (since, GRACE),
            Progress::Answering => return None,
            Progress::Writing(since) => (since, STALLED),
        };
        (now.saturating_duration_since(since) >= allowed).then_some(since)
    }
}

impl Permit {
    /// The head of the request is complete.
    pub fn answering(&self) {
        *self.holder.progress.lock() = Progress::Answering;
    }

    /// The answer is made, or the peer has accepted a part of it.
    pub fn writing(&self) {
        *self.holder.progress.lock() = Progress::Writing(Instant::now());
    }

    /// Waits until another connection has taken this permit.
    pub async fn revoked(&self) {
        self.holder.revoked.notified().await;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut held = self.permits.held.lock();
        held.retain(|holder| !Arc::ptr_eq(holder, &self.holder));
    }
}

/// The peer that an address belongs to: an IPv6 host usually has a whole /64.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let prefix = u128::from(address) >> 64 << 64;
            IpAddr::V6(Ipv6Addr::from(prefix))
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Option<IpAddr> = Some(IpAddr::V6(Ipv6Addr::LOCALHOST));
    const B: Option<IpAddr> = Some(IpAddr::V6(Ipv6Addr::UNSPECIFIED));

    /// Acquires a permit for each peer, one per second. Returns them and the time a second after
    /// the last one.
    fn held(permits: &Arc<Permits>, peers: &[Option<IpAddr>]) -> (Vec<Permit>, Instant) {
        let mut now = Instant::now();
        let held = peers.iter().map(|peer| {
            now += Duration::from_secs(1);
            permits.try_acquire(*peer, now).unwrap()
        });
        (held.collect(), now + Duration::from_secs(1))
    }

    /// Returns the indices of the permits that were revoked.
    fn revoked(permits: &Permits, held: &[Permit]) -> Vec<usize> {
        let still = permits.held.lock();
        let gone = |permit: &Permit| !still.iter().any(|held| Arc::ptr_eq(held, &permit.holder));
        (0..held.len()).filter(|at| gone(&held[*at])).collect()
    }

    #[test]
    fn the_idlest_connection_is_dropped_but_none_that_is_being_answered() {
        let permits = Permits::new(3, 3);
        let (held, now) = held(&permits, &[A, B, A]);
        held[0].answering();
        let _newcomer = permits.try_acquire(A, now).unwrap();
        assert_eq!(revoked(&permits, &held), [1]);
        held[2].answering();
        assert_eq!(
            permits.try_acquire(B, now).err(),
            Some(Full::All),
            "the head of its request may still arrive"
        );
        let _another = permits.try_acquire(B, now + GRACE).unwrap();
        assert_eq!(revoked(&permits, &held), [1], "the newcomer was idle");
    }

    #[test]
    fn a_peer_with_too_many_connections_loses_one_of_its_own() {
        let permits = Permits::new(4, 2);
        let (held, now) = held(&permits, &[B, A, A]);
        let _third = permits.try_acquire(A, now).unwrap();
        assert_eq!(revoked(&permits, &held), [1], "not the idler one of B");
        held[2].answering();
        let late = now + GRACE;
        let fourth = permits.try_acquire(A, late).unwrap();
        fourth.answering();
        assert_eq!(permits.try_acquire(A, late).err(), Some(Full::Peer));
        assert!(permits.try_acquire(B, late).is_ok(), "permits are left");
    }

    #[test]
    fn a_connection_whose_answer_is_not_read_is_dropped() {
        let permits = Permits::new(1, 1);
        let (held, _) = held(&permits, &[None]);
        held[0].writing();
        let now = Instant::now();
        assert_eq!(permits.try_acquire(None, now).err(), Some(Full::All));
        assert!(permits.try_acquire(None, now + 2 * STALLED).is_ok());
        assert_eq!(revoked(&permits, &held), [0]);
    }

    #[test]
    fn a_returned_permit_can_be_acquired_again() {
        let permits = Permits::new(1, 1);
        let (held, now) = held(&permits, &[A]);
        held[0].answering();
        assert!(permits.try_acquire(A, now).is_err());
        drop(held);
        assert!(permits.try_acquire(A, now).is_ok());
    }

    #[test]
    fn addresses_of_one_network_are_one_peer() {
        let of = |text: &str| network(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:2"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
        assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
    }
}
