//! A report as CSV. If captures are divided into windows, the lines of a window are written when it
//! ends, so that no window has to be kept. Otherwise each capture has one window, whose lines are
//! written at its end.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::asked::AskedRow;
use super::{ReportOptions, seconds};
use crate::lines::answer::Ends;
use crate::lines::line::{Line, LineFormat};
use crate::lines::window::Of;
use crate::window::windows::OnTurn;
use crate::window::{Bounds, Window};

/// Writes the lines of windows to an output.
pub struct CsvReport {
    options: ReportOptions,
    out: Mutex<Output>,
    /// Set when a write fails, for example because the pipe was closed.
    stop: &'static AtomicBool,
}

struct Output {
    out: Box<dyn Write + Send>,
    failed: Option<io::Error>,
}

impl CsvReport {
    /// Begins a report. A failed write sets `stop`, which ends the replay.
    pub fn begin(
        out: impl Write + Send + 'static,
        options: ReportOptions,
        stop: &'static AtomicBool,
    ) -> Arc<Self> {
        let out = Mutex::new(Output {
            out: Box::new(out),
            failed: None,
        });
        let report = Self { options, out, stop };
        report.write(&LineFormat::Csv.head());
        Arc::new(report)
    }

    /// The function to call for each window that has ended.
    pub fn on_turn(self: &Arc<Self>) -> OnTurn {
        let report = Arc::clone(self);
        Arc::new(move |interface, window, _| {
            report.add(interface, window, None);
        })
    }

    /// Adds the lines of a window. `times` replaces the times of the window if given.
    pub fn add(&self, interface: &str, window: &Window, times: Option<Bounds>) {
        let mut state = window.state();
        if let Some(Bounds { start, end }) = times {
            state.time.start = Some(seconds(start));
            state.time.end = Some(seconds(end));
            state.time.seconds = seconds(end - start);
        }
        let of = Of {
            host: None,
            interface,
            complete: true,
            time: &state.time,
        };
        let lists = window.lists(self.options.top, None);
        let mut lines = of.lines(&state, &[&lists.by_packets, &lists.by_bytes]);
        let asked = AskedRow::rows(window, &self.options.ask, self.options.by);
        lines.extend(asked.iter().flat_map(|row| row.lines(&of)));
        self.write(&LineFormat::Csv.text(&lines));
    }

    fn out(&self) -> MutexGuard<'_, Output> {
        self.out.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, text: &str) {
        let mut output = self.out();
        if output.failed.is_none()
            && let Err(error) = output.out.write_all(text.as_bytes())
        {
            output.failed = Some(error);
            self.stop.store(true, Relaxed);
        }
    }

    /// Flushes the output. Returns the first error of a write, if there was one.
    pub fn finish(&self) -> io::Result<()> {
        let mut output = self.out();
        match output.failed.take() {
            Some(error) => Err(error),
            None => output.out.flush(),
        }
    }
}

impl AskedRow {
    fn lines(&self, of: &Of<'_>) -> Vec<Line> {
        match self {
            Self::Flow {
                src,
                dst,
                names,
                info,
                counts,
                back,
                service,
                services,
                ..
            } => {
                let ends = Ends {
                    src,
                    dst,
                    names,
                    info,
                    service: service.as_deref(),
                };
                let services = services.as_deref().unwrap_or_default();
                of.flow(&ends, counts, back.as_ref(), services)
            }
            Self::Node {
                ip,
                name,
                info,
                node,
            } => of.node(*ip, name.as_deref(), info, node),
        }
    }
}
