//! The text that Prometheus reads.

use std::borrow::Cow;
use std::fmt::{Arguments, Display, Write};

use crate::batches::Histogram;

/// What a family measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// What only ever grows.
    Counter,
    /// What goes up and down.
    Gauge,
    /// How often a value was how large.
    Histogram,
}

/// A family on its way into the text: first its head, then its series.
pub struct Family<'a> {
    text: &'a mut String,
    name: &'a str,
}

impl<'a> Family<'a> {
    /// Begins a family.
    pub fn begin(text: &'a mut String, name: &'a str, kind: Kind, help: &str) -> Self {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        let _ = writeln!(text, "\n# HELP {name} {help}\n# TYPE {name} {kind}");
        Self { text, name }
    }

    /// The only series of a family without labels.
    pub fn value(self, value: impl Display) {
        let _ = writeln!(self.text, "{} {value}", self.name);
    }

    /// The series of an interface's histogram.
    pub fn histogram(&mut self, interface: &str, histogram: &Histogram) {
        let (name, interface) = (self.name, escape(interface));
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

    /// A series of an interface; `labels` are those behind that of the
    /// interface, each with a comma before it.
    pub fn series(&mut self, interface: &str, labels: Arguments<'_>, value: impl Display) {
        let (name, interface) = (self.name, escape(interface));
        let _ = writeln!(
            self.text,
            "{name}{{interface=\"{interface}\"{labels}}} {value}"
        );
    }
}

/// The text as it stands between the quotes of a label.
pub fn escape(label: &str) -> Cow<'_, str> {
    if !label.contains(['\\', '"', '\n']) {
        return label.into();
    }
    let escaped = label
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n");
    escaped.into()
}
