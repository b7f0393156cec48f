//! The watch list in metrics: for each pair the estimates of packets and bytes and the ends of
//! their intervals, six series per pair and interface.

use super::metrics::{RATE, Scraped};
use super::text::{Family, Kind};
use crate::window::estimate::Estimate;
use crate::window::list::Key;

/// Suffix of the name, text of the help, and value of a series.
type Row = (&'static str, &'static str, fn(&Estimate) -> u64);

const FAMILIES: [Row; 6] = [
    (
        "packets",
        "Packets of the pairs in the watch list in the window, estimated;",
        |of| of.packets,
    ),
    (
        "packets_low",
        "Lower end of the 90 % interval of crane_flow_estimate_packets;",
        |of| of.low,
    ),
    (
        "packets_high",
        "Upper end of the 90 % interval of crane_flow_estimate_packets;",
        |of| of.high,
    ),
    (
        "bytes",
        "Bytes of the pairs in the watch list in the window, estimated;",
        |of| of.bytes,
    ),
    (
        "bytes_low",
        "Lower end of the 90 % interval of crane_flow_estimate_bytes;",
        |of| of.bytes_low,
    ),
    (
        "bytes_high",
        "Upper end of the 90 % interval of crane_flow_estimate_bytes;",
        |of| of.bytes_high,
    ),
];

pub fn write(text: &mut String, scraped: &[Scraped]) {
    for (ending, help, value) in FAMILIES {
        let name = format!("crane_flow_estimate_{ending}");
        let help = format!("{help} {RATE}");
        let mut family = Family::begin(text, &name, Kind::Gauge, &help);
        for of in scraped {
            for row in &of.exported.watched {
                let labels = row.key.labels();
                family.series(&of.view.name, format_args!("{labels}"), value(&row.value));
            }
        }
    }
}
