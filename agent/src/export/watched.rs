//! The watch list in the metrics: of each pair the estimates of its packets and
//! bytes and the ends of their intervals, six series a pair and interface.

use crane_model::Flow;

use super::metrics::{Labels, RATE};
use super::snapshot::Snapshot;
use super::text::{Family, Kind};
use crate::edge::Pair;

/// How the name of a family ends, what its help says and the value of a series.
type Row = (&'static str, &'static str, fn(&Flow<Pair>) -> u64);

const FAMILIES: [Row; 6] = [
    (
        "packets",
        "Packets of the pairs in the watch list in the window, estimated;",
        |flow| flow.packets.estimate,
    ),
    (
        "packets_low",
        "Lower end of the 90 % interval of crane_flow_estimate_packets;",
        |flow| flow.packets.low,
    ),
    (
        "packets_high",
        "Upper end of the 90 % interval of crane_flow_estimate_packets;",
        |flow| flow.packets.high,
    ),
    (
        "bytes",
        "Bytes of the pairs in the watch list in the window, estimated;",
        |flow| flow.bytes.estimate,
    ),
    (
        "bytes_low",
        "Lower end of the 90 % interval of crane_flow_estimate_bytes;",
        |flow| flow.bytes.low,
    ),
    (
        "bytes_high",
        "Upper end of the 90 % interval of crane_flow_estimate_bytes;",
        |flow| flow.bytes.high,
    ),
];

/// All families of the watch list.
pub fn write(text: &mut String, snapshot: &Snapshot) {
    for (ending, help, value) in FAMILIES {
        let name = format!("crane_flow_estimate_{ending}");
        let help = format!("{help} {RATE}");
        let mut family = Family::begin(text, &name, Kind::Gauge, &help);
        for view in &snapshot.interfaces {
            for flow in &view.exported.watched {
                let labels = Labels(&flow.key);
                family.series(&view.name, format_args!("{labels}"), value(flow));
            }
        }
    }
}
