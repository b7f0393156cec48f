//! Writes sample captures for demonstrations and measurements.
//!
//! - *office*: a few hundred hosts exchange packets with a few dozen servers, some pairs many
//!   more than others. One host scans another network, and a flood with forged sources hits one
//!   server; both start at once, so that they are visible immediately. There is a little
//!   ARP and IPv6. All addresses are from ranges reserved for private use and
//!   documentation.
//! - *skewed*: about 1 % as many pairs as packets, in bursts, few of them heavy.
//! - *hostile*: 60 % as many pairs as packets, so nearly every packet has a new pair.
//! - *forged*: a flood with forged addresses. 60 % of the packets have random addresses, ports
//!   and lengths, one in four of them IPv6; the others are of 1,000 pairs, one packet at a time.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

use anyhow::Context;
use etherparse::PacketBuilder;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Packets per second.
const RATE: u64 = 1000;
/// Time of the first packet, in seconds since 1970.
const START: u64 = 1_700_000_000;
const SCANNED: u16 = 445;
/// Payload bytes of a packet of the nightly backup.
const BACKUP: usize = 1400;
/// Bytes kept of each packet.
const SNAPLEN: usize = 96;

/// Kind of traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Traffic {
    /// Traffic of a small office.
    Office,
    /// Few pairs, in bursts.
    Skewed,
    /// Nearly every packet has a new pair.
    Hostile,
    /// Nearly every packet has random addresses and ports, IPv4 or IPv6.
    Forged,
}

/// Writes a capture of `packets` packets.
pub fn write(path: &Path, kind: Traffic, packets: u64, seed: u64) -> anyhow::Result<()> {
    let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    let mut out = BufWriter::new(file);
    for word in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, SNAPLEN as u32, 1] {
        out.write_all(&word.to_le_bytes())?;
    }
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut bursts = Bursts::new((packets / 100).max(1));
    for number in 0..packets {
        let (frame, wire_len) = match kind {
            Traffic::Office => frame(number, packets, &mut rng)?,
            Traffic::Skewed => imix(bursts.next(&mut rng), &mut rng)?,
            Traffic::Hostile if rng.random_bool(0.6) => imix(rng.random(), &mut rng)?,
            Traffic::Hostile => imix(bursts.next(&mut rng), &mut rng)?,
            Traffic::Forged => forged(&mut rng)?,
        };
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

/// Returns the captured part of the next frame, and its length on the wire.
fn frame(number: u64, packets: u64, rng: &mut impl Rng) -> anyhow::Result<(Vec<u8>, u32)> {
    let through = number as f64 / packets as f64;
    let office = |host: u32| Ipv4Addr::from(0x0a00_0000 | (1 + host / 250) << 8 | (1 + host % 250));
    let server = |n: u32| Ipv4Addr::new(192, 0, 2, 1 + n as u8);
    // Cubing a uniform number makes low ranks frequent.
    let skewed =
        |rng: &mut dyn rand::RngCore, n: u32| (rng.random::<f64>().powi(3) * f64::from(n)) as u32;
    let (src, dst, payload) = match rng.random_range(0..100) {
        // The nightly backup: few pairs, large packets.
        0..8 => (office(7), server(0), BACKUP),
        8..12 => (office(11), server(1), BACKUP - 200),
        // A scan of 10.200.0.0/16, in the first half.
        12..19 if through < 0.5 => (
            office(66),
            Ipv4Addr::from(0x0ac8_0000 | (number as u32 & 0xffff)),
            0,
        ),
        // A flood with forged sources from 172.16.0.0/12, in the first three quarters.
        19..24 if through < 0.75 => (
            Ipv4Addr::from(0xac10_0000 | rng.random_range(0..1 << 20)),
            server(3),
            0,
        ),
        97 => return Ok((arp(), 60)),
        98..100 => return ipv6(rng),
        _ => {
            let (host, n) = (skewed(rng, 300), skewed(rng, 30));
            let payload = [0, 64, 512, 1400][rng.random_range(0..4)];
            if rng.random_bool(0.5) {
                (office(host), server(n), payload)
            } else {
                (server(n), office(host), payload)
            }
        }
    };
    let client = rng.random_range(1024..65535);
    let (src_port, dst_port) = match (service(src, payload), service(dst, payload)) {
        (Some(port), _) => (port, client),
        (None, port) => (client, port.unwrap_or(SCANNED)),
    };
    let builder = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])
        .ipv4(src.octets(), dst.octets(), 64)
        .tcp(src_port, dst_port, 0, 1024);
    let payload = vec![0; payload];
    let mut frame = Vec::with_capacity(builder.size(payload.len()));
    builder.write(&mut frame, &payload)?;
    let length = frame.len() as u32;
    Ok((frame, length))
}

/// The port of an office server. `None` for any other address.
fn service(ip: Ipv4Addr, payload: usize) -> Option<u16> {
    const PORTS: [u16; 8] = [443, 445, 443, 443, 5432, 80, 22, 25];
    match ip.octets() {
        // The nightly backup.
        [192, 0, 2, 1 | 2] if payload == BACKUP => Some(873),
        [192, 0, 2, n] => Some(PORTS[usize::from(n) % PORTS.len()]),
        _ => None,
    }
}

/// Pairs in bursts: several are active at any time, each for a few packets.
struct Bursts {
    pairs: u64,
    active: Vec<(u64, u32)>,
}

impl Bursts {
    /// Pairs that are active at the same time.
    const AT_ONCE: usize = 64;
    /// Packets of a burst, on average.
    const LENGTH: u32 = 16;

    fn new(pairs: u64) -> Self {
        Self {
            pairs,
            active: Vec::new(),
        }
    }

    /// Returns the pair of the next packet, both addresses in one number.
    fn next(&mut self, rng: &mut impl Rng) -> u64 {
        if self.active.len() < Self::AT_ONCE {
            // Few ranks have most bursts; multiplying the rank spreads it over the address
            // space.
            let rank = (self.pairs as f64).powf(rng.random::<f64>()) as u64;
            let pair = rank.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ rank.rotate_left(32);
            self.active
                .push((pair, rng.random_range(1..2 * Self::LENGTH)));
        }
        let at = rng.random_range(0..self.active.len());
        let (pair, left) = &mut self.active[at];
        let pair = *pair;
        *left -= 1;
        if *left == 0 {
            self.active.swap_remove(at);
        }
        pair
    }
}

/// A frame between the addresses of `pair`, with a typical length.
fn imix(pair: u64, rng: &mut impl Rng) -> anyhow::Result<(Vec<u8>, u32)> {
    let length = [64, 64, 64, 64, 64, 64, 64, 576, 576, 576, 576, 1500][rng.random_range(0..12)];
    let (src, dst) = ((pair >> 32) as u32, pair as u32);
    let builder = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])
        .ipv4(src.to_be_bytes(), dst.to_be_bytes(), 64)
        // One flow per pair, so that programs that count flows have the same amount of
        // work.
        .udp(1024 + (pair % 50_000) as u16, 443);
    // Payload beyond the snap length is not captured.
    let payload = [0; SNAPLEN];
    let mut frame = Vec::with_capacity(2 * SNAPLEN);
    builder.write(&mut frame, &payload[..SNAPLEN.min(length as usize) - 42])?;
    Ok((frame, length))
}

/// A frame of a flood with forged addresses.
fn forged(rng: &mut impl Rng) -> anyhow::Result<(Vec<u8>, u32)> {
    /// Pairs that are not forged.
    const PAIRS: u32 = 1000;
    let length = rng.random_range(64..1400);
    let (from, to) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
    let builder = PacketBuilder::ethernet2(from, to);
    let (builder, ports) = if rng.random_bool(0.6) {
        let ports: (u16, u16) = rng.random();
        match rng.random_bool(0.25) {
            true => (builder.ipv6(rng.random(), rng.random(), 64), ports),
            false => (builder.ipv4(rng.random(), rng.random(), 64), ports),
        }
    } else {
        let pair = rng.random_range(0..PAIRS);
        let (src, dst) = (0x0a00_0000 + pair % 32, 0xc0a8_0000 + pair / 32);
        let ports = (1024 + pair as u16, 443);
        let ends = (src.to_be_bytes(), dst.to_be_bytes());
        (builder.ipv4(ends.0, ends.1, 64), ports)
    };
    let builder = builder.udp(ports.0, ports.1);
    let payload = [0; SNAPLEN];
    let head = builder.size(0);
    let mut frame = Vec::with_capacity(2 * SNAPLEN);
    builder.write(&mut frame, &payload[..SNAPLEN - head])?;
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
