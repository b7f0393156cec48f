//! The memory of sketches.
//!
//! Every interface has a current window and keeps the last one. The least memory of their sketches
//! is reserved when the interface is added. Sketches that grow take more from a common pool, and
//! return it when their window is dropped. So a busy interface can use all the memory that it may
//! have, and an idle one has only the reserved part. The reservation ends when the interface is
//! removed.

use std::sync::Arc;

use crane_model::fan;
use crane_model::{Allowance, Pool};

use super::pair_services;
use crate::config::size::Size;
use crate::config::{self, ConfigError};
use crate::traffic::batch::Batch;

/// Number of sketches that count packets in a window: pairs, sources, destinations and services.
const SKETCHES: u64 = 4;
/// The sketch of services has one part in this many of a window, because there are few services.
const SERVICE_SHARE: u64 = 32;
/// Percentage of the memory for pairs and nodes that services of pairs may use.
const PAIR_SERVICES_PERCENT: u64 = 42;
const LEAST_PAIR_SERVICES: u64 = pair_services::LEAST as u64;
/// Sketches of fan-out and fan-in, with at least `LEAST_FAN` bytes each.
const FANS: u64 = 2;
const LEAST_FAN: u64 = fan::LEAST as u64;
/// Each has one part in `FAN_SHARE` of a window, up to `USUAL_FAN` bytes, or one part in
/// `LARGE_FAN_SHARE` if that is more. More memory would slow down storing a flood and hardly
/// improve accuracy.
const FAN_SHARE: u64 = 16;
const USUAL_FAN: u64 = 64 << 10;
const LARGE_FAN_SHARE: u64 = 64;

/// Memory for storing batches, besides all sketches.
pub fn working_memory(config: &config::Sketch) -> u64 {
    (config.batch * Batch::BYTES_PER_SLOT) as u64
}

/// The memory of all interfaces that share it.
#[derive(Clone)]
pub struct Budget {
    pool: Arc<Pool>,
    /// Least memory of a sketch.
    least: u64,
    /// The largest memory of the sketches of one window.
    per_window: u64,
    node_percent: u64,
    /// Memory that is reserved for an interface.
    set_aside: u64,
    /// Holds the reservation of this interface.
    _reserved: Option<Arc<Allowance>>,
}

impl Budget {
    /// The budget of `interfaces` interfaces with `windows` windows each, whose sketches need at
    /// least `least`. The memory for storing batches is subtracted.
    pub fn shared(
        config: &config::Sketch,
        interfaces: usize,
        windows: u64,
        least: usize,
    ) -> Result<Self, ConfigError> {
        let (total, working) = (config.memory_total, working_memory(config));
        let left = total.0.saturating_sub(working);
        let needed = interfaces.max(1) as u64 * Self::set_aside(windows, least as u64);
        if left < needed {
            return Err(ConfigError::new(
                format_args!("sketch.memory_total = {total}"),
                format_args!(
                    "too little for {} interfaces, they need at least {}, of which storing \
                     batches takes {}",
                    interfaces.max(1),
                    Size(needed + working),
                    Size(working)
                ),
            ));
        }
        let config = config::Sketch {
            memory_total: Size(left),
            ..config.clone()
        };
        Self::new(&config, interfaces, windows, least)
    }

    fn set_aside(windows: u64, least: u64) -> u64 {
        windows * (SKETCHES * least + FANS * LEAST_FAN + LEAST_PAIR_SERVICES)
    }

    /// The same budget if all memory is for sketches.
    pub fn new(
        config: &config::Sketch,
        interfaces: usize,
        windows: u64,
        least: usize,
    ) -> Result<Self, ConfigError> {
        let (memory, total) = (config.memory, config.memory_total);
        let least = least as u64;
        let set_aside = Self::set_aside(windows, least);
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
            _reserved: None,
        })
    }

    /// Reserves the memory of one interface. `None` if there is not enough.
    pub fn admit(&self) -> Option<Self> {
        let mut reserved = Allowance::new(0, self.set_aside as usize, &self.pool);
        let reserved = reserved
            .reach(self.set_aside as usize)
            .then_some(reserved)?;
        Some(Self {
            _reserved: Some(Arc::new(reserved)),
            ..self.clone()
        })
    }

    pub fn for_pairs(&self) -> Allowance {
        self.allowance(self.least, self.beyond() - 2 * self.nodes())
    }

    /// Allowance of the sketch of sources, or of destinations.
    pub fn for_nodes(&self) -> Allowance {
        self.allowance(self.least, self.nodes())
    }

    /// Allowance of fan-out, or of fan-in. Even the least memory is taken only when it is needed.
    pub fn for_fan(&self) -> Allowance {
        self.allowance(LEAST_FAN, self.fan() - LEAST_FAN)
    }

    pub fn for_services(&self) -> Allowance {
        self.allowance(self.least, self.services() - self.least)
    }

    /// Allowance of the services of pairs. Even the least memory is taken only when it is needed.
    pub fn for_pair_services(&self) -> Allowance {
        self.allowance(LEAST_PAIR_SERVICES, self.pair_services())
    }

    /// Memory of pairs and nodes beyond the reserved part.
    fn beyond(&self) -> u64 {
        self.left() - self.pair_services()
    }

    /// Memory of sketches of pairs and nodes and of services of pairs, beyond the reserved part.
    fn left(&self) -> u64 {
        let small = FANS * self.fan() + self.services() + LEAST_PAIR_SERVICES;
        self.per_window - small - (SKETCHES - 1) * self.least
    }

    fn pair_services(&self) -> u64 {
        self.left() * PAIR_SERVICES_PERCENT / 100
    }

    fn services(&self) -> u64 {
        (self.per_window / SERVICE_SHARE).max(self.least)
    }

    fn fan(&self) -> u64 {
        let usual = (self.per_window / FAN_SHARE).min(USUAL_FAN);
        usual.max(self.per_window / LARGE_FAN_SHARE).max(LEAST_FAN)
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
    const WINDOW: u64 = 4 * LEAST as u64 + 2 * LEAST_FAN + LEAST_PAIR_SERVICES;

    fn budget(memory: u64, total: u64, interfaces: usize) -> Result<Budget, ConfigError> {
        let config = config::Sketch {
            memory: Size(memory),
            memory_total: Size(total),
            ..Default::default()
        };
        Budget::new(&config, interfaces, 2, LEAST)
    }

    #[test]
    fn the_total_is_not_exceeded_and_returned_memory_can_be_used_again() {
        let budget = budget(40 * WINDOW, 60 * WINDOW, 4).unwrap();
        let admitted = [(); 4].map(|()| budget.admit().unwrap());
        let window = || {
            [
                budget.for_pairs(),
                budget.for_nodes(),
                budget.for_nodes(),
                budget.for_services(),
                budget.for_pair_services(),
                budget.for_fan(),
                budget.for_fan(),
            ]
        };
        let mut first = window();
        let taken: usize = first.iter_mut().map(Allowance::reach_most).sum();
        assert_eq!(
            taken as u64,
            20 * WINDOW,
            "half of the memory of an interface"
        );
        let mut others = [window(), window(), window()];
        let others = others.as_flattened_mut().iter_mut();
        let taken: u64 = others.map(|a| a.reach_most() as u64).sum();
        assert_eq!(
            taken + 20 * WINDOW,
            60 * WINDOW - 4 * WINDOW,
            "all but what is reserved for the last windows"
        );
        assert_eq!(budget.pool.free(), 0);
        assert!(
            budget.admit().is_none(),
            "no memory is left for a fifth interface"
        );
        drop(first);
        assert_eq!(budget.pool.free() as u64, 19 * WINDOW);
        drop(admitted);
        assert_eq!(
            budget.pool.free() as u64,
            27 * WINDOW,
            "with the reserved memory"
        );
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
