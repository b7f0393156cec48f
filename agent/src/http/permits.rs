//! Who may hold a connection: so many at once, so many of one peer.
//!
//! Where all permits are held, a newcomer gets that of the connection that has
//! been idle for longest, of its own peer first. One whose answer is being made,
//! or is being read, is never dropped: then the newcomer waits, or, if it is its
//! own peer that holds too many of these, is turned away.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// How long a request's head may be on its way before the connection counts as
/// idle. Whoever connects to ask sends it at once.
pub const GRACE: Duration = Duration::from_millis(10);
/// How long nobody may read an answer before the connection counts as idle.
const STALLED: Duration = Duration::from_secs(1);

/// The permits of one listener.
pub struct Permits {
    most: usize,
    most_of_peer: usize,
    held: Mutex<Vec<Arc<Holder>>>,
}

/// A connection that holds a permit.
struct Holder {
    /// None on a unix socket, where all are one.
    peer: Option<IpAddr>,
    progress: Mutex<Progress>,
    revoked: Notify,
}

/// How far a connection is.
#[derive(Debug, Clone, Copy)]
enum Progress {
    /// It was accepted then, and its request's head is not complete.
    Asking(Instant),
    /// Its answer is being made.
    Answering,
    /// Something of its answer was taken then.
    Writing(Instant),
}

/// Why there is no permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Full {
    /// All are held, but some head may still be on its way: there is one after
    /// [`GRACE`], whether it comes or not.
    Soon,
    /// The peer holds all it may, and all of these are being answered.
    Peer,
    /// All are held and are being answered.
    All,
}

/// A permit, returned when it is dropped.
pub struct Permit {
    permits: Arc<Permits>,
    holder: Arc<Holder>,
}

impl Permits {
    /// So many permits, so many of them for one peer.
    pub fn new(most: usize, most_of_peer: usize) -> Arc<Self> {
        Arc::new(Self {
            most,
            most_of_peer,
            held: Mutex::default(),
        })
    }

    /// A permit for a new connection, as soon as there is one; none if its peer
    /// holds all it may and all of these are being answered.
    pub async fn acquire(self: &Arc<Self>, peer: Option<IpAddr>) -> Option<Permit> {
        let peer = peer.map(network);
        loop {
            match self.try_acquire(peer, Instant::now()) {
                Ok(permit) => return Some(permit),
                Err(Full::Peer) => return None,
                Err(Full::Soon | Full::All) => tokio::time::sleep(GRACE).await,
            }
        }
    }

    fn try_acquire(self: &Arc<Self>, peer: Option<IpAddr>, now: Instant) -> Result<Permit, Full> {
        let mut held = lock(&self.held);
        let of_peer = |holder: &Holder| peer.is_some() && holder.peer == peer;
        let peers = held.iter().filter(|holder| of_peer(holder)).count();
        if peers >= self.most_of_peer {
            make_room(&mut held, now, of_peer, Full::Peer)?;
        } else if held.len() >= self.most {
            make_room(&mut held, now, |_| true, Full::All)?;
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

    /// Drops the idlest connection, if there is one that is idle.
    pub fn shed(&self) {
        let _ = make_room(&mut lock(&self.held), Instant::now(), |_| true, Full::All);
    }
}

/// Takes the permit of the idlest connection that may be meant; `full` if all of
/// these are being answered.
fn make_room(
    held: &mut Vec<Arc<Holder>>,
    now: Instant,
    may_be_meant: impl Fn(&Holder) -> bool,
    full: Full,
) -> Result<(), Full> {
    let (mut idlest, mut soon) = (None, false);
    for (at, holder) in held.iter().enumerate() {
        if may_be_meant(holder) {
            let progress = *lock(&holder.progress);
            let idle = progress.idle_since(now).map(|since| (since, at));
            idlest = idlest.into_iter().chain(idle).min();
            soon |= matches!(progress, Progress::Asking(_));
        }
    }
    match idlest {
        Some((_, at)) => {
            held.swap_remove(at).revoked.notify_one();
            Ok(())
        }
        None if soon => Err(Full::Soon),
        None => Err(full),
    }
}

impl Progress {
    /// Since when nothing has happened, if that is long enough to be idle.
    fn idle_since(self, now: Instant) -> Option<Instant> {
        let (since, allowed) = match self {
            Self::Asking(since) => (since, GRACE),
            Self::Answering => return None,
            Self::Writing(since) => (since, STALLED),
        };
        (now.saturating_duration_since(since) >= allowed).then_some(since)
    }
}

impl Permit {
    /// The request's head is complete.
    pub fn answering(&self) {
        *lock(&self.holder.progress) = Progress::Answering;
    }

    /// The answer is made, or some of it was taken.
    pub fn writing(&self) {
        *lock(&self.holder.progress) = Progress::Writing(Instant::now());
    }

    /// Waits until another connection has got this permit.
    pub async fn revoked(&self) {
        self.holder.revoked.notified().await;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut held = lock(&self.permits.held);
        held.retain(|holder| !Arc::ptr_eq(holder, &self.holder));
    }
}

/// Whom an address stands for: whoever has an IPv6 address has a whole /64.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let prefix = u128::from(address) >> 64 << 64;
            IpAddr::V6(Ipv6Addr::from(prefix))
        }
        address => address,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Option<IpAddr> = Some(IpAddr::V6(Ipv6Addr::LOCALHOST));
    const B: Option<IpAddr> = Some(IpAddr::V6(Ipv6Addr::UNSPECIFIED));

    /// Permits held since the start, each a second later.
    fn held(permits: &Arc<Permits>, peers: &[Option<IpAddr>]) -> (Vec<Permit>, Instant) {
        let mut now = Instant::now();
        let held = peers.iter().map(|peer| {
            now += Duration::from_secs(1);
            permits.try_acquire(*peer, now).unwrap()
        });
        (held.collect(), now + Duration::from_secs(1))
    }

    /// Which of them are held no more.
    fn revoked(permits: &Permits, held: &[Permit]) -> Vec<usize> {
        let still = lock(&permits.held);
        let gone = |permit: &Permit| !still.iter().any(|held| Arc::ptr_eq(held, &permit.holder));
        (0..held.len()).filter(|at| gone(&held[*at])).collect()
    }

    #[test]
    fn the_idlest_goes_first_and_whoever_is_answered_never() {
        let permits = Permits::new(3, 3);
        let (held, now) = held(&permits, &[A, B, A]);
        held[0].answering();
        let _newcomer = permits.try_acquire(A, now).unwrap();
        assert_eq!(revoked(&permits, &held), [1]);
        held[2].answering();
        assert_eq!(
            permits.try_acquire(B, now).err(),
            Some(Full::Soon),
            "its head may be on its way"
        );
        let _another = permits.try_acquire(B, now + GRACE).unwrap();
        assert_eq!(revoked(&permits, &held), [1], "the newcomer was idle");
    }

    #[test]
    fn a_peer_that_holds_too_many_pays_for_it_itself() {
        let permits = Permits::new(4, 2);
        let (held, now) = held(&permits, &[B, A, A]);
        let _third = permits.try_acquire(A, now).unwrap();
        assert_eq!(revoked(&permits, &held), [1], "not the idler one of B");
        held[2].answering();
        let late = now + GRACE;
        let fourth = permits.try_acquire(A, late).unwrap();
        fourth.answering();
        assert_eq!(permits.try_acquire(A, late).err(), Some(Full::Peer));
        assert!(permits.try_acquire(B, late).is_ok(), "there are others");
    }

    #[test]
    fn an_answer_that_nobody_reads_is_given_up() {
        let permits = Permits::new(1, 1);
        let (held, _) = held(&permits, &[None]);
        held[0].writing();
        let now = Instant::now();
        assert_eq!(permits.try_acquire(None, now).err(), Some(Full::All));
        assert!(permits.try_acquire(None, now + 2 * STALLED).is_ok());
        assert_eq!(revoked(&permits, &held), [0]);
    }

    #[test]
    fn what_is_returned_can_be_had_again() {
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
