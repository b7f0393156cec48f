//! Tests of saving and loading sketches, undamaged and damaged.

use std::net::Ipv4Addr;
use std::sync::Arc;

use crane_model::{Scratch, Secret};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::config::size::Size;
use crate::config::{self, Profile};
use crate::sketches::budget::Budget;
use crate::sketches::fans::Direction;
use crate::sketches::sampling::Sampling;
use crate::sketches::{Blueprint, Sketches};
use crate::traffic::batch::Batch;
use crate::traffic::edge::{Edge, Pair};
use crate::traffic::protocol::Protocol;
use crate::traffic::service::Service;
use crate::traffic::slot::Slot;

pub(super) const NODE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

pub(super) struct Made {
    blueprint: Blueprint,
    budget: Budget,
}

impl Made {
    fn new(profile: Profile) -> Self {
        let config = config::Sketch {
            profile,
            memory: Size(200 << 10),
            ..Default::default()
        };
        Self::of(&config, Secret::from_seed(1))
    }

    pub(super) fn of(config: &config::Sketch, secret: Secret) -> Self {
        let blueprint = Blueprint::new(config, secret).unwrap();
        let budget = Budget::new(config, 1, 2, blueprint.least()).unwrap();
        Self { blueprint, budget }
    }

    pub(super) fn empty(&self) -> Sketches {
        let sampling = Sampling::new(1, Arc::default(), 0);
        self.blueprint.build(&self.budget, 7, sampling).unwrap()
    }

    /// Stores packets of this number of pairs of IPv4 and IPv6 addresses.
    pub(super) fn fill(&self, sketches: &mut Sketches, pairs: u32) {
        let mut slots = Vec::new();
        for n in 0..pairs {
            let pair = match n % 3 {
                0 => Pair::V6(u128::from(n).into(), 1.into()),
                1 => Pair::V4(NODE, n.into()),
                _ => Pair::V4((n % 97).into(), (n / 5).into()),
            };
            let service = Service::between(Protocol::Tcp, (n % 700) as u16, u16::MAX);
            for _ in 0..1 + n % 4 {
                let edge = Edge {
                    name: pair.name(),
                    service,
                    bytes: 100,
                    time: 0,
                };
                Slot::write(&edge, &mut slots);
            }
        }
        let (mut batch, mut scratch) = (Batch::default(), Scratch::default());
        batch.fold(self.blueprint.secret(), &slots, 1);
        sketches.store(&mut batch, &mut scratch).unwrap();
    }
}

/// Answers of every kind as text, for comparison.
fn answers(sketches: &Sketches) -> String {
    let fans = sketches.largest_fans(10);
    let both = [Direction::Out, Direction::Into];
    let flows = both.map(|direction| sketches.address(NODE.into(), direction).unwrap());
    let peers = both.map(|direction| sketches.peers(NODE.into(), direction));
    let sources = sketches.heaviest_addresses(20, Direction::Out);
    let destinations = sketches.heaviest_addresses(20, Direction::Into);
    let pairs = sketches.heaviest_pairs(20);
    let main = pairs.union().map(|flow| sketches.main_service(&[flow.key]));
    let main: Vec<_> = main.collect();
    let lists = [
        format!("{:?} {:?}", pairs.by_packets, pairs.by_bytes),
        format!("{:?}", sources.by_packets),
        format!("{:?}", destinations.by_packets),
        format!("{:?}", sketches.heaviest_services(20).by_packets),
        format!("{peers:?} {main:?}"),
        format!(
            "{:?}",
            fans.out
                .nodes
                .iter()
                .map(|one| one.peers)
                .collect::<Vec<_>>()
        ),
        format!(
            "{:?}",
            fans.into
                .nodes
                .iter()
                .map(|one| one.peers)
                .collect::<Vec<_>>()
        ),
    ];
    format!("{flows:?} {lists:?} {}", sketches.is_exact())
}

#[test]
fn loaded_sketches_are_equal_to_the_saved_ones() {
    for profile in [Profile::Packed, Profile::Paper] {
        let made = Made::new(profile);
        for (pairs, exact) in [(0, true), (1, true), (60, true), (9000, false)] {
            let mut first = made.empty();
            made.fill(&mut first, pairs);
            assert_eq!(first.is_exact(), exact);
            let state = first.save().unwrap();
            let mut second = made.empty();
            second.load(&state).unwrap();
            assert!(second.save().unwrap() == state, "{profile:?} {pairs}");
            assert_eq!(answers(&second), answers(&first), "{profile:?} {pairs}");
            assert_eq!(second.memory_bytes(), first.memory_bytes());
            // Both also store further packets in the same way.
            for sketches in [&mut first, &mut second] {
                made.fill(sketches, 500);
            }
            assert_eq!(first.is_exact(), second.is_exact());
        }
    }
}

/// The checksum of the file is not checked here, as if someone had changed a file and corrected its
/// checksum. Answers may be wrong then, but nothing panics or uses too much memory.
#[test]
fn damaged_sketches_are_refused_or_answer_without_a_panic() {
    let made = Made::new(Profile::Packed);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(2);
    for pairs in [300, 9000] {
        let mut sketches = made.empty();
        made.fill(&mut sketches, pairs);
        let state = sketches.save().unwrap();
        for cut in (0..state.len()).filter(|cut| *cut < 600 || cut % 499 == 0) {
            assert!(made.empty().load(&state[..cut]).is_err(), "{cut} bytes");
        }
        let (mut refused, flips) = (0, 400);
        for _ in 0..flips {
            let mut damaged = state.clone();
            for _ in 0..random.random_range(1..4) {
                damaged[random.random_range(0..state.len())] ^= 1 << random.random_range(0..8);
            }
            let mut again = made.empty();
            if again.load(&damaged).is_err() {
                refused += 1;
                continue;
            }
            answers(&again);
            made.fill(&mut again, 50);
            answers(&again);
            assert!(again.memory_bytes() <= 100 << 10);
        }
        assert!(
            refused < flips,
            "changed counts in cells cannot be detected"
        );
    }
}
