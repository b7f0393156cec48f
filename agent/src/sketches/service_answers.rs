//! Traffic of services of a pair, of an address and of networks. Guaranteed bounds follow from
//! the services of pairs, from the sketch of services, and from the traffic of all services
//! together.

use std::cmp::Reverse;
use std::collections::HashMap;

use crane_model::name::{AnyName, Name, Narrow, Wide};
use crane_model::table::Total;
use crane_model::{Amount, Flow};

use super::Sketches;
use super::hitters::{Hitters, Unnamed};
use super::pair_services::Record;
use super::service_split::{self, Split, limited, minus, plus};
use crate::traffic::edge::Pair;
use crate::traffic::endpoint::{Between, Endpoint, KnownNetworks};
use crate::traffic::question::By;
use crate::traffic::service::Service;
use crate::traffic::service::filter::ServiceFilter;

/// Traffic that was counted for services.
#[derive(Default)]
pub(super) struct Counted(HashMap<Service, Total>);

impl Counted {
    fn add(&mut self, service: Service, total: Total) {
        let sum = self.0.entry(service).or_default();
        *sum = plus(*sum, total);
    }

    pub fn of_one(&self, service: Service) -> Total {
        self.0.get(&service).copied().unwrap_or_default()
    }

    fn of(&self, filter: &ServiceFilter) -> Total {
        let matching = self
            .0
            .iter()
            .filter(|(service, _)| filter.matches(**service));
        matching.fold(Total::default(), |sum, (_, total)| plus(sum, *total))
    }

    fn all(&self) -> Total {
        self.0
            .values()
            .fold(Total::default(), |sum, total| plus(sum, *total))
    }
}

/// The pairs that a question is about, with their recorded services.
struct Selection {
    pairs: Vec<(Flow<Pair>, Record)>,
    /// Whether these are all pairs that the question is about.
    complete: bool,
    /// Traffic of all pairs that the question is about, of any service.
    flow: Flow<()>,
}

impl Sketches {
    /// Traffic of these services from one end to another.
    pub fn between_for(
        &self,
        ends: &Between,
        filter: &ServiceFilter,
        known: &KnownNetworks<'_>,
    ) -> crane_model::Result<Flow<()>> {
        let counted = self.counted_services();
        let flow = match (&ends.src, &ends.dst) {
            (Endpoint::Any, Endpoint::Any) => self.service_total(filter, &counted)?,
            _ => self.services_of(&self.selection(ends, known)?, filter, &counted)?,
        };
        Ok(self.sampling.widened(flow))
    }

    /// The known services of traffic from one end to another, at most `top`, in this order.
    pub fn services_between(
        &self,
        ends: &Between,
        known: &KnownNetworks<'_>,
        top: usize,
        by: By,
    ) -> crane_model::Result<Vec<Flow<Service>>> {
        let counted = self.counted_services();
        let selection = self.selection(ends, known)?;
        let mut services = Counted::default();
        for service in selection
            .pairs
            .iter()
            .flat_map(|(_, record)| record.services())
        {
            services.add(service.service, service_split::counted(service));
        }
        let mut services: Vec<(Service, Total)> = services.0.into_iter().collect();
        let size = |[packets, bytes]: [u64; 2]| match by {
            By::Packets => Reverse(packets),
            By::Bytes => Reverse(bytes),
        };
        services.sort_unstable_by_key(|(service, total)| {
            (size([total.packets, total.bytes]), *service)
        });
        services.truncate(top);
        let is_all = matches!((&ends.src, &ends.dst), (Endpoint::Any, Endpoint::Any));
        let row = |(service, _): (Service, Total)| {
            let filter = ServiceFilter::one(service);
            let own = match is_all {
                true => self.service_total(&filter, &counted)?,
                false => self.services_of(&selection, &filter, &counted)?,
            };
            Ok(self.sampling.widened(own.rename(|()| service)))
        };
        let mut rows = services
            .into_iter()
            .map(row)
            .collect::<crane_model::Result<Vec<_>>>()?;
        rows.sort_by_key(|row| (size([row.packets.estimate, row.bytes.estimate]), row.key));
        Ok(rows)
    }

    /// The `top` pairs that had most of these services, of those that are known by name.
    pub fn heaviest_pairs_for(
        &self,
        filter: &ServiceFilter,
        top: usize,
    ) -> crane_model::Result<Hitters<Pair>> {
        let counted = self.counted_services();
        let total = self.service_total(filter, &counted)?;
        let share = self.share_of_rest(&total, filter, &counted);
        let all = counted.of(filter);
        let of_services = |pair: &Flow<Pair>, record: &Record| {
            let split = Split::new(record, filter);
            let own = limited(split.of(pair, share), &total, minus(all, split.matched));
            self.sampling.widened(own.rename(|()| pair.key))
        };
        let (mut flows, mut others) = (Vec::new(), Total::default());
        for (pair, record) in self.recorded_pairs(|_| true) {
            let flow = of_services(&pair, &record);
            if flow.packets.estimate > 0 {
                flows.push(flow);
            } else {
                others.packets = others.packets.max(self.sampling.most_of(&flow.packets));
                others.bytes = others.bytes.max(self.sampling.most_of(&flow.bytes));
            }
        }
        let unnamed = match self.pairs.is_exact() {
            true => Unnamed::none(&self.sampling),
            false => self.unnamed_pairs(),
        };
        let each = |offer: &mut dyn FnMut(_)| flows.into_iter().for_each(offer);
        // The same numbers as in the answer about a pair, which is limited by its ends.
        let correct = |flows: &mut [Flow<Pair>]| {
            for flow in flows {
                if let Ok(pair) = self.stored_pair(flow.key) {
                    *flow = of_services(&pair, &self.pair_services.of(&flow.key.name()));
                }
            }
        };
        let unnamed = unnamed.or(others);
        Ok(Hitters::of(top, unnamed, &self.sampling, each, correct))
    }

    /// Traffic of these services in a selection.
    fn services_of(
        &self,
        selection: &Selection,
        filter: &ServiceFilter,
        counted: &Counted,
    ) -> crane_model::Result<Flow<()>> {
        let total = self.service_total(filter, counted)?;
        let share = self.share_of_rest(&total, filter, counted);
        let mut sum = Split::default();
        let mut parts = Flow {
            key: (),
            packets: Amount::exact(0),
            bytes: Amount::exact(0),
        };
        for (pair, record) in &selection.pairs {
            let split = Split::new(record, filter);
            parts = parts.plus(split.of(pair, share));
            sum.add(&split);
        }
        let own = match selection.complete {
            true => parts,
            false => sum.of(&selection.flow, share),
        };
        let others = minus(counted.of(filter), sum.matched);
        Ok(limited(own, &total, others))
    }

    fn selection(
        &self,
        ends: &Between,
        known: &KnownNetworks<'_>,
    ) -> crane_model::Result<Selection> {
        if let Some(pair) = ends.pair() {
            let flow = self.stored_pair(pair)?;
            return Ok(Selection {
                pairs: vec![(flow, self.pair_services.of(&pair.name()))],
                complete: true,
                flow: flow.rename(|_| ()),
            });
        }
        let matches = ends.pairs(known);
        Ok(Selection {
            pairs: self.recorded_pairs(matches).collect(),
            complete: self.pairs.is_exact(),
            flow: self.stored_between(ends, known)?,
        })
    }

    /// Matching pairs that are known by name, not widened for sampling, with their recorded
    /// services.
    fn recorded_pairs(
        &self,
        matches: impl Fn(Pair) -> bool,
    ) -> impl Iterator<Item = (Flow<Pair>, Record)> {
        let narrow = self.pairs.named::<Narrow>();
        let narrow = narrow.map(|flow| flow.rename(|name| name.any()));
        let wide = self
            .pairs
            .named::<Wide>()
            .map(|flow| flow.rename(|name| name.any()));
        narrow.chain(wide).filter_map(move |flow| {
            let pair = Pair::of_name(flow.key);
            matches(pair).then(|| (flow.rename(|_| pair), self.pair_services.of(&flow.key)))
        })
    }

    /// Traffic that was counted for each service, over all pairs.
    pub(super) fn counted_services(&self) -> Counted {
        let mut all = Counted::default();
        for (_, known) in self.pair_services.entries() {
            all.add(known.service, service_split::counted(&known));
        }
        all
    }

    /// Traffic of these services over all pairs, not widened for sampling.
    fn service_total(
        &self,
        filter: &ServiceFilter,
        counted: &Counted,
    ) -> crane_model::Result<Flow<()>> {
        let flow = match filter.services() {
            Some(services) => {
                let names: Vec<Narrow> = services.iter().map(|one| [one.code().into()]).collect();
                let flows = self.services.flows(&names)?.into_iter();
                let flows = flows.map(|flow| flow.rename(|_| ()));
                flows.reduce(Flow::plus).unwrap_or(Flow {
                    key: (),
                    packets: Amount::exact(0),
                    bytes: Amount::exact(0),
                })
            }
            None => self.services.sum(&|name| match name {
                AnyName::Narrow([code]) => filter.matches(Service::of_code(code as u32)),
                AnyName::Wide(_) => false,
            }),
        };
        Ok(at_least_counted(flow, counted.of(filter)))
    }

    /// Estimate of the share of these services among the packets whose service was not counted.
    fn share_of_rest(&self, total: &Flow<()>, filter: &ServiceFilter, counted: &Counted) -> f64 {
        let rest = total
            .packets
            .estimate
            .saturating_sub(counted.of(filter).packets);
        let all = self.pairs.total().packets.estimate;
        let all = all.saturating_sub(counted.all().packets);
        (rest as f64 / all.max(1) as f64).min(1.0)
    }
}

/// Raises the bounds of a flow to what was counted for pairs.
pub(super) fn at_least_counted<K>(flow: Flow<K>, counted: Total) -> Flow<K> {
    let raised = |amount: Amount, counted: u64| {
        let at_least = amount.at_least.map(|least| least.max(counted));
        let ends = (at_least, amount.at_most);
        Amount::within(ends, [amount.low, amount.estimate, amount.high])
    };
    Flow {
        key: flow.key,
        packets: raised(flow.packets, counted.packets),
        bytes: raised(flow.bytes, counted.bytes),
    }
}
