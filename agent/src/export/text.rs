//! The text exposition format of Prometheus.

use std::fmt::{Arguments, Display, Write};

use crate::text::plain::label;
use crate::traffic::batches::Histogram;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A number that only grows.
    Counter,
    Gauge,
    Histogram,
}

/// Writes a family of metrics: its head, then its series.
pub struct Family<'a> {
    text: &'a mut String,
    name: &'a str,
}

impl<'a> Family<'a> {
    /// Writes the head.
    pub fn begin(text: &'a mut String, name: &'a str, kind: Kind, help: &str) -> Self {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        let _ = writeln!(text, "\n# HELP {name} {help}\n# TYPE {name} {kind}");
        Self { text, name }
    }

    /// Writes the only series of a family without labels.
    pub fn value(self, value: impl Display) {
        let _ = writeln!(self.text, "{} {value}", self.name);
    }

    /// Writes the histogram of an interface.
    pub fn histogram(&mut self, interface: &str, histogram: &Histogram) {
        let (name, interface) = (self.name, label(interface));
        let Histogram {
            buckets,
            count,
            sum,
        } = histogram;
        let ends = buckets.iter().map(|(end, below)| (end.to_string(), below));
        for (end, below) in ends.chain([("+Inf".to_owned(), count)]) {
            let labels = format_args!("{{interface=\"{interface}\",le=\"{end}\"}}");
            let _ = writeln!(self.text, "{name}_bucket{labels} {below}");
        }
        let labels = format_args!("{{interface=\"{interface}\"}}");
        let _ = writeln!(
            self.text,
            "{name}_sum{labels} {sum}\n{name}_count{labels} {count}"
        );
    }

    /// Writes a series of an interface. `labels` are appended to the label `interface`, each with a
    /// leading comma.
    pub fn series(&mut self, interface: &str, labels: Arguments<'_>, value: impl Display) {
        let (name, interface) = (self.name, label(interface));
        let _ = writeln!(
            self.text,
            "{name}{{interface=\"{interface}\"{labels}}} {value}"
        );
    }
}
