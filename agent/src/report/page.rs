//! What a page shows of captures: all that a report has, and longer lists.

use std::io;

use serde::Serialize;

use super::{CaptureReport, Report};
use crate::sketch::inside::states;
use crate::sketch::summary::Summary;

/// Lists are at least so long, for the graph.
pub const LISTED: usize = 200;
/// Of more windows than this only the totals are shown.
const LISTED_WINDOWS: usize = 400;

#[derive(Serialize)]
struct Data<'a> {
    version: &'static str,
    #[serde(flatten)]
    report: &'a Report,
}

impl CaptureReport {
    /// The same with what only the page shows.
    pub fn for_page(mut self, summary: &Summary) -> Self {
        self.sketch = Some(states(&summary.inside));
        if self.windows.len() > LISTED_WINDOWS {
            self.windows
                .iter_mut()
                .for_each(|window| window.top.clear());
        }
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
