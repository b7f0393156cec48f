//! What a scrape of 101 interfaces costs: written as text, as the agent does it, and through a
//! fresh recorder of `metrics-exporter-prometheus` that is filled, rendered and dropped.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]
// These metrics are not the agent's.
#![allow(clippy::disallowed_macros)]

use std::fmt::Write;
use std::time::{Duration, Instant};

use metrics::{Unit, describe_gauge, gauge};
use metrics_exporter_prometheus::PrometheusBuilder;

const INTERFACES: usize = 101;
const FAMILIES: usize = 10;
/// Rows of each interface and family, as of a list of heavy hitters.
const ROWS: usize = 10;
const ROUNDS: usize = 200;

/// All series: family, interface, source, destination, value.
fn series() -> impl Iterator<Item = (String, String, String, String, f64)> {
    (0..FAMILIES).flat_map(|family| {
        (0..INTERFACES * ROWS).map(move |n| {
            let (interface, row) = (n / ROWS, n % ROWS);
            (
                format!("crane_family_{family}_packets"),
                format!("veth{interface}"),
                format!("10.0.{interface}.{row}"),
                format!("192.168.{row}.{interface}"),
                (n * 1000) as f64,
            )
        })
    })
}

fn as_text() -> String {
    let mut text = String::new();
    let mut last = String::new();
    for (name, interface, src, dst, value) in series() {
        if name != last {
            writeln!(text, "\n# HELP {name} A family.\n# TYPE {name} gauge").unwrap();
            last.clone_from(&name);
        }
        let labels = format_args!("interface=\"{interface}\",src=\"{src}\",dst=\"{dst}\"");
        writeln!(text, "{name}{{{labels}}} {value}").unwrap();
    }
    text
}

fn by_recorder() -> String {
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    metrics::with_local_recorder(&recorder, || {
        for family in 0..FAMILIES {
            let name = format!("crane_family_{family}_packets");
            describe_gauge!(name, Unit::Count, "A family.");
        }
        for (name, interface, src, dst, value) in series() {
            gauge!(name, "interface" => interface, "src" => src, "dst" => dst).set(value);
        }
    });
    handle.render()
}

/// The median and the time below which 99 % are.
fn measure(make: fn() -> String) -> (usize, [Duration; 2]) {
    let mut times = Vec::new();
    let mut bytes = 0;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        bytes = make().len();
        times.push(start.elapsed());
    }
    times.sort_unstable();
    (bytes, [times[ROUNDS / 2], times[ROUNDS * 99 / 100]])
}

fn main() {
    // `cargo test --benches` only checks that this starts.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let count = INTERFACES * FAMILIES * ROWS;
    println!("{count} series, median and 99 % of {ROUNDS} scrapes");
    for (name, make) in [
        ("text", as_text as fn() -> String),
        ("fresh recorder", by_recorder),
    ] {
        let (bytes, [median, most]) = measure(make);
        println!(
            "{name:<16} {:>6.2} ms {:>6.2} ms, {} KiB",
            median.as_secs_f64() * 1e3,
            most.as_secs_f64() * 1e3,
            bytes >> 10
        );
    }
}
