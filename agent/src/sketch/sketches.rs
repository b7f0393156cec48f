//! The sketches of one window: who talks to whom, who sends, who receives, and
//! for what.

mod answers;
#[cfg(test)]
mod fan_tests;
mod lists;
mod notable;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use crane_model::crane::Inside;
use crane_model::device::OpenDevice;
use crane_model::name::{AnyName, Name, Narrow, Wide};
use crane_model::{Crane, Flow, Profile, Secret};

use super::batch::Batch;
use super::budget::Budget;
use super::fans::Fans;
use super::main_services::MainServices;
use super::sampling::Sampling;
use super::saved::parts::{put_part, take_part};
use super::weights;
use crate::config;
use crate::edge::{Pair, node_name, node_of_name};
use crate::service::Service;

/// How sketches are built, whatever their size. The device is opened and the
/// weights are put there once, for all of them.
pub struct Blueprint {
    device: OpenDevice,
    profile: Arc<Profile>,
    weights: String,
    secret: Secret,
}

/// Sketches of the same packets.
pub struct Sketches {
    sampling: Sampling,
    /// By source and destination.
    pub pairs: Crane,
    sources: Crane,
    destinations: Crane,
    /// By protocol and port.
    services: Crane,
    /// With how many others each node talks.
    fans: Fans,
    /// For what heavy pairs talk.
    main_services: MainServices,
    secret: Secret,
}

impl Blueprint {
    /// Sketches as `config` wants them, on a device that is opened for them.
    pub fn new(config: &config::Sketch, secret: Secret) -> anyhow::Result<Self> {
        Self::on(config.device.open()?, config, secret)
    }

    /// Sketches as another `config` wants them, on the same device: opening one again
    /// takes time, and memory there that the sketches in use still have.
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

    /// Empty sketches for the window numbered `window`.
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
            main_services: MainServices::new(budget.for_main_services()),
            secret: self.secret,
        })
    }

    /// The SHA-256 of the weights.
    pub fn weights(&self) -> &str {
        &self.weights
    }

    /// What names become ids by.
    pub fn secret(&self) -> &Secret {
        &self.secret
    }

    /// The least memory a sketch can live in.
    pub fn least(&self) -> usize {
        self.profile.least()
    }

    /// Where sketches run, for people.
    pub fn device_name(&self) -> &str {
        self.profile.device_name()
    }
}

impl Sketches {
    /// The sketches that count packets, and what they are of.
    fn cranes(&self) -> [(&'static str, &Crane); 4] {
        [
            ("pairs", &self.pairs),
            ("sources", &self.sources),
            ("destinations", &self.destinations),
            ("services", &self.services),
        ]
    }

    /// Bytes of all of it.
    pub fn memory_bytes(&self) -> usize {
        let cranes: usize = self
            .cranes()
            .map(|(_, crane)| crane.memory_bytes())
            .iter()
            .sum();
        cranes + self.fans.memory_bytes() + self.main_services.memory_bytes()
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

    /// What they look like inside.
    pub fn inside(&self) -> crane_model::Result<Vec<(&'static str, Inside)>> {
        let inside = |(name, crane): (_, &Crane)| Ok((name, crane.inside()?));
        self.cranes().into_iter().map(inside).collect()
    }

    /// All pairs that are known by name, among them the heaviest.
    pub fn named_pairs(&self) -> impl Iterator<Item = Flow<Pair>> {
        self.named(&self.pairs, Pair::of_name)
    }

    /// All senders that are known by name, among them the heaviest.
    pub fn named_sources(&self) -> impl Iterator<Item = Flow<IpAddr>> {
        self.named(&self.sources, node_of_name)
    }

    /// All receivers that are known by name, among them the heaviest.
    pub fn named_destinations(&self) -> impl Iterator<Item = Flow<IpAddr>> {
        self.named(&self.destinations, node_of_name)
    }

    /// All services that are known by name, among them the heaviest.
    pub fn named_services(&self) -> impl Iterator<Item = Flow<Service>> {
        let named = self.services.named::<Narrow>();
        let named = named.map(|flow| flow.rename(|[code]| Service::of_code(code as u32)));
        named.map(|flow| self.sampling.honest(flow))
    }

    /// For what most packets of these pairs are, as far as is known.
    pub fn main_services<'a>(
        &self,
        pairs: impl Iterator<Item = &'a Flow<Pair>>,
    ) -> BTreeMap<Pair, Service> {
        let main = |flow: &Flow<Pair>| {
            let id = match flow.key.name() {
                AnyName::Narrow(name) => self.secret.id(&name),
                AnyName::Wide(name) => self.secret.id(&name),
            };
            Some((flow.key, self.main_services.of(id)?))
        };
        pairs.filter_map(main).collect()
    }

    fn named<K>(&self, crane: &Crane, key: fn(AnyName) -> K) -> impl Iterator<Item = Flow<K>> {
        let narrow = crane.named::<Narrow>();
        let narrow = narrow.map(move |flow| flow.rename(|name| key(name.any())));
        let wide = crane.named::<Wide>();
        let wide = wide.map(move |flow| flow.rename(|name| key(name.any())));
        narrow.chain(wide).map(|flow| self.sampling.honest(flow))
    }

    /// Whether every pair and node is counted exactly.
    pub fn is_exact(&self) -> bool {
        let cranes = [&self.pairs, &self.sources, &self.destinations];
        !self.sampling.is_sampled() && cranes.into_iter().all(Crane::is_exact)
    }

    /// What is known of a pair.
    pub fn pair(&self, pair: Pair) -> crane_model::Result<Flow<Pair>> {
        self.flow(&self.pairs, pair.name(), pair)
    }

    /// What a node sends and receives.
    pub fn node(&self, node: IpAddr) -> crane_model::Result<[Flow<IpAddr>; 2]> {
        let name = node_name(node);
        Ok([
            self.flow(&self.sources, name, node)?,
            self.flow(&self.destinations, name, node)?,
        ])
    }

    fn flow<K>(&self, crane: &Crane, name: AnyName, key: K) -> crane_model::Result<Flow<K>> {
        let flow = match name {
            AnyName::Narrow(name) => crane.flow(name)?.rename(|_| key),
            AnyName::Wide(name) => crane.flow(name)?.rename(|_| key),
        };
        Ok(self.sampling.honest(flow))
    }

    /// All state, to be given to [`Self::load`] of sketches of the same window.
    pub fn save(&self) -> crane_model::Result<Vec<u8>> {
        let mut state = Vec::new();
        for (_, crane) in self.cranes() {
            put_part(&mut state, &crane.save_state()?);
        }
        for fan in self.fans.save() {
            put_part(&mut state, &fan);
        }
        put_part(&mut state, &self.main_services.save());
        Ok(state)
    }

    /// Continues from a saved state. One that does not fit leaves them in disorder.
    pub fn load(&mut self, mut state: &[u8]) -> crane_model::Result<()> {
        let fault = || crane_model::Error::State("it breaks off".into());
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
        let main = take_part(state).ok_or_else(fault)?;
        match self.main_services.load(main) && state.is_empty() {
            true => Ok(()),
            false => Err(crane_model::Error::State(
                "its main services are not possible".into(),
            )),
        }
    }

    /// What is left out of them.
    pub fn sampling(&self) -> &Sampling {
        &self.sampling
    }

    /// Packets that a sample left out.
    pub fn left_out(&self) -> u64 {
        self.sampling.left_out()
    }

    /// Stores a batch in all of them.
    pub fn store(&mut self, batch: &mut Batch) -> crane_model::Result<()> {
        let Batch { pairs, nodes } = batch;
        nodes.fold(&self.secret, pairs);
        self.fans.store(pairs, nodes);
        self.main_services.store(pairs);
        self.services.store(nodes.services())?;
        self.pairs.store(pairs.narrow.arrivals())?;
        self.pairs.store(pairs.wide.arrivals())?;
        self.sources.store(nodes.narrow.sources())?;
        self.sources.store(nodes.wide.sources())?;
        self.destinations.store(nodes.narrow.destinations())?;
        self.destinations.store(nodes.wide.destinations())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::size::Size;
    use crate::edge::Edge;
    use crate::sketch::slot::Slot;

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
                let mut sketches = blueprint
                    .build(&budget, 0, Sampling::new(1, Arc::default(), 0))
                    .unwrap();
                fill(&blueprint, &mut sketches, memory);
                let sources: Vec<_> = sketches.named_sources().collect();
                assert_eq!((sources.len(), sources[0].packets.estimate), (1, 40_000));
            }
        }
    }

    /// One source, 40,000 destinations.
    fn fill(blueprint: &Blueprint, sketches: &mut Sketches, memory: u64) {
        let mut batch = Batch::default();
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
            sketches.store(&mut batch).unwrap();
            let weight = sketches.memory_bytes() as u64;
            assert!(weight <= memory, "{weight} > {memory}");
        }
    }
}
