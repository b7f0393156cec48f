//! What the service manager is told: how it goes, and signs of life from the
//! thread that does the work.
//!
//! Nothing is sent where there is none (no `NOTIFY_SOCKET`), and a message that
//! cannot be sent is nobody's loss but the manager's.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use sd_notify::NotifyState;

use crate::tally::Tally;
use crate::units::Units;

/// How often a status is told.
const STATUS_EVERY: Duration = Duration::from_secs(5);
/// Signs of life in the time after which the manager takes us for dead.
const SIGNS: u32 = 3;

/// The agent captures, and a scrape finds it.
pub fn ready() {
    let _ = sd_notify::notify(&[NotifyState::Ready]);
}

/// The agent reads its configuration again, until it is [`ready`].
pub fn reloading() {
    if let Ok(now) = NotifyState::monotonic_usec_now() {
        let _ = sd_notify::notify(&[NotifyState::Reloading, now]);
    }
}

/// The agent is about to end.
pub fn stopping() {
    let _ = sd_notify::notify(&[NotifyState::Stopping]);
}

/// What `systemctl status` shows beside the state.
pub struct Status {
    /// When it was told last, and how many packets there were then.
    before: (Instant, u64),
}

impl Status {
    /// From now on.
    pub fn new() -> Self {
        Self {
            before: (Instant::now(), 0),
        }
    }

    /// Tells how it goes, every few seconds however often it is called.
    pub fn tell<'a>(&mut self, tallies: impl Iterator<Item = &'a Tally>) {
        let (told, before) = self.before;
        let passed = told.elapsed();
        if passed < STATUS_EVERY {
            return;
        }
        let (mut all, mut up, mut packets, mut dropped) = (0, 0, 0, 0);
        for tally in tallies {
            all += 1;
            up += u32::from(tally.up.load(Relaxed));
            packets += tally.packets.load(Relaxed);
            dropped += tally.dropped().iter().map(|(_, count)| count).sum::<u64>();
        }
        self.before = (Instant::now(), packets);
        // Interfaces that are gone take their packets with them.
        let rate = packets.saturating_sub(before) as f64 / passed.as_secs_f64();
        let rate = Units::Readable.packets_per_second(rate);
        let status = format!("{up} of {all} interfaces up, {rate}, {dropped} dropped since start");
        let _ = sd_notify::notify(&[NotifyState::Status(&status)]);
    }
}

/// Signs of life, as often as the service manager wants them.
///
/// It belongs to the one thread whose work nobody else can do: were it fed by
/// another, a worker that hangs would never be noticed.
pub struct Watchdog {
    /// None if nobody waits for signs.
    every: Option<Duration>,
    fed: Option<Instant>,
}

impl Watchdog {
    /// As the service manager asked for it (`WATCHDOG_USEC`).
    pub fn from_environment() -> Self {
        Self {
            every: sd_notify::watchdog_enabled().map(|limit| limit / SIGNS),
            fed: None,
        }
    }

    /// Gives a sign of life, if one is due.
    pub fn feed(&mut self) {
        let Some(every) = self.every else { return };
        if self.fed.is_none_or(|fed| fed.elapsed() >= every) {
            let _ = sd_notify::notify(&[NotifyState::Watchdog]);
            self.fed = Some(Instant::now());
        }
    }
}
