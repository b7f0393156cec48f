//! The main service of heavy pairs, in bounded memory: in each place of a small
//! table packets vote for their pair, and those of others against it. Whoever has
//! most of the packets that meet in a place has it, and among its own packets the
//! service is elected in the same way.

use crane_model::Allowance;

use super::batch::{FoldedPairs, Pairs};
use super::saved::parts::{put, take};
use crate::edge::Ends;
use crate::service::Service;

/// What the first pair is put into.
pub const LEAST: usize = 1 << 10;

/// Bytes of a saved place.
const SAVED: usize = 3 * 8;

fn join(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

#[derive(Debug, Clone, Copy, Default)]
struct Place {
    pair: u64,
    /// Votes for the pair; 0 for an empty place.
    held: u32,
    service: u32,
    /// Votes for the service.
    votes: u32,
}

/// The table. See the head of this file.
pub struct MainServices {
    places: Vec<Place>,
    taken: usize,
    /// Whether there is no more memory to be had.
    is_full_grown: bool,
    allowance: Allowance,
}

impl MainServices {
    /// An empty one that takes memory when it needs it.
    pub fn new(allowance: Allowance) -> Self {
        Self {
            places: Vec::new(),
            taken: 0,
            is_full_grown: false,
            allowance,
        }
    }

    /// Counts the votes of a batch.
    pub fn store(&mut self, pairs: &Pairs) {
        self.vote_all(&pairs.narrow);
        self.vote_all(&pairs.wide);
    }

    fn vote_all<N: Ends>(&mut self, pairs: &FoldedPairs<N>) {
        // In a crowd, one packet alone is not of a heavy pair.
        let least = 1 + u32::from(self.is_full_grown);
        for (pair, (service, votes)) in pairs.arrivals().iter().zip(pairs.main_services()) {
            if votes >= least {
                self.vote(pair.id, service, votes);
            }
        }
    }

    #[inline]
    fn vote(&mut self, pair: u64, service: Service, votes: u32) {
        // Crowded places are lost to those who meet there.
        if 2 * self.taken >= self.places.len() && !self.is_full_grown {
            self.grow();
        }
        let place = self.place_of(pair);
        let place = &mut self.places[place];
        self.taken += usize::from(place.held == 0);
        if place.pair == pair && place.held > 0 {
            place.held = place.held.saturating_add(votes);
            if place.service == service.code() {
                place.votes = place.votes.saturating_add(votes);
            } else if place.votes >= votes {
                place.votes -= votes;
            } else {
                (place.service, place.votes) = (service.code(), votes - place.votes);
            }
        } else if place.held > votes {
            place.held -= votes;
        } else {
            *place = Place {
                pair,
                // At least one: empty places have none.
                held: (votes - place.held).max(1),
                service: service.code(),
                votes,
            };
        }
    }

    /// One of two places: where it is, or else the weaker one.
    #[inline]
    fn place_of(&self, pair: u64) -> usize {
        let places = self.places.len() as u64;
        let at = |bits: u64| ((u64::from(bits as u32) * places) >> 32) as usize;
        let (one, other) = (at(pair), at(pair >> 32));
        let (first, second) = (&self.places[one], &self.places[other]);
        if first.pair != pair && (second.pair == pair || second.held < first.held) {
            other
        } else {
            one
        }
    }

    #[cold]
    fn grow(&mut self) {
        let most = self.allowance.most();
        let bytes = (2 * self.memory_bytes()).clamp(LEAST.min(most), most);
        let reached = self.allowance.reach(bytes);
        self.is_full_grown = bytes == most || !reached;
        if !reached {
            return;
        }
        let places = vec![Place::default(); bytes / size_of::<Place>()];
        let before = std::mem::replace(&mut self.places, places);
        self.taken = 0;
        for place in before.iter().filter(|place| place.held > 0) {
            let at = self.place_of(place.pair);
            self.taken += usize::from(self.places[at].held == 0);
            if self.places[at].held < place.held {
                self.places[at] = *place;
            }
        }
    }

    /// The service that the pair with this id uses most, as far as is known.
    pub fn of(&self, pair: u64) -> Option<Service> {
        if self.places.is_empty() {
            return None;
        }
        let place = &self.places[self.place_of(pair)];
        let known = place.pair == pair && place.held > 0;
        known.then(|| Service::of_code(place.service))
    }

    /// All state, to be given to [`Self::load`] of one with as much memory.
    pub fn save(&self) -> Vec<u8> {
        let mut state = Vec::with_capacity(8 + self.memory_bytes());
        put(&mut state, self.is_full_grown.into());
        for place in &self.places {
            put(&mut state, place.pair);
            put(&mut state, join(place.held, place.service));
            put(&mut state, place.votes.into());
        }
        state
    }

    /// Continues from a saved state; whether it can be one.
    pub fn load(&mut self, mut state: &[u8]) -> bool {
        let state = &mut state;
        let Some(is_full_grown) = take(state) else {
            return false;
        };
        let places = state.len() / SAVED;
        let bytes = places * size_of::<Place>();
        if !state.len().is_multiple_of(SAVED) || !self.allowance.reach(bytes) {
            return false;
        }
        let read = |_| {
            let (pair, rest, votes) = (take(state)?, take(state)?, take(state)?);
            Some(Place {
                pair,
                held: rest as u32,
                service: (rest >> 32) as u32,
                votes: u32::try_from(votes).ok()?,
            })
        };
        let Some(places) = (0..places).map(read).collect::<Option<Vec<_>>>() else {
            return false;
        };
        self.taken = places.iter().filter(|place| place.held > 0).count();
        // One without places has to grow first.
        self.is_full_grown = is_full_grown > 0 && !places.is_empty();
        self.places = places;
        true
    }

    /// What it weighs.
    pub fn memory_bytes(&self) -> usize {
        self.places.len() * size_of::<Place>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Protocol;
    use crane_model::Secret;

    fn service(port: u16) -> Service {
        Service::between(Protocol::Tcp, port, u16::MAX)
    }

    /// A hundred heavy pairs among a hundred thousand light ones.
    #[test]
    fn heavy_pairs_keep_theirs_in_a_crowd() {
        let secret = Secret::from_seed(1);
        let id = |pair: u64| secret.id(&[pair]);
        for (memory, known) in [(16 << 10, 95), (LEAST, 0)] {
            let mut main = MainServices::new(Allowance::alone(LEAST, memory));
            for round in 0..1000u64 {
                for pair in 0..100u64 {
                    let port = if round % 3 == 0 { 22 } else { pair as u16 };
                    main.vote(id(pair), service(port), 3);
                    main.vote(id(1000 + 100 * round + pair), service(80), 1);
                }
            }
            assert!(main.memory_bytes() <= memory);
            let right = |pair: &u64| match main.of(id(*pair)) {
                // Where heavy ones meet, they take turns.
                Some(_) if memory == LEAST => false,
                Some(found) => {
                    assert_eq!(found, service(*pair as u16), "of pair {pair}");
                    true
                }
                None => false,
            };
            let right = (0..100).filter(right).count();
            assert!(right >= known, "{right} in {memory} bytes");
            let state = main.save();
            let mut again = MainServices::new(Allowance::alone(LEAST, memory));
            assert!(again.load(&state) && again.save() == state);
            assert!((0..1000).all(|pair| again.of(id(pair)) == main.of(id(pair))));
            assert!(!again.load(&state[..state.len() - 1]) && !again.load(&[]));
            let mut small = MainServices::new(Allowance::alone(LEAST, LEAST));
            assert_eq!(small.load(&state), memory == LEAST);
        }
    }
}
