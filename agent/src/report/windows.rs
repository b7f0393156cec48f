//! The windows of a file in a report. Each is reported when it ends, so that no window has to be
//! kept.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver};

use serde::Serialize;

use super::asked::AskedRow;
use super::{ReportOptions, seconds};
use crate::traffic::tally::Tally;
use crate::window::Window;
use crate::window::keys::PairKey;
use crate::window::list::Row;
use crate::window::windows::OnTurn;

/// Later windows are not reported, to limit memory.
const MOST_WINDOWS: usize = 100_000;

/// A window that has ended.
#[derive(Debug, Clone, Serialize)]
pub struct WindowReport {
    /// `None` if packets have no time.
    pub start: Option<f64>,
    end: Option<f64>,
    pub seconds: f64,
    pub packets: u64,
    pub bytes: u64,
    /// The heaviest pairs.
    pub top: Vec<Row<PairKey>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    asked: Vec<AskedRow>,
}

impl WindowReport {
    fn new(window: &Window, options: &ReportOptions) -> Self {
        let (start, end) = window.times();
        Self {
            start: start.map(seconds),
            end: end.map(seconds),
            seconds: window.seconds(),
            packets: window.packets,
            bytes: window.bytes,
            top: window.heaviest_pairs(options.top, options.by),
            asked: AskedRow::rows(window, &options.ask, options.by),
        }
    }
}

/// Reports on windows, by interface.
pub struct WindowReports {
    receiver: Receiver<(String, WindowReport)>,
    found: HashMap<String, Vec<WindowReport>>,
}

impl WindowReports {
    /// The collector, and the function to call for each window.
    pub fn new(options: ReportOptions) -> (Self, OnTurn) {
        let (sender, receiver) = mpsc::channel();
        let count = AtomicUsize::new(0);
        let on_turn = move |interface: &str, window: &Arc<Window>, _: &Arc<Tally>| {
            match count.fetch_add(1, Relaxed) {
                0..MOST_WINDOWS => {
                    let report = WindowReport::new(window, &options);
                    // The receiver may have been dropped.
                    let _ = sender.send((interface.to_owned(), report));
                }
                MOST_WINDOWS => {
                    tracing::warn!(interface, "the report ends after {MOST_WINDOWS} windows");
                }
                _ => {}
            }
        };
        let reports = Self {
            receiver,
            found: HashMap::new(),
        };
        (reports, Arc::new(on_turn))
    }

    /// Takes the reports of an interface that has ended.
    pub fn take(&mut self, interface: &str) -> Vec<WindowReport> {
        for (interface, report) in self.receiver.try_iter() {
            self.found.entry(interface).or_default().push(report);
        }
        self.found.remove(interface).unwrap_or_default()
    }
}
