//! A sample capture: a small office on a busy minute.
//!
//! A few hundred hosts talk to a few dozen servers, some pairs far more than
//! others; one host scans a subnet; a flood with forged sources hits one
//! server; a little ARP and IPv6. All addresses are from ranges reserved for
//! private use and documentation.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

use anyhow::Context;
use etherparse::PacketBuilder;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Packets a second in the sample.
const RATE: u64 = 1000;
/// Time of the first packet.
const START: u64 = 1_700_000_000;
/// Bytes kept of each packet.
const SNAPLEN: usize = 96;

/// Writes a capture of `packets` packets.
pub fn write(path: &Path, packets: u64, seed: u64) -> anyhow::Result<()> {
    let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    let mut out = BufWriter::new(file);
    for word in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, SNAPLEN as u32, 1] {
        out.write_all(&word.to_le_bytes())?;
    }
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    for number in 0..packets {
        let (frame, wire_len) = frame(number, packets, &mut rng)?;
        let micros = number * 1_000_000 / RATE;
        let captured = &frame[..frame.len().min(SNAPLEN)];
        let head = [
            (START + micros / 1_000_000) as u32,
            (micros % 1_000_000) as u32,
            captured.len() as u32,
            wire_len,
        ];
        for word in head {
            out.write_all(&word.to_le_bytes())?;
        }
        out.write_all(captured)?;
    }
    out.flush()
        .with_context(|| format!("cannot write {}", path.display()))
}

/// The next frame, without the end of its payload, and its length on the wire.
fn frame(number: u64, packets: u64, rng: &mut impl Rng) -> anyhow::Result<(Vec<u8>, u32)> {
    let through = number as f64 / packets as f64;
    let office = |host: u32| Ipv4Addr::from(0x0a00_0000 | (1 + host / 250) << 8 | (1 + host % 250));
    let server = |n: u32| Ipv4Addr::new(192, 0, 2, 1 + n as u8);
    // Squaring a uniform number makes low ranks frequent.
    let skewed =
        |rng: &mut dyn rand::RngCore, n: u32| (rng.random::<f64>().powi(3) * f64::from(n)) as u32;
    let (src, dst, payload) = match rng.random_range(0..100) {
        // The nightly backup: few pairs, full packets.
        0..8 => (office(7), server(0), 1400),
        8..12 => (office(11), server(1), 1200),
        // A scan of a subnet, in the second quarter.
        12..18 if (0.25..0.5).contains(&through) => (
            office(66),
            Ipv4Addr::new(198, 51, 100, (number % 254) as u8 + 1),
            0,
        ),
        // A flood with forged sources, in the third quarter.
        18..40 if (0.5..0.75).contains(&through) => (
            Ipv4Addr::from(0xcb00_7100 | rng.random_range(0..256u32)),
            server(3),
            0,
        ),
        97 => return Ok((arp(), 60)),
        98..100 => return ipv6(rng),
        _ => {
            let (host, n) = (skewed(rng, 300), skewed(rng, 40));
            let payload = [0, 64, 512, 1400][rng.random_range(0..4)];
            if rng.random_bool(0.5) {
                (office(host), server(n), payload)
            } else {
                (server(n), office(host), payload)
            }
        }
    };
    let builder = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])
        .ipv4(src.octets(), dst.octets(), 64)
        .tcp(rng.random_range(1024..65535), 443, 0, 1024);
    let payload = vec![0; payload];
    let mut frame = Vec::with_capacity(builder.size(payload.len()));
    builder.write(&mut frame, &payload)?;
    let length = frame.len() as u32;
    Ok((frame, length))
}

fn ipv6(rng: &mut impl Rng) -> anyhow::Result<(Vec<u8>, u32)> {
    let host = |n: u16| Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, n).octets();
    let builder = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])
        .ipv6(host(rng.random_range(1..20)), host(0x53), 64)
        .udp(5353, 53);
    let mut frame = Vec::with_capacity(builder.size(40));
    builder.write(&mut frame, &[0; 40])?;
    let length = frame.len() as u32;
    Ok((frame, length))
}

fn arp() -> Vec<u8> {
    let mut frame = vec![0xff; 6];
    frame.extend([2, 0, 0, 0, 0, 1, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    frame.resize(60, 0);
    frame
}
