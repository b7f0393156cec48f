//! Where passwords wait to be checked, and whose turn is next.
//!
//! An address has seats of its own, and its wrong passwords are held against it alone:
//! the next to be checked is one from the address with the fewest wrong ones lately, and
//! of each address one at a time. Where all seats are taken, whoever would have to wait
//! longest leaves. So those who guess wait for each other, and whoever comes with a
//! first password waits for one check and the rest after it at most, however many guess.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Passwords that may wait to be checked. Each holds a connection, of which there are a
/// few hundred.
const SEATS: usize = 64;
/// Of these for one address.
const SEATS_OF_PEER: usize = 4;
/// How long a wrong password is held against its address.
const HELD_AGAINST: Duration = Duration::from_secs(600);
/// Addresses whose wrong passwords are counted.
const MOST_COUNTED: usize = 4096;

/// All that wait. See the head of this module.
pub struct Seats<T> {
    /// In the order in which they came.
    taken: Vec<(IpAddr, T)>,
    wrong: HashMap<IpAddr, Wrong>,
}

/// Wrong passwords of an address.
#[derive(Clone, Copy)]
struct Wrong {
    count: u32,
    last: Instant,
}

/// Why there is no seat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// The address has all that it may have.
    Peer,
    /// All are taken by those who have more right to one.
    All,
}

impl<T> Default for Seats<T> {
    fn default() -> Self {
        Self {
            taken: Vec::new(),
            wrong: HashMap::new(),
        }
    }
}

impl<T> Seats<T> {
    /// Takes a seat, after those who are not `waiting` any more have left theirs. Whoever
    /// has to leave for it is dropped.
    pub fn take(
        &mut self,
        peer: IpAddr,
        password: T,
        waiting: impl Fn(&T) -> bool,
        now: Instant,
    ) -> Result<(), Full> {
        self.taken.retain(|(_, password)| waiting(password));
        let of_peer = self.taken.iter().filter(|(other, _)| *other == peer);
        if of_peer.count() >= SEATS_OF_PEER {
            return Err(Full::Peer);
        }
        self.taken.push((peer, password));
        if self.taken.len() <= SEATS {
            return Ok(());
        }
        let turns = self.turns(now);
        let last = (0..turns.len()).max_by_key(|at| turns[*at]);
        let last = last.unwrap_or(SEATS);
        self.taken.remove(last);
        match last == SEATS {
            true => Err(Full::All),
            false => Ok(()),
        }
    }

    /// The next to be checked leaves its seat.
    pub fn next(&mut self, now: Instant) -> Option<(IpAddr, T)> {
        let turns = self.turns(now);
        let first = (0..turns.len()).min_by_key(|at| turns[*at])?;
        Some(self.taken.remove(first))
    }

    /// What the order of turns goes by, for each that waits: wrong passwords of its
    /// address, how many of its address came before it, when it came.
    fn turns(&self, now: Instant) -> Vec<(u32, usize, usize)> {
        let mut before: HashMap<IpAddr, usize> = HashMap::new();
        let turn = |(at, (peer, _)): (usize, &(IpAddr, T))| {
            let of_peer = before.entry(*peer).or_default();
            *of_peer += 1;
            (self.wrong_of(*peer, now), *of_peer, at)
        };
        self.taken.iter().enumerate().map(turn).collect()
    }

    fn wrong_of(&self, peer: IpAddr, now: Instant) -> u32 {
        let wrong = self.wrong.get(&peer);
        let wrong = wrong.filter(|wrong| wrong.is_held_against(now));
        wrong.map_or(0, |wrong| wrong.count)
    }

    /// Notes that a password of this address was right, which makes up for wrong ones.
    pub fn was_right(&mut self, peer: IpAddr) {
        self.wrong.remove(&peer);
    }

    /// Notes that a password of this address was wrong.
    pub fn was_wrong(&mut self, peer: IpAddr, now: Instant) {
        if self.wrong.len() >= MOST_COUNTED && !self.wrong.contains_key(&peer) {
            self.wrong.retain(|_, wrong| wrong.is_held_against(now));
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
    fn is_held_against(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.last) < HELD_AGAINST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(n: u16) -> IpAddr {
        let [high, low] = n.to_be_bytes();
        IpAddr::from([10, 0, high, low])
    }

    fn take(seats: &mut Seats<u16>, of: u16, now: Instant) -> Result<(), Full> {
        seats.take(peer(of), of, |_| true, now)
    }

    #[test]
    fn whoever_guesses_waits_for_all_others() {
        let (mut seats, now) = (Seats::default(), Instant::now());
        seats.was_wrong(peer(1), now);
        seats.was_wrong(peer(1), now);
        seats.was_wrong(peer(2), now);
        for of in [1, 1, 2, 2, 3, 3, 3, 4] {
            take(&mut seats, of, now).unwrap();
        }
        let mut order = Vec::new();
        while let Some((from, of)) = seats.next(now) {
            order.push(of);
            seats.was_wrong(from, now);
        }
        assert_eq!(order, [3, 4, 2, 3, 1, 2, 3, 1]);
        // It is forgotten after a while, or after a right one.
        for of in [1, 4] {
            take(&mut seats, of, now).unwrap();
        }
        assert_eq!(seats.next(now).unwrap().1, 4);
        take(&mut seats, 4, now).unwrap();
        assert_eq!(seats.next(now + HELD_AGAINST).unwrap().1, 1);
        seats.was_right(peer(1));
        take(&mut seats, 1, now).unwrap();
        assert_eq!(seats.next(now).unwrap().1, 1);
    }

    #[test]
    fn where_all_is_taken_the_one_with_the_last_turn_leaves() {
        let (mut seats, now) = (Seats::default(), Instant::now());
        for of in 0..SEATS as u16 / 4 {
            seats.was_wrong(peer(of), now);
            for _ in 0..4 {
                take(&mut seats, of, now).unwrap();
            }
            assert_eq!(take(&mut seats, of, now), Err(Full::Peer));
        }
        seats.was_wrong(peer(500), now);
        seats.was_wrong(peer(500), now);
        assert_eq!(
            take(&mut seats, 500, now),
            Err(Full::All),
            "it guesses most"
        );
        for of in 100..100 + SEATS as u16 {
            take(&mut seats, of, now).unwrap();
        }
        assert_eq!(
            take(&mut seats, 700, now),
            Err(Full::All),
            "all are first ones"
        );
        assert!(seats.taken.iter().all(|(_, of)| *of >= 100));
        let gone = |of: &u16| *of != 100;
        seats.take(peer(700), 700, gone, now).unwrap();
        assert_eq!(seats.taken.len(), SEATS);
    }

    #[test]
    fn so_many_addresses_are_counted_and_no_more() {
        let (mut seats, now) = (Seats::<u16>::default(), Instant::now());
        for of in 0..=MOST_COUNTED as u16 {
            seats.was_wrong(peer(of), now + Duration::from_millis(of.into()));
        }
        assert_eq!(seats.wrong.len(), MOST_COUNTED);
        assert_eq!(seats.wrong_of(peer(0), now), 0, "the oldest");
        assert_eq!(seats.wrong_of(peer(1), now), 1);
    }
}
