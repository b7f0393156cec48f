//! Services in answers: those of a pair, of networks and of an address, and the pairs that a
//! service has.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::Window;
use super::estimate::Estimate;
use super::keys::PairKey;
use super::list::{List, Row};
use super::lists::in_order;
use crate::traffic::anonymise::Anonymiser;
use crate::traffic::endpoint::{Between, Endpoint};
use crate::traffic::question::By;
use crate::traffic::service::Service;
use crate::traffic::service::filter::ServiceFilter;

/// The most services of networks or of an address in an answer. A pair has three at most.
const LISTED: usize = 10;

/// The known services of an address, in the order asked for.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct NodeServices {
    /// Services of packets that it sent.
    pub sent: Vec<Row<Service>>,
    /// Services of packets that it received.
    pub received: Vec<Row<Service>>,
}

/// Traffic of one or more services, and the pairs that had most of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ServiceEstimate {
    /// Traffic of all pairs.
    pub estimate: Estimate,
    /// The heaviest pairs, of those that are known by name, without their main services.
    pub pairs: Vec<Row<PairKey>>,
    /// No other pair had more than this.
    pub others_at_most: Option<u64>,
    /// Whether heavier pairs may be missing.
    pub incomplete: bool,
}

impl Window {
    /// The known services of the traffic from one end to another, in this order.
    pub fn services(&self, ends: &Between, by: By) -> crane_model::Result<Vec<Row<Service>>> {
        let flows =
            self.with_networks(|known| self.sketches.services_between(ends, known, LISTED, by))?;
        let rows = flows
            .iter()
            .map(|flow| Row::new(flow.key, Estimate::from(flow)));
        Ok(rows.collect())
    }

    /// The known services of an address, in this order.
    pub fn node_services(&self, ip: IpAddr, by: By) -> crane_model::Result<NodeServices> {
        let (one, any) = (Endpoint::Address(ip), Endpoint::Any);
        let sent = Between { src: one, dst: any };
        Ok(NodeServices {
            received: self.services(&sent.reversed(), by)?,
            sent: self.services(&sent, by)?,
        })
    }

    /// Traffic of the services of a filter, and the `top` pairs that had most of it.
    pub fn service(
        &self,
        filter: &ServiceFilter,
        top: usize,
        by: By,
        anonymiser: Option<&Anonymiser>,
    ) -> crane_model::Result<ServiceEstimate> {
        let all = Between {
            src: Endpoint::Any,
            dst: Endpoint::Any,
        };
        let total = self.with_networks(|known| self.sketches.between_for(&all, filter, known))?;
        let pairs = self.sketches.heaviest_pairs_for(filter, top)?;
        let pairs = self.pair_lists(&pairs, &self.shown(anonymiser));
        let List {
            mut rows,
            others_at_most,
            incomplete,
        } = in_order(&pairs, by);
        // The numbers of a row are those of the filter, so its main service would contradict them.
        rows.iter_mut().for_each(|row| row.key.service = None);
        Ok(ServiceEstimate {
            estimate: (&total).into(),
            pairs: rows,
            others_at_most,
            incomplete,
        })
    }
}
