//! Who may use how much memory for sketches.
//!
//! Every interface has a current window and keeps the last one. The least that
//! their sketches can live in is set aside when an interface comes; all beyond is
//! taken out of the same pool when a sketch has outgrown what it has, and given back
//! when its window is dropped. So a busy interface has all it may have, and an idle
//! one the least. What was set aside is given back when the interface goes.

use std::sync::Arc;

use crane_model::fan;
use crane_model::{Allowance, Pool};

use super::main_services;
use crate::config::size::Size;
use crate::config::{self, ConfigError};

/// Sketches of a window: pairs, sources, destinations and services.
const SKETCHES: u64 = 4;
/// There are few services: they have one part in so many of a window at most.
const SERVICE_SHARE: u64 = 32;
/// And the main services of pairs this part.
const MAIN_SHARE: u64 = 128;
const LEAST_MAIN: u64 = main_services::LEAST as u64;
/// Beside them fan-out and fan-in, with at least this much each.
const FANS: u64 = 2;
const LEAST_FAN: u64 = fan::LEAST as u64;
/// Each of these has one part in so many of a window.
const FAN_SHARE: u64 = 16;

/// The memory of all interfaces that share it.
#[derive(Clone)]
pub struct Budget {
    pool: Arc<Pool>,
    /// What each sketch starts with.
    least: u64,
    /// What the sketches of one window may have.
    per_window: u64,
    node_percent: u64,
    /// What is set aside for an interface.
    set_aside: u64,
    /// What was set aside for this one.
    _seat: Option<Arc<Allowance>>,
}

impl Budget {
    /// The budget that `interfaces` interfaces share, with `windows` windows each, whose
    /// sketches cannot do with less than `least`.
    pub fn new(
        config: &config::Sketch,
        interfaces: usize,
        windows: u64,
        least: usize,
    ) -> Result<Self, ConfigError> {
        let (memory, total) = (config.memory, config.memory_total);
        let least = least as u64;
        let set_aside = windows * (SKETCHES * least + FANS * LEAST_FAN + LEAST_MAIN);
        if memory.0 < set_aside {
            return Err(ConfigError::new(
                format_args!("sketch.memory = {memory}"),
                format_args!(
                    "too little, an interface needs at least {}",
                    Size(set_aside)
                ),
            ));
        }
        let interfaces = interfaces.max(1) as u64;
        if total.0 < interfaces * set_aside {
            return Err(ConfigError::new(
                format_args!("sketch.memory_total = {total}"),
                format_args!(
                    "too little for {interfaces} interfaces, they need at least {}",
                    Size(set_aside * interfaces)
                ),
            ));
        }
        Ok(Self {
            pool: Pool::new(total.0 as usize),
            least,
            per_window: memory.0 / windows,
            node_percent: config.node_percent.into(),
            set_aside,
            _seat: None,
        })
    }

    /// The budget of one interface; none while others have all there is.
    pub fn admit(&self) -> Option<Self> {
        let mut seat = Allowance::new(0, self.set_aside as usize, &self.pool);
        let seat = seat.reach(self.set_aside as usize).then_some(seat)?;
        Some(Self {
            _seat: Some(Arc::new(seat)),
            ..self.clone()
        })
    }

    /// What a sketch of pairs may use.
    pub fn for_pairs(&self) -> Allowance {
        self.allowance(self.least, self.beyond() - 2 * self.nodes())
    }

    /// What a sketch of sources, or of destinations, may use.
    pub fn for_nodes(&self) -> Allowance {
        self.allowance(self.least, self.nodes())
    }

    /// What fan-out, or fan-in, may use. It takes what is set aside for it when
    /// it needs it, too.
    pub fn for_fan(&self) -> Allowance {
        self.allowance(LEAST_FAN, self.fan() - LEAST_FAN)
    }

    /// What a sketch of services may use.
    pub fn for_services(&self) -> Allowance {
        self.allowance(self.least, self.services() - self.least)
    }

    /// What the main services of pairs may use, taken like that of a fan.
    pub fn for_main_services(&self) -> Allowance {
        self.allowance(LEAST_MAIN, self.main_services() - LEAST_MAIN)
    }

    /// What sketches of pairs and nodes may have beyond what is set aside.
    fn beyond(&self) -> u64 {
        let small = FANS * self.fan() + self.services() + self.main_services();
        self.per_window - small - (SKETCHES - 1) * self.least
    }

    fn services(&self) -> u64 {
        (self.per_window / SERVICE_SHARE).max(self.least)
    }

    fn main_services(&self) -> u64 {
        (self.per_window / MAIN_SHARE).max(LEAST_MAIN)
    }

    fn fan(&self) -> u64 {
        (self.per_window / FAN_SHARE).max(LEAST_FAN)
    }

    fn nodes(&self) -> u64 {
        self.beyond() * self.node_percent / 100 / 2
    }

    fn allowance(&self, least: u64, beyond: u64) -> Allowance {
        let (least, beyond) = (least as usize, beyond as usize);
        Allowance::new(least, least + beyond, &self.pool)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: usize = 4096;
    const WINDOW: u64 = 4 * LEAST as u64 + 2 * LEAST_FAN + LEAST_MAIN;

    fn budget(memory: u64, total: u64, interfaces: usize) -> Result<Budget, ConfigError> {
        let config = config::Sketch {
            memory: Size(memory),
            memory_total: Size(total),
            ..Default::default()
        };
        Budget::new(&config, interfaces, 2, LEAST)
    }

    #[test]
    fn the_total_is_kept_and_what_is_given_back_can_be_had_again() {
        let budget = budget(40 * WINDOW, 60 * WINDOW, 4).unwrap();
        let seats = [(); 4].map(|()| budget.admit().unwrap());
        let window = || {
            [
                budget.for_pairs(),
                budget.for_nodes(),
                budget.for_nodes(),
                budget.for_services(),
                budget.for_main_services(),
                budget.for_fan(),
                budget.for_fan(),
            ]
        };
        let mut first = window();
        let taken: usize = first.iter_mut().map(Allowance::reach_most).sum();
        assert_eq!(
            taken as u64,
            20 * WINDOW,
            "half of what an interface may have"
        );
        let mut others = [window(), window(), window()];
        let others = others.as_flattened_mut().iter_mut();
        let taken: u64 = others.map(|a| a.reach_most() as u64).sum();
        assert_eq!(
            taken + 20 * WINDOW,
            60 * WINDOW - 4 * WINDOW,
            "all but the last windows'"
        );
        assert_eq!(budget.pool.free(), 0);
        assert!(
            budget.admit().is_none(),
            "there is nothing left for a fifth"
        );
        drop(first);
        assert_eq!(budget.pool.free() as u64, 19 * WINDOW);
        drop(seats);
        assert_eq!(budget.pool.free() as u64, 27 * WINDOW, "what was set aside");
    }

    #[test]
    fn the_default_is_enough_for_thousands_of_interfaces() {
        let config = config::Sketch::default();
        assert!(Budget::new(&config, 4000, 2, LEAST).is_ok());
    }

    #[test]
    fn impossible_budgets_are_refused() {
        for (memory, total, interfaces, says) in [
            (WINDOW, 64 * WINDOW, 1, "at least 58KiB"),
            (
                4 * WINDOW,
                4 * WINDOW,
                3,
                "3 interfaces, they need at least 174KiB",
            ),
        ] {
            let error = budget(memory, total, interfaces).err().unwrap().to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
