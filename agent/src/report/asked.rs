//! The answers to the questions of `--ask`.

use std::net::IpAddr;

use serde::Serialize;

use crate::lookup::AddressInfo;
use crate::traffic::endpoint::{Between, Endpoint};
use crate::traffic::names::{PairNames, name_of};
use crate::traffic::question::{By, Question};
use crate::traffic::service::Service;
use crate::traffic::service::filter::ServiceFilter;
use crate::window::Window;
use crate::window::answer::{Answer, NodeEstimate};
use crate::window::estimate::Estimate;
use crate::window::info::PairInfo;
use crate::window::list::Row;

#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub enum AskedRow {
    /// Traffic from one end to another.
    Flow {
        src: Endpoint,
        dst: Endpoint,
        #[serde(flatten)]
        names: PairNames,
        #[serde(flatten)]
        info: PairInfo,
        #[serde(flatten)]
        counts: Estimate,
        /// The other direction, if it was requested.
        #[serde(skip_serializing_if = "Option::is_none")]
        back: Option<Estimate>,
        /// The services that the question is about. `None` for all.
        #[serde(skip_serializing_if = "Option::is_none")]
        service: Option<String>,
        /// The known services of this traffic, in the order of the report.
        #[serde(skip_serializing_if = "Option::is_none")]
        services: Option<Vec<Row<Service>>>,
        /// The ends as they were asked for.
        #[serde(skip)]
        ends: Between,
    },
    /// Traffic of an address.
    Node {
        ip: IpAddr,
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        #[serde(flatten)]
        info: AddressInfo,
        #[serde(flatten)]
        node: NodeEstimate,
    },
}

impl AskedRow {
    /// The answers of a window to all questions, with services in this order.
    pub fn rows(window: &Window, asked: &[Question], by: By) -> Vec<Self> {
        let row = |question| Self::new(window, question, by);
        asked.iter().filter_map(row).collect()
    }

    fn new(window: &Window, question: &Question, by: By) -> Option<Self> {
        let names = window.names.as_deref();
        let shown = window.shown(None);
        match (question, window.answer(question, by).ok()?) {
            (Question::Flow { ends, service, .. }, Answer::Flow(flow)) => Some(Self::Flow {
                src: ends.src.clone(),
                dst: ends.dst.clone(),
                names: ends.names(names),
                info: shown.ends(ends),
                counts: flow.estimate,
                back: flow.back,
                service: service.as_ref().map(ServiceFilter::to_string),
                services: flow.services,
                ends: ends.clone(),
            }),
            (Question::Node(ip), Answer::Node(node)) => Some(Self::Node {
                ip: *ip,
                name: name_of(names, *ip),
                info: shown.info(*ip),
                node,
            }),
            _ => None,
        }
    }
}
