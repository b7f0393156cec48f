//! The sketches of one window: pairs, sources, destinations, services, fan-out and fan-in.

mod agree;
mod answers;
pub mod budget;
pub mod counts;
pub mod details;
mod ends;
pub mod fan_lists;
#[cfg(test)]
mod fan_tests;
pub mod fans;
pub mod hitters;
pub mod key;
mod lists;
mod notable;
pub mod pair_services;
pub mod parts;
pub mod sampling;
mod service_answers;
mod service_split;
#[cfg(test)]
mod service_tests;
pub mod storing;
pub mod weights;

use std::cmp::Reverse;
use std::sync::Arc;

use crane_model::crane::SketchDetails;
use crane_model::device::OpenDevice;
use crane_model::name::{AnyName, Name, Narrow, Wide};
use crane_model::{Crane, Flow, Profile, Secret};

use crate::config;
use crate::sketches::budget::Budget;
use crate::sketches::fans::Fans;
use crate::sketches::pair_services::{PairServices, Record};
use crate::sketches::parts::{put_part, take_part};
use crate::sketches::sampling::Sampling;
use crate::traffic::edge::Pair;
use crate::traffic::service::Service;

/// What sketches of any size are built from. The device is opened once, and the weights are copied
/// to it once.
pub struct Blueprint {
    device: OpenDevice,
    profile: Arc<Profile>,
    weights: String,
    secret: Secret,
}

/// The sketches of one window.
pub struct Sketches {
    sampling: Sampling,
    pub pairs: Crane,
    sources: Crane,
    destinations: Crane,
    services: Crane,
    /// Number of peers of each node.
    fans: Fans,
    /// Services of the pairs that are known by name.
    pair_services: PairServices,
    secret: Secret,
}

impl Blueprint {
    /// Opens the device and loads the weights.
    pub fn new(config: &config::Sketch, secret: Secret) -> anyhow::Result<Self> {
        Self::on(config.device.open()?, config, secret)
    }

    /// A blueprint for another configuration on the same device. Opening the device again would
    /// take time, and memory in addition to that of the sketches in use.
    pub fn rebuilt(&self, config: &config::Sketch) -> anyhow::Result<Self> {
        Self::on(self.device.clone(), config, self.secret)
    }

    fn on(device: OpenDevice, config: &config::Sketch, secret: Secret) -> anyhow::Result<Self> {
        let weights = config.weights.as_deref();
        let profile = match config.profile {
            config::Profile::Packed => Profile::packed(weights::load_packed(weights)?, &device),
            config::Profile::Paper => Profile::paper(weights::load(weights)?.into(), &device)?,
        };
        Ok(Self {
            device,
            profile: Arc::new(profile),
            weights: weights::checksum_of(config.profile, weights)?,
            secret,
        })
    }

    /// Empty sketches for the window with this number.
    pub fn build(
        &self,
        budget: &Budget,
        window: u64,
        sampling: Sampling,
    ) -> crane_model::Result<Sketches> {
        let crane = |allowance| Crane::new(&self.profile, self.secret, window, allowance);
        Ok(Sketches {
            sampling,
            pairs: crane(budget.for_pairs())?.with_sample(),
            sources: crane(budget.for_nodes())?,
            destinations: crane(budget.for_nodes())?,
            services: crane(budget.for_services())?,
            fans: Fans::new(budget, self.secret)?,
            pair_services: PairServices::new(self.secret, budget.for_pair_services()),
            secret: self.secret,
        })
    }

    /// The SHA-256 of the weights.
    pub fn weights(&self) -> &str {
        &self.weights
    }

    /// The secret from which ids are made.
    pub fn secret(&self) -> &Secret {
        &self.secret
    }

    /// The least memory of a sketch, in bytes.
    pub fn least(&self) -> usize {
        self.profile.least()
    }

    pub fn device_name(&self) -> &str {
        self.profile.device_name()
    }
}

impl Sketches {
    /// The sketches that count packets, with their names.
    fn cranes(&self) -> [(&'static str, &Crane); 4] {
        [
            ("pairs", &self.pairs),
            ("sources", &self.sources),
            ("destinations", &self.destinations),
            ("services", &self.services),
        ]
    }

    pub fn memory_bytes(&self) -> usize {
        let cranes: usize = self
            .cranes()
            .map(|(_, crane)| crane.memory_bytes())
            .iter()
            .sum();
        cranes + self.fans.memory_bytes() + self.pair_services.memory_bytes()
    }

    /// Whether counts may be too low because a cell is full.
    pub fn is_saturated(&self) -> crane_model::Result<bool> {
        for (_, crane) in self.cranes() {
            if crane.is_saturated()? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The inner state of each sketch.
    pub fn details(&self) -> crane_model::Result<Vec<(&'static str, SketchDetails)>> {
        let details = |(name, crane): (_, &Crane)| Ok((name, crane.details()?));
        self.cranes().into_iter().map(details).collect()
    }

    /// All pairs that are known by name, among them the heaviest.
    pub fn named_pairs(&self) -> impl Iterator<Item = Flow<Pair>> {
        self.named(&self.pairs, Pair::of_name)
    }

    /// All services that are known by name, among them the heaviest. Not widened for sampling.
    fn stored_services(&self) -> impl Iterator<Item = Flow<Service>> {
        let named = self.services.named::<Narrow>();
        named.map(|flow| flow.rename(|[code]| Service::of_code(code as u32)))
    }

    /// The service with most packets of these pairs, if any is known. Fragments, whose service is
    /// not known, are returned only if there is no other.
    pub fn main_service(&self, pairs: &[Pair]) -> Option<Service> {
        let mut sums: Vec<(Service, u64)> = Vec::new();
        let records = pairs.iter().map(|pair| self.pair_services.of(&pair.name()));
        for known in records.flat_map(Record::into_services) {
            match sums
                .iter_mut()
                .find(|(service, _)| *service == known.service)
            {
                Some((_, packets)) => *packets += known.packets,
                None => sums.push((known.service, known.packets)),
            }
        }
        let order = |(service, packets): &(Service, u64)| {
            (*service != Service::FRAGMENT, *packets, Reverse(*service))
        };
        sums.into_iter()
            .max_by_key(order)
            .map(|(service, _)| service)
    }

    fn named<K>(&self, crane: &Crane, key: fn(AnyName) -> K) -> impl Iterator<Item = Flow<K>> {
        let narrow = crane.named::<Narrow>();
        let narrow = narrow.map(move |flow| flow.rename(|name| key(name.any())));
        let wide = crane.named::<Wide>();
        let wide = wide.map(move |flow| flow.rename(|name| key(name.any())));
        narrow.chain(wide).map(|flow| self.sampling.widened(flow))
    }

    /// Whether every pair, and so every address, is counted exactly.
    pub fn is_exact(&self) -> bool {
        !self.sampling.is_sampled() && self.pairs.is_exact()
    }

    /// The traffic of a pair.
    pub fn pair(&self, pair: Pair) -> crane_model::Result<Flow<Pair>> {
        Ok(self.sampling.widened(self.stored_pair(pair)?))
    }

    /// The traffic of a pair by the sketch of pairs alone. This is faster than [`Self::pair`], for
    /// the choice among many pairs.
    pub fn rough_pair(&self, pair: Pair) -> crane_model::Result<Flow<Pair>> {
        Ok(self
            .sampling
            .widened(stored(&self.pairs, pair.name(), pair)?))
    }

    /// The stored traffic of a pair. Not widened for sampling.
    fn stored_pair(&self, pair: Pair) -> crane_model::Result<Flow<Pair>> {
        let mut flow = stored(&self.pairs, pair.name(), pair)?;
        self.correct_stored_pairs(std::slice::from_mut(&mut flow), |flow| flow);
        Ok(flow)
    }

    /// The state of all sketches, which [`Self::load`] of sketches of the same window can read.
    pub fn save(&self) -> crane_model::Result<Vec<u8>> {
        let mut state = Vec::new();
        for (_, crane) in self.cranes() {
            put_part(&mut state, &crane.save_state()?);
        }
        for fan in self.fans.save() {
            put_part(&mut state, &fan);
        }
        put_part(&mut state, &self.pair_services.save());
        Ok(state)
    }

    /// Continues from a saved state. After an error the sketches are inconsistent.
    pub fn load(&mut self, mut state: &[u8]) -> crane_model::Result<()> {
        let fault = || crane_model::Error::State("it is truncated".into());
        let state = &mut state;
        for crane in [
            &mut self.pairs,
            &mut self.sources,
            &mut self.destinations,
            &mut self.services,
        ] {
            crane.load_state(take_part(state).ok_or_else(fault)?)?;
        }
        let (out, into) = (take_part(state), take_part(state));
        let fans = out.zip(into).ok_or_else(fault)?;
        self.fans.load(fans.into())?;
        let services = take_part(state).ok_or_else(fault)?;
        match self.pair_services.load(services) && state.is_empty() {
            true => Ok(()),
            false => Err(crane_model::Error::State(
                "its services of pairs are invalid".into(),
            )),
        }
    }

    pub fn sampling(&self) -> &Sampling {
        &self.sampling
    }

    /// Ends the window: packets that are skipped from now on do not belong to it.
    pub fn freeze(&mut self) {
        self.sampling.freeze();
    }

    /// Number of packets of the window that were not sampled.
    pub fn unsampled(&self) -> u64 {
        self.sampling.unsampled()
    }
}

/// The answer of a sketch for a name.
fn stored<K>(crane: &Crane, name: AnyName, key: K) -> crane_model::Result<Flow<K>> {
    Ok(match name {
        AnyName::Narrow(name) => crane.flow(name)?.rename(|_| key),
        AnyName::Wide(name) => crane.flow(name)?.rename(|_| key),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crane_model::Scratch;

    use crate::config::size::Size;
    use crate::traffic::batch::Batch;
    use crate::traffic::edge::Edge;
    use crate::traffic::slot::Slot;

    fn config(profile: config::Profile, memory: u64) -> config::Sketch {
        config::Sketch {
            profile,
            memory: Size(memory),
            ..Default::default()
        }
    }

    #[test]
    fn sketches_keep_to_their_budget() {
        for profile in [config::Profile::Packed, config::Profile::Paper] {
            for memory in [96 << 10, 100_000, 512 << 10, 4 << 20] {
                let config = config(profile, memory);
                let blueprint = Blueprint::new(&config, Secret::from_seed(1)).unwrap();
                let budget = Budget::new(&config, 1, 1, blueprint.least()).unwrap();
                let mut sketches = blueprint.build(&budget, 0, Sampling::none()).unwrap();
                fill(&blueprint, &mut sketches, memory);
                let sources = sketches.heaviest_addresses(9, fans::Direction::Out);
                let sources = sources.by_packets.flows;
                assert_eq!((sources.len(), sources[0].packets.estimate), (1, 40_000));
            }
        }
    }

    /// All pairs fit into their sketch, destinations do not. So destinations are sums of pairs,
    /// which are exact.
    #[test]
    fn addresses_of_pairs_that_are_all_known_are_exact() {
        let config = config(config::Profile::Packed, 2 << 20);
        let blueprint = Blueprint::new(&config, Secret::from_seed(1)).unwrap();
        let budget = Budget::new(&config, 1, 2, blueprint.least()).unwrap();
        let mut sketches = blueprint.build(&budget, 0, Sampling::none()).unwrap();
        let (mut batch, mut scratch) = (Batch::default(), Scratch::default());
        for round in 0..3u32 {
            let mut slots = Vec::new();
            for n in 0..4000 {
                let destination = 0x0a00_0000 + round * 4000 + n;
                for _ in 0..=n % 3 {
                    let edge = Edge {
                        name: Pair::V4([192, 0, 2, 1].into(), destination.into()).name(),
                        service: Service::FRAGMENT,
                        bytes: 100,
                        time: 0,
                    };
                    Slot::write(&edge, &mut slots);
                }
            }
            batch.fold(blueprint.secret(), &slots, 1);
            sketches.store(&mut batch, &mut scratch).unwrap();
        }
        assert!(sketches.is_exact());
        let [destinations, _] = sketches.nodes(fans::Direction::Into);
        assert!(
            !destinations.is_exact(),
            "the sketch of destinations is too small"
        );
        for n in [0u32, 1, 2, 11_999] {
            let ip = std::net::Ipv4Addr::from(0x0a00_0000 + n).into();
            let received = sketches.address(ip, fans::Direction::Into).unwrap();
            let packets = u64::from(n % 4000 % 3 + 1);
            assert_eq!(received.packets, crane_model::Amount::exact(packets));
            assert_eq!(received.bytes, crane_model::Amount::exact(100 * packets));
        }
        let listed = sketches.heaviest_addresses(5000, fans::Direction::Into);
        let exact = |flow: &Flow<_>| flow.packets.is_exact() && flow.bytes.is_exact();
        assert!(listed.by_packets.flows.iter().all(exact));
        assert_eq!(listed.by_packets.others_at_most, 2);
    }

    /// Every packet belongs to another pair, and there are more pairs than fit, so all working
    /// memory is used.
    #[test]
    fn storing_takes_no_more_memory_than_is_reserved_for_it() {
        let config = config(config::Profile::Packed, 256 << 10);
        let blueprint = Blueprint::new(&config, Secret::from_seed(1)).unwrap();
        let budget = Budget::new(&config, 1, 1, blueprint.least()).unwrap();
        let mut sketches = blueprint.build(&budget, 0, Sampling::none()).unwrap();
        let (mut batch, mut scratch) = (Batch::default(), Scratch::default());
        let mut slots = Vec::new();
        let size = 4096;
        for round in 0..20u32 {
            slots.clear();
            let mut n = 0u32;
            while slots.len() < size {
                n += 1;
                let key = (round * 100_000 + n).wrapping_mul(2_654_435_761);
                let pair = match round % 2 {
                    0 => Pair::V4(key.into(), key.swap_bytes().into()),
                    _ => Pair::V6(u128::from(key).into(), (u128::from(key) << 64).into()),
                };
                let edge = Edge {
                    name: pair.name(),
                    service: Service::of_code(1 << 16 | key & 0xffff),
                    bytes: 100,
                    time: 0,
                };
                Slot::write(&edge, &mut slots);
            }
            batch.fold(blueprint.secret(), &slots, 1);
            sketches.store(&mut batch, &mut scratch).unwrap();
        }
        let working = batch.memory_bytes() + scratch.memory_bytes();
        let taken = working + slots.capacity() * size_of::<Slot>();
        let most = size * Batch::BYTES_PER_SLOT;
        assert!(taken <= most && 2 * taken > most, "{taken} of {most}");
    }

    /// One source, 40,000 destinations.
    fn fill(blueprint: &Blueprint, sketches: &mut Sketches, memory: u64) {
        let (mut batch, mut scratch) = (Batch::default(), Scratch::default());
        for round in 0..20u32 {
            let mut slots = Vec::new();
            for n in 0..2000 {
                let pair = Pair::V4([10, 0, 0, 1].into(), (round * 2000 + n).into());
                let edge = Edge {
                    name: pair.name(),
                    service: Service::FRAGMENT,
                    bytes: 100,
                    time: 0,
                };
                Slot::write(&edge, &mut slots);
            }
            batch.fold(blueprint.secret(), &slots, 1);
            sketches.store(&mut batch, &mut scratch).unwrap();
            let weight = sketches.memory_bytes() as u64;
            assert!(weight <= memory, "{weight} > {memory}");
        }
    }
}
