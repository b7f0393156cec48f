//! The queue of passwords that wait to be checked.
//!
//! Wrong passwords are counted by address. The next to be checked is a password of the address
//! with the fewest recent wrong ones, and addresses take turns; among addresses with equally few
//! wrong passwords the latest request is checked first. An address has few places in the queue; if
//! the queue is full, the request that would be checked last is refused: of those from addresses
//! with the most wrong passwords the one that has waited longest.
//!
//! So clients that guess passwords wait for each other. The first password of another client always
//! gets a place and waits for at most one check and the pause after it, unless requests of further
//! addresses without a wrong password arrive meanwhile: these are checked before it, and only
//! [`MOST`] of them can take its place.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Most requests that may wait. Each holds one of a few hundred connections.
const MOST: usize = 64;
/// Most requests of one address that may wait.
const MOST_OF_PEER: usize = 4;
/// How long a wrong password counts.
const COUNTED_FOR: Duration = Duration::from_secs(600);
/// Most addresses whose wrong passwords are counted.
const MOST_COUNTED: usize = 4096;

/// Requests that wait for a password check.
pub struct PasswordQueue<T> {
    /// In the order of arrival.
    waiting: Vec<(IpAddr, T)>,
    wrong: HashMap<IpAddr, Wrong>,
}

/// Wrong passwords of an address.
#[derive(Clone, Copy)]
struct Wrong {
    count: u32,
    last: Instant,
}

/// Why a request cannot wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// Too many requests of the address already wait.
    Peer,
    /// The queue is full of requests that are checked earlier.
    All,
}

impl<T> Default for PasswordQueue<T> {
    fn default() -> Self {
        Self {
            waiting: Vec::new(),
            wrong: HashMap::new(),
        }
    }
}

impl<T> PasswordQueue<T> {
    /// Adds a request, after removing those that no longer wait. If the queue is full, the
    /// request that would be checked last is dropped.
    pub fn push(
        &mut self,
        peer: IpAddr,
        password: T,
        waiting: impl Fn(&T) -> bool,
        now: Instant,
    ) -> Result<(), Full> {
        self.waiting.retain(|(_, password)| waiting(password));
        let of_peer = self.waiting.iter().filter(|(other, _)| *other == peer);
        if of_peer.count() >= MOST_OF_PEER {
            return Err(Full::Peer);
        }
        self.waiting.push((peer, password));
        if self.waiting.len() <= MOST {
            return Ok(());
        }
        let turns = self.turns(now);
        let last = (0..turns.len()).max_by_key(|at| turns[*at]);
        let last = last.unwrap_or(MOST);
        self.waiting.remove(last);
        match last == MOST {
            true => Err(Full::All),
            false => Ok(()),
        }
    }

    /// Removes and returns the request to check next.
    pub fn next(&mut self, now: Instant) -> Option<(IpAddr, T)> {
        let turns = self.turns(now);
        let first = (0..turns.len()).min_by_key(|at| turns[*at])?;
        Some(self.waiting.remove(first))
    }

    /// The sort key of each waiting request: wrong passwords of its address, its position among
    /// the requests of its address, its position among all, the latest first. If the earliest were
    /// first, addresses that send one password each could hold all places.
    fn turns(&self, now: Instant) -> Vec<(u32, usize, Reverse<usize>)> {
        let mut before: HashMap<IpAddr, usize> = HashMap::new();
        let turn = |(at, (peer, _)): (usize, &(IpAddr, T))| {
            let of_peer = before.entry(*peer).or_default();
            *of_peer += 1;
            (self.wrong_of(*peer, now), *of_peer, Reverse(at))
        };
        self.waiting.iter().enumerate().map(turn).collect()
    }

    fn wrong_of(&self, peer: IpAddr, now: Instant) -> u32 {
        let wrong = self.wrong.get(&peer);
        let wrong = wrong.filter(|wrong| wrong.is_counted(now));
        wrong.map_or(0, |wrong| wrong.count)
    }

    /// A right password clears the wrong ones of its address.
    pub fn was_right(&mut self, peer: IpAddr) {
        self.wrong.remove(&peer);
    }

    /// Counts a wrong password of an address.
    pub fn was_wrong(&mut self, peer: IpAddr, now: Instant) {
        if self.wrong.len() >= MOST_COUNTED && !self.wrong.contains_key(&peer) {
            self.wrong.retain(|_, wrong| wrong.is_counted(now));
            if self.wrong.len() >= MOST_COUNTED {
                let oldest = self.wrong.iter().min_by_key(|(_, wrong)| wrong.last);
                let oldest = oldest.map(|(peer, _)| *peer);
                oldest.and_then(|peer| self.wrong.remove(&peer));
            }
        }
        let count = self.wrong_of(peer, now).saturating_add(1);
        self.wrong.insert(peer, Wrong { count, last: now });
    }
}

impl Wrong {
    fn is_counted(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.last) < COUNTED_FOR
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(n: u16) -> IpAddr {
        let [high, low] = n.to_be_bytes();
        IpAddr::from([10, 0, high, low])
    }

    fn push(queue: &mut PasswordQueue<u16>, of: u16, now: Instant) -> Result<(), Full> {
        queue.push(peer(of), of, |_| true, now)
    }

    #[test]
    fn requests_of_addresses_with_wrong_passwords_are_checked_later() {
        let (mut queue, now) = (PasswordQueue::default(), Instant::now());
        queue.was_wrong(peer(1), now);
        queue.was_wrong(peer(1), now);
        queue.was_wrong(peer(2), now);
        for of in [1, 1, 2, 2, 3, 3, 3, 4] {
            push(&mut queue, of, now).unwrap();
        }
        let mut order = Vec::new();
        while let Some((from, of)) = queue.next(now) {
            order.push(of);
            queue.was_wrong(from, now);
        }
        assert_eq!(order, [4, 3, 3, 2, 3, 2, 1, 1]);
        // Wrong passwords no longer count after a while, or after a right one.
        for (time, first, second) in [(now, 4, 1), (now + COUNTED_FOR, 1, 4)] {
            for of in [4, 1] {
                push(&mut queue, of, now).unwrap();
            }
            assert_eq!(queue.next(time).unwrap().1, first);
            assert_eq!(queue.next(time).unwrap().1, second);
        }
        push(&mut queue, 4, now).unwrap();
        queue.was_right(peer(1));
        push(&mut queue, 1, now).unwrap();
        assert_eq!(queue.next(now).unwrap().1, 1);
    }

    #[test]
    fn a_full_queue_drops_the_request_that_would_be_checked_last() {
        let (mut queue, now) = (PasswordQueue::default(), Instant::now());
        for of in 0..MOST as u16 / 4 {
            queue.was_wrong(peer(of), now);
            for _ in 0..4 {
                push(&mut queue, of, now).unwrap();
            }
            assert_eq!(push(&mut queue, of, now), Err(Full::Peer));
        }
        queue.was_wrong(peer(500), now);
        queue.was_wrong(peer(500), now);
        assert_eq!(
            push(&mut queue, 500, now),
            Err(Full::All),
            "its address has most wrong passwords"
        );
        for of in 100..100 + MOST as u16 {
            push(&mut queue, of, now).unwrap();
        }
        assert!(queue.waiting.iter().all(|(_, of)| *of >= 100));
        assert_eq!(
            push(&mut queue, 100, now),
            Err(Full::All),
            "its address already has a place, and all others have one"
        );
        let gone = |of: &u16| *of != 100;
        queue.push(peer(700), 700, gone, now).unwrap();
        assert_eq!(queue.waiting.len(), MOST);
    }

    /// Each guess comes from another address, so that none has a counted wrong password.
    #[test]
    fn a_first_password_is_checked_next_though_all_places_are_held_by_new_addresses() {
        let (mut queue, now) = (PasswordQueue::default(), Instant::now());
        for of in 0..90 {
            push(&mut queue, of, now).unwrap();
        }
        let waits: Vec<u16> = queue.waiting.iter().map(|(_, of)| *of).collect();
        let latest: Vec<u16> = (90 - MOST as u16..90).collect();
        assert_eq!(waits, latest, "the longest waiting were refused");
        push(&mut queue, 500, now).unwrap();
        assert_eq!(queue.waiting.len(), MOST);
        assert_eq!(queue.next(now).unwrap().1, 500);
        assert_eq!(queue.next(now).unwrap().1, 89);
    }

    #[test]
    fn the_number_of_counted_addresses_is_limited() {
        let (mut queue, now) = (PasswordQueue::<u16>::default(), Instant::now());
        for of in 0..=MOST_COUNTED as u16 {
            queue.was_wrong(peer(of), now + Duration::from_millis(of.into()));
        }
        assert_eq!(queue.wrong.len(), MOST_COUNTED);
        assert_eq!(queue.wrong_of(peer(0), now), 0, "the oldest is removed");
        assert_eq!(queue.wrong_of(peer(1), now), 1);
    }
}
