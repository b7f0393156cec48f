//! A small capture and databases for the tests of look-ups.

use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use super::mmdb::{Layout, database, geolite_asn, geolite_country};
use super::{AGENT, frame, write_pcap};

pub const ONE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
pub const TWO: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 2);
pub const THREE: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 3);
pub const PRIVATE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

/// Source, destination and number of packets in the capture. 192.0.2.0/24 and 198.51.100.0/24 are
/// AS64496.
pub const SENT: [(Ipv4Addr, Ipv4Addr, usize); 5] = [
    (ONE, TWO, 5),
    (ONE, THREE, 20),
    (PRIVATE, ONE, 7),
    (TWO, PRIVATE, 3),
    (PRIVATE, THREE, 2),
];

fn capture(folder: &Path) {
    let mut frames = Vec::new();
    for (src, dst, count) in SENT {
        frames.extend(vec![frame(src, dst, 100); count]);
    }
    write_pcap(&folder.join("small.pcap"), &frames);
}

pub fn asns(name: &'static str) -> Vec<u8> {
    let layout = Layout {
        kind: "GeoLite2-ASN",
        record_size: 28,
        ip_version: 6,
    };
    let networks = [
        ("192.0.2.0/24", geolite_asn(64496, name)),
        ("198.51.100.0/24", geolite_asn(64496, name)),
        ("203.0.113.0/24", geolite_asn(64497, "Three \"x\"")),
    ];
    database(layout, &networks)
}

fn countries() -> Vec<u8> {
    let layout = Layout {
        kind: "GeoLite2-Country",
        record_size: 24,
        ip_version: 4,
    };
    let networks = [
        ("192.0.2.0/24", geolite_country("DE")),
        ("203.0.113.0/24", geolite_country("FR")),
    ];
    database(layout, &networks)
}

pub const LOOKUP: &str = "[lookup]\nasn = \"asn.mmdb\"\ncountry = \"country.mmdb\"\n";

/// A directory with the capture, both databases and this configuration.
pub fn folder(config: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    capture(folder.path());
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).unwrap();
    write("asn.mmdb", &asns("Example One"));
    write("country.mmdb", &countries());
    write("agent.toml", config.as_bytes());
    folder
}

/// Runs the agent in this directory.
pub fn run_in(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(AGENT);
    let command = command.args(args).stdin(Stdio::null());
    command.current_dir(folder).output().unwrap()
}

pub fn replay(folder: &Path, args: &[&str]) -> Output {
    let common = ["replay", "-q", "small.pcap", "-c", "agent.toml"];
    run_in(folder, &[&common[..], args].concat())
}

/// The row of a list with this address.
pub fn row<'a>(list: &'a Value, field: &str, address: Ipv4Addr) -> &'a Value {
    let mut rows = list.as_array().unwrap().iter();
    let address = json!(address.to_string());
    rows.find(|row| row[field] == address).unwrap()
}
