//! The data of the page of a report: all of the report, and longer lists.

use std::io;

use serde::Serialize;

use super::{CaptureReport, Report};
use crate::sketches::details::states;
use crate::window::Window;

/// Least length of lists, for the graph.
pub const LISTED: usize = 200;
/// Above this number of windows only their totals are shown.
const LISTED_WINDOWS: usize = 400;

#[derive(Serialize)]
struct Data<'a> {
    version: &'static str,
    #[serde(flatten)]
    report: &'a Report,
}

impl CaptureReport {
    /// Adds the parts that only the page shows.
    pub fn for_page(mut self, window: &Window) -> crane_model::Result<Self> {
        self.sketch = Some(states(&window.sketches.details()?));
        if self.windows.len() > LISTED_WINDOWS {
            self.windows
                .iter_mut()
                .for_each(|window| window.top.clear());
        }
        Ok(self)
    }

    /// Shortens lists to `top` rows, for the report as text and JSON.
    pub fn shortened(mut self, top: usize) -> Self {
        self.sketch = None;
        self.lists.truncate(top);
        self
    }
}

impl Report {
    /// The data of the page, as JSON.
    pub fn page_data(&self) -> io::Result<String> {
        let version = env!("CARGO_PKG_VERSION");
        let data = Data {
            version,
            report: self,
        };
        Ok(serde_json::to_string(&data)?)
    }
}
