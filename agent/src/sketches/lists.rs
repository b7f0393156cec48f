//! Lists of the heaviest keys. If all pairs are known by name, addresses are exact sums of them.

use std::collections::HashSet;
use std::net::IpAddr;

use crane_model::Flow;
use crane_model::name::AnyName;

use super::ends;
use super::fans::Direction;
use super::hitters::{Hitters, Unnamed};
use super::service_answers::{Counted, at_least_counted};
use super::{Sketches, stored};
use crate::traffic::edge::{Pair, node_of_name};
use crate::traffic::service::Service;

impl Sketches {
    /// The `top` heaviest pairs.
    pub fn heaviest_pairs(&self, top: usize) -> Hitters<Pair> {
        let each = |offer: &mut dyn FnMut(_)| self.named_pairs().for_each(offer);
        Hitters::of(top, self.unnamed_pairs(), &self.sampling, each, |flows| {
            self.correct_pairs(flows)
        })
    }

    /// Bounds for pairs without a name.
    pub fn unnamed_pairs(&self) -> Unnamed {
        Unnamed::of(&self.pairs, &self.sampling)
    }

    /// The `top` heaviest pairs of an address, among those that are known by name.
    pub fn heaviest_pairs_with(&self, ip: IpAddr, top: usize) -> Hitters<Pair> {
        let is_end = |flow: &Flow<Pair>| flow.key.src() == ip || flow.key.dst() == ip;
        let each = |offer: &mut dyn FnMut(_)| self.named_pairs().filter(is_end).for_each(offer);
        Hitters::of(top, Unnamed::default(), &self.sampling, each, |flows| {
            self.correct_pairs(flows)
        })
    }

    /// The `top` heaviest senders, or receivers.
    pub fn heaviest_addresses(&self, top: usize, direction: Direction) -> Hitters<IpAddr> {
        if self.are_sums(direction) {
            let sums = ends::all(&self.pairs, direction).into_iter();
            let flows = sums.map(|sum| self.sampling.widened(sum.flow()));
            let each = |offer: &mut dyn FnMut(_)| flows.for_each(offer);
            return Hitters::of(
                top,
                Unnamed::none(&self.sampling),
                &self.sampling,
                each,
                |_| {},
            );
        }
        let [crane, _] = self.nodes(direction);
        let each = |offer: &mut dyn FnMut(_)| self.named(crane, node_of_name).for_each(offer);
        let unnamed = Unnamed::of(crane, &self.sampling);
        Hitters::of(top, unnamed, &self.sampling, each, |flows| {
            self.correct_addresses(flows, direction)
        })
    }

    /// Traffic that these addresses sent or received.
    pub fn addresses(&self, wanted: &[IpAddr], direction: Direction) -> Vec<Flow<IpAddr>> {
        if self.are_sums(direction) {
            let wanted: HashSet<&IpAddr> = wanted.iter().collect();
            let sums = ends::all(&self.pairs, direction).into_iter();
            let sums = sums.filter(|sum| wanted.contains(&sum.ip));
            return sums.map(|sum| self.sampling.widened(sum.flow())).collect();
        }
        let flow = |ip: &IpAddr| self.address(*ip, direction).ok();
        wanted.iter().filter_map(flow).collect()
    }

    /// The `top` heaviest services.
    pub fn heaviest_services(&self, top: usize) -> Hitters<Service> {
        let unnamed = Unnamed::of(&self.services, &self.sampling);
        // If services are counted exactly, the services of pairs add nothing.
        let counted = match self.services.is_exact() {
            true => Counted::default(),
            false => self.counted_services(),
        };
        let flows = self.stored_services().map(|flow| {
            let known = counted.of_one(flow.key);
            self.sampling.widened(at_least_counted(flow, known))
        });
        let each = |offer: &mut dyn FnMut(_)| flows.for_each(offer);
        Hitters::of(top, unnamed, &self.sampling, each, |_| {})
    }

    /// Traffic of a service, the same as in the list of services.
    pub fn service(&self, service: Service) -> crane_model::Result<Flow<Service>> {
        let name = AnyName::Narrow([service.code().into()]);
        let flow = stored(&self.services, name, service)?;
        let known = match self.services.is_exact() {
            true => Counted::default(),
            false => self.counted_services(),
        };
        let known = known.of_one(service);
        Ok(self.sampling.widened(at_least_counted(flow, known)))
    }

    /// Whether sums over pairs are more accurate than the sketch of addresses.
    pub(super) fn are_sums(&self, direction: Direction) -> bool {
        let [crane, _] = self.nodes(direction);
        self.pairs.is_exact() && !crane.is_exact()
    }

    /// The `top` heaviest AS: all packets from or to an address of it. `asn_of` returns the AS of an
    /// address. A packet between two addresses of the same AS counts once, a packet between two AS
    /// counts for both. The [sums](crane_model::Crane::sums) are exact while all pairs fit;
    /// afterwards they are the counts of heavy pairs and an estimate of the rest from a sample.
    pub fn heaviest_asns(
        &self,
        top: usize,
        asn_of: &dyn Fn(IpAddr) -> Option<u32>,
    ) -> Hitters<u32> {
        let asns = |name: AnyName| {
            let pair = Pair::of_name(name);
            [asn_of(pair.src()), asn_of(pair.dst())]
        };
        let (flows, rest) = self.pairs.sums(&asns);
        let unnamed = Unnamed::at_most(rest, self.sampling());
        let each = |offer: &mut dyn FnMut(_)| {
            for flow in flows {
                offer(self.sampling().widened(flow));
            }
        };
        let mut heaviest = Hitters::of(top, unnamed, self.sampling(), each, |_| {});
        // All of the rest may belong to one AS without a heavy pair.
        let Hitters {
            by_packets,
            by_bytes,
        } = &mut heaviest;
        let last = by_packets.flows.last();
        by_packets.incomplete = last.is_some_and(|flow| flow.packets.estimate < rest.packets);
        let last = by_bytes.flows.last();
        by_bytes.incomplete = last.is_some_and(|flow| flow.bytes.estimate < rest.bytes);
        heaviest
    }
}
