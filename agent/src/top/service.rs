//! A service with the pairs that have most of it, from one answer of the agent.

use anyhow::Context;

use super::node::{PAIRS, labelled};
use crate::http::answers::{self, InterfaceService, ServiceAnswer};
use crate::http::client::{self, Agent};
use crate::report;
use crate::text::table::Table;
use crate::text::units::Units;
use crate::traffic::question::By;
use crate::traffic::service::filter::ServiceFilter;
use crate::window::list::{Numbers, share};
use crate::window::services::ServiceEstimate;
use crate::window::state::WindowState;

/// A service, or several with one port or name.
#[derive(Debug)]
pub struct PairsOfService {
    pub filter: ServiceFilter,
    pub interface: String,
    /// The window at the moment of this answer.
    pub state: WindowState,
    /// Its traffic over all pairs, and the heaviest pairs.
    pub known: ServiceEstimate,
    /// The order of the pairs.
    pub by: By,
}

/// Asks about a service on one interface, or on the one with the most bytes of it.
pub fn ask(
    agent: &Agent,
    filter: &ServiceFilter,
    by: By,
    common: &[(&'static str, String)],
) -> anyhow::Result<PairsOfService> {
    let mut asked = vec![("service", filter.to_string()), ("by", by.name().into())];
    // For several interfaces an agent returns no long lists.
    if common.iter().any(|(name, _)| *name == "interface") {
        asked.push(("top", PAIRS.to_string()));
    }
    let answer: ServiceAnswer = client::get(agent, answers::SERVICE, &[common, &asked].concat())?;
    let size = |one: &InterfaceService| one.service.estimate.bytes;
    let of = answer.interfaces.into_iter().max_by_key(size);
    let of = of.context("no window is complete yet")?;
    Ok(PairsOfService {
        filter: filter.clone(),
        interface: of.interface,
        state: of.state,
        known: of.service,
        by,
    })
}

/// Its traffic over all pairs, in words.
pub fn in_words(service: &PairsOfService, units: Units) -> Vec<String> {
    let PairsOfService {
        known, state, by, ..
    } = service;
    let share = share(known.estimate.packets, state.packets);
    let lines = report::answer::lines(&known.estimate, Some(&share), units);
    let others = report::services::others(known, *by, units);
    labelled("in all", lines, [others])
}

/// The pairs that have most of it.
pub fn table(service: &PairsOfService, units: Units) -> Table {
    let known = &service.known;
    let numbers = Numbers {
        units,
        by: service.by,
        total: [known.estimate.packets, known.estimate.bytes],
        seconds: Some(service.state.seen_seconds()),
    };
    report::services::pairs_table(known, &numbers)
}
