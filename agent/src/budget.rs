//! Who may use how much memory for sketches.
//!
//! Every interface has a current window and keeps the last one. A new window
//! gets four times what the last one needed, within what one interface may have
//! and what the others leave; nobody ever gets less than the floor, because
//! that much is set aside for everyone.

use crate::config::{self, ConfigError};
use crate::size::Size;
use crate::sketches::FLOOR;

/// A window may need so much more than the last one.
const GROWTH: u64 = 4;

/// The memory of all interfaces that share it.
#[derive(Debug)]
pub struct Budget {
    total: u64,
    windows: u64,
    per_window: u64,
    reserved: u64,
}

impl Budget {
    /// The budget of `interfaces` interfaces with `windows` windows each.
    pub fn new(
        config: &config::Sketch,
        interfaces: usize,
        windows: u64,
    ) -> Result<Self, ConfigError> {
        let (memory, total) = (config.memory, config.memory_total);
        let least = windows * FLOOR;
        if memory.0 < least {
            return Err(ConfigError::new(
                format_args!("sketch.memory = {memory}"),
                format_args!("too little, an interface needs at least {}", Size(least)),
            ));
        }
        if total.0 / (interfaces.max(1) as u64) < least {
            return Err(ConfigError::new(
                format_args!("sketch.memory_total = {total}"),
                format_args!(
                    "too little for {interfaces} interfaces, they need at least {}",
                    Size(least * interfaces as u64)
                ),
            ));
        }
        Ok(Self {
            total: total.0,
            windows,
            per_window: memory.0 / windows,
            reserved: 0,
        })
    }

    /// What the first window of one of `interfaces` interfaces gets.
    pub fn first(&mut self, interfaces: usize) -> u64 {
        let fair = self.total / (interfaces.max(1) as u64) / self.windows;
        let grant = self.per_window.min(fair).max(FLOOR);
        self.reserved += grant + FLOOR;
        grant
    }

    /// What the next window gets after one of `current` bytes, of which
    /// `needed` were of use; the window before it, of `last`, is given back.
    pub fn next(&mut self, last: Option<u64>, current: u64, needed: u64) -> u64 {
        self.reserved -= current + last.unwrap_or(FLOOR);
        let free = self.total.saturating_sub(self.reserved + current);
        let want = (GROWTH * needed).min(self.per_window);
        let grant = want.min(free).max(FLOOR);
        self.reserved += grant + current;
        grant
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(memory: u64, total: u64, interfaces: usize) -> Result<Budget, ConfigError> {
        let config = config::Sketch {
            memory: Size(memory),
            memory_total: Size(total),
            ..Default::default()
        };
        Budget::new(&config, interfaces, 2)
    }

    #[test]
    fn the_total_is_kept_whatever_the_needs() {
        let total = 40 * FLOOR;
        let mut budget = budget(16 * FLOOR, total, 8).unwrap();
        let mut windows: Vec<(Option<u64>, u64)> =
            (0..8).map(|_| (None, budget.first(8))).collect();
        let mut state = 1u64;
        let mut largest = 0;
        for turn in 0..10_000 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let (last, current) = windows[turn % 8];
            let next = budget.next(last, current, (state >> 33) % (20 * FLOOR));
            assert!((FLOOR..=8 * FLOOR).contains(&next));
            largest = largest.max(next);
            windows[turn % 8] = (Some(current), next);
            let used: u64 = windows
                .iter()
                .map(|(last, current)| last.unwrap_or(0) + current)
                .sum();
            assert!(used <= total, "{used} of {total} in turn {turn}");
        }
        assert_eq!(largest, 8 * FLOOR, "who needs much gets it");
    }

    #[test]
    fn a_quiet_interface_gives_back() {
        let mut budget = budget(16 * FLOOR, 64 * FLOOR, 1).unwrap();
        let first = budget.first(1);
        assert_eq!(first, 8 * FLOOR);
        let second = budget.next(None, first, 10);
        assert_eq!(second, FLOOR);
        assert_eq!(budget.next(Some(first), second, 3 * FLOOR / 2), 6 * FLOOR);
    }

    #[test]
    fn impossible_budgets_are_refused() {
        for (memory, total, interfaces, says) in [
            (FLOOR, 64 * FLOOR, 1, "at least 128KiB"),
            (
                4 * FLOOR,
                4 * FLOOR,
                3,
                "3 interfaces, they need at least 384KiB",
            ),
        ] {
            let error = budget(memory, total, interfaces).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
