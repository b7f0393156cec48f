//! Notifies the service manager of readiness, status and watchdog signals.
//!
//! Without a service manager (no `NOTIFY_SOCKET`) nothing is sent. Errors of sending are
//! ignored, because the agent works without notifications.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use sd_notify::NotifyState;

use crate::text::units::Units;
use crate::traffic::tally::Tally;

/// Interval between two status messages.
const STATUS_EVERY: Duration = Duration::from_secs(5);
/// Watchdog signals per watchdog timeout.
const SIGNALS: u32 = 3;

/// Reports that the agent captures and serves metrics.
pub fn ready() {
    let _ = sd_notify::notify(&[NotifyState::Ready]);
}

/// Reports that the configuration is being reloaded, until [`ready`] is called.
pub fn reloading() {
    if let Ok(now) = NotifyState::monotonic_usec_now() {
        let _ = sd_notify::notify(&[NotifyState::Reloading, now]);
    }
}

/// Reports that the agent is about to end.
pub fn stopping() {
    let _ = sd_notify::notify(&[NotifyState::Stopping]);
}

/// The status line of `systemctl status`.
pub struct Status {
    /// Time of the last status message, and the number of packets at that time.
    before: (Instant, u64),
}

impl Status {
    pub fn new() -> Self {
        Self {
            before: (Instant::now(), 0),
        }
    }

    /// Sends the status, at most once every few seconds however often this is called.
    pub fn send<'a>(&mut self, tallies: impl Iterator<Item = &'a Tally>) {
        let (sent, before) = self.before;
        let passed = sent.elapsed();
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
        // The sum may decrease, because removed interfaces are no longer included.
        let rate = packets.saturating_sub(before) as f64 / passed.as_secs_f64();
        let rate = Units::Readable.packets_per_second(rate);
        let status = format!("{up} of {all} interfaces up, {rate}, {dropped} dropped since start");
        let _ = sd_notify::notify(&[NotifyState::Status(&status)]);
    }
}

/// Sends watchdog signals at the interval that the service manager expects.
///
/// The worker thread owns it. If another thread sent the signals, a worker that hangs would
/// not be noticed.
pub struct Watchdog {
    /// Interval of signals. `None` if the watchdog is off.
    every: Option<Duration>,
    /// Time of the last signal.
    fed: Option<Instant>,
}

impl Watchdog {
    /// Reads `WATCHDOG_USEC`.
    pub fn from_environment() -> Self {
        Self {
            every: sd_notify::watchdog_enabled().map(|limit| limit / SIGNALS),
            fed: None,
        }
    }

    /// Sends a signal if one is due.
    pub fn feed(&mut self) {
        let Some(every) = self.every else { return };
        if self.fed.is_none_or(|fed| fed.elapsed() >= every) {
            let _ = sd_notify::notify(&[NotifyState::Watchdog]);
            self.fed = Some(Instant::now());
        }
    }
}
