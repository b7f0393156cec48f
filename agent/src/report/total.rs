//! The sum of all captures of a report.

use serde::Serialize;

use super::{CaptureReport, Span};
use crate::window::Bounds;

/// A packet that is in two files counts twice.
#[derive(Debug, Clone, Serialize)]
pub struct Total {
    pub captures: usize,
    #[serde(flatten)]
    pub span: Span,
    pub packets: u64,
    pub bytes: u64,
    pub edges: u64,
}

impl Total {
    /// The sum over all captures that could be read.
    pub fn of(captures: &[CaptureReport]) -> Self {
        let sum = |value: fn(&CaptureReport) -> u64| captures.iter().map(value).sum();
        let all = captures.iter().filter_map(|capture| capture.span.ends);
        let ends = all.reduce(|one, other| Bounds {
            start: one.start.min(other.start),
            end: one.end.max(other.end),
        });
        Self {
            captures: captures.iter().filter(|one| one.is_readable()).count(),
            span: Span::of(ends),
            packets: sum(|capture| capture.packets),
            bytes: sum(|capture| capture.bytes),
            edges: sum(|capture| capture.edges),
        }
    }
}
