//! Filters of replays: the same language as in a live capture, and the same packets.
#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;
use std::process::{Command, Output};

use common::{address, agent, frame, json, pcapng_block, pcapng_head, stderr, words};

/// Writes a classic capture in either byte order and any variant: packets of one link
/// type, each with its length on the wire.
fn write(path: &Path, big: bool, magic: u32, link: u32, packets: &[(Vec<u8>, u32)]) {
    let word = |word: u32| match big {
        true => word.to_be_bytes(),
        false => word.to_le_bytes(),
    };
    let mut bytes = word(magic).to_vec();
    bytes.extend(match big {
        true => [0, 2, 0, 4],
        false => [2, 0, 4, 0],
    });
    bytes.extend([0, 0, 65535, link].map(word).concat());
    for (n, (data, wire_len)) in (1..).zip(packets) {
        bytes.extend([n, 0, data.len() as u32, *wire_len].map(word).concat());
        if magic == 0xa1b2_cd34 {
            bytes.extend([0; 8]);
        }
        bytes.extend(data);
    }
    std::fs::write(path, bytes).unwrap();
}

fn replay(path: &Path, more: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(common::AGENT);
    command.args(["replay", "--format", "json"]).arg(path);
    command.args(more).envs(variables.iter().copied());
    command.output().unwrap()
}

/// Packets of the first capture, and how many pairs are listed.
fn counted(output: &Output) -> (u64, usize) {
    let capture = &json(output)["captures"][0];
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
    let pairs = capture["top"].as_array().unwrap().len();
    assert_eq!(capture["packets"], capture["edges"], "{capture}");
    (capture["packets"].as_u64().unwrap(), pairs)
}

#[test]
fn a_filter_applies_to_files_and_the_flag_overrides_the_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pcap");
    let mut frames = vec![common::arp(); 3];
    frames.extend(vec![frame(address(1), address(2), 8); 5]);
    frames.extend(vec![frame(address(3), address(4), 8); 7]);
    common::write_pcap(&path, &frames);
    let config = folder.path().join("a.toml");
    std::fs::write(&config, "[capture]\nfilter = \"src host 10.0.0.1\"\n").unwrap();
    let config = ["-c", config.to_str().unwrap()];

    let all = json(&replay(&path, &[], &[]));
    assert_eq!(all["captures"][0]["packets"], 15);
    let from_file = replay(&path, &config, &[]);
    assert_eq!(counted(&from_file), (5, 1));
    let capture = &json(&from_file)["captures"][0];
    let ignored = &capture["ignored"]["not_ip"];
    assert!(
        ignored.as_u64().unwrap_or(0) == 0,
        "packets outside of the filter are not counted: {ignored}"
    );
    assert_eq!(capture["bytes"], 5 * 50);
    let variable = [("CRANE_CAPTURE_FILTER", "net 10.0.0.0/8 and not arp")];
    assert_eq!(counted(&replay(&path, &config, &variable)), (12, 2));
    let flag = [config[0], config[1], "--filter", "dst host 10.0.0.4"];
    assert_eq!(counted(&replay(&path, &flag, &variable)), (7, 1));
    let none = replay(&path, &["--filter", "tcp"], &[]);
    assert_eq!(
        counted(&none),
        (0, 0),
        "the file is still read and reported"
    );

    // The first window begins with the first packet that matches.
    let args = ["--filter", "src host 10.0.0.3", "--window", "60s"];
    let windows = json(&replay(&path, &args, &[]))["captures"][0]["windows"].clone();
    assert_eq!(windows.as_array().unwrap().len(), 1, "{windows}");
    assert_eq!(windows[0]["packets"], 7);
}

#[test]
fn every_variant_of_pcap_is_filtered_by_the_length_on_the_wire() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pcap");
    let whole = frame(address(1), address(2), 8);
    let cut = frame(address(3), address(4), 1400)[..60].to_vec();
    let packets = [(whole.clone(), 50), (cut, 1442)];
    let raw = [(whole[14..].to_vec(), 36)];
    for big in [false, true] {
        for magic in [0xa1b2_c3d4, 0xa1b2_3c4d, 0xa1b2_cd34] {
            write(&path, big, magic, 1, &packets);
            for (filter, kept) in [("greater 1000", 1), ("less 1000", 1), ("udp", 2)] {
                let output = replay(&path, &["--filter", filter], &[]);
                assert_eq!(counted(&output).0, kept, "{filter} {magic:x} {big}");
            }
            write(&path, big, magic, 101, &raw);
            let output = replay(&path, &["--filter", "udp port 2000"], &[]);
            assert_eq!(counted(&output).0, 1);
        }
        // BSD null has its family in the byte order of the capturing machine.
        let family = if big { [0, 0, 0, 2] } else { [2, 0, 0, 0] };
        let null = [[&family, &whole[14..]].concat()].map(|data| (data, 40));
        write(&path, big, 0xa1b2_c3d4, 0, &null);
        assert_eq!(counted(&replay(&path, &["--filter", "ip"], &[])).0, 1);
        assert_eq!(counted(&replay(&path, &["--filter", "ip6"], &[])).0, 0);
    }
}

#[test]
fn a_filter_applies_to_each_link_type_of_a_pcapng() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pcapng");
    let ethernet = frame(address(1), address(2), 8);
    let raw = frame(address(3), address(4), 8)[14..].to_vec();
    let enhanced = |interface: u32, data: &[u8]| {
        let length = data.len() as u32;
        let mut body = words(&[interface, 0, 1, length, length]);
        body.extend(data);
        body.resize(body.len().next_multiple_of(4), 0);
        pcapng_block(6, &body)
    };
    let file = |second: u32| {
        let mut bytes = pcapng_head();
        for link in [1, second] {
            bytes.extend(pcapng_block(1, &words(&[link, 0])));
        }
        for _ in 0..4 {
            bytes.extend(enhanced(0, &ethernet));
            bytes.extend(enhanced(1, &raw));
        }
        bytes
    };
    std::fs::write(&path, file(101)).unwrap();
    let output = replay(&path, &["--filter", "udp and src net 10.0.0.0/30"], &[]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let captures = json(&output)["captures"].clone();
    let packets: Vec<_> = captures.as_array().unwrap().iter().collect();
    assert_eq!(packets.len(), 2, "{captures}");
    assert!(packets.iter().all(|capture| capture["packets"] == 4));
    // Only one of them has such packets.
    let output = replay(&path, &["--filter", "host 10.0.0.4"], &[]);
    let captures = json(&output)["captures"].clone();
    assert_eq!(captures.as_array().unwrap().len(), 1, "{captures}");

    // A link type that libpcap has no filter for is an error, named.
    std::fs::write(&path, file(5555)).unwrap();
    let output = replay(&path, &["--filter", "udp"], &[]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for part in ["a.pcapng", "\"udp\"", "link type 5555", "unknown"] {
        assert!(said.contains(part), "{said}");
    }
}

/// How many packets of a file match according to tcpdump, or why it refuses.
fn tcpdump(path: &Path, filter: &str) -> Result<u64, String> {
    let mut command = Command::new("tcpdump");
    command.args(["-r", "-", "-n", "--count", filter]);
    // Passed as standard input, because tcpdump drops root before it opens files.
    command.stdin(std::fs::File::open(path).unwrap());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    if let Some((count, _)) = said.split_once(" packet") {
        return Ok(count.parse().unwrap());
    }
    let said = stderr(&output);
    let reason = said.lines().find_map(|line| line.strip_prefix("tcpdump: "));
    Err(reason.unwrap_or_else(|| panic!("{said}")).to_owned())
}

/// IPv6 with UDP to port 2000.
fn ipv6() -> Vec<u8> {
    let address = |last| [&[0xfd; 15][..], &[last]].concat();
    let mut packet = vec![0x60, 0, 0, 0, 0, 8, 17, 64];
    packet.extend([address(1), address(2)].concat());
    packet.extend([3, 232, 7, 208, 0, 8, 0, 0]);
    packet
}

#[test]
fn bsd_loopback_files_are_filtered_as_tcpdump_does() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pcap");
    let ipv4 = frame(address(1), address(2), 8)[14..].to_vec();
    let families = [(2u32, &ipv4), (24, &ipv6()), (28, &ipv6()), (30, &ipv6())];
    let framed = |link, big, families: &[(u32, &Vec<u8>)]| -> Vec<_> {
        let packet = |(family, ip): &(u32, &Vec<u8>)| {
            // The numbers of link type 108 are always big endian.
            let family = match big || link == 108 {
                true => family.to_be_bytes(),
                false => family.to_le_bytes(),
            };
            let data = [&family[..], &ip[..]].concat();
            let length = data.len() as u32;
            (data, length)
        };
        families.iter().map(packet).collect()
    };
    for (link, big) in [(0, false), (0, true), (108, false), (108, true)] {
        write(&path, big, 0xa1b2_c3d4, link, &framed(link, big, &families));
        for (filter, expected) in [
            ("ip6", 3),
            ("not ip6", 1),
            ("ip", 1),
            ("udp port 2000", 4),
            ("tcp", 0),
            ("net fdfd::/16", 3),
            ("less 45", 1),
        ] {
            let place = format!("{filter}, link type {link}, big endian: {big}");
            assert_eq!(tcpdump(&path, filter), Ok(expected), "{place}");
            let output = replay(&path, &["--filter", filter], &[]);
            assert_eq!(counted(&output).0, expected, "{place}");
        }
        // Linux has another number, which tcpdump does not recognise as IP. The agent
        // counts it as IPv6, so its filter matches it as well.
        write(
            &path,
            big,
            0xa1b2_c3d4,
            link,
            &framed(link, big, &[(10, &ipv6())]),
        );
        assert_eq!(counted(&replay(&path, &["--filter", "ip6"], &[])).0, 1);
    }
}

#[test]
fn filters_on_what_a_file_does_not_contain_are_refused_with_the_reason_of_tcpdump() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pcap");
    let packets = [(vec![0; 60], 60)];
    for filter in ["inbound", "outbound", "ifindex 1"] {
        for link in [0, 1, 101, 105, 108, 127] {
            write(&path, false, 0xa1b2_c3d4, link, &packets);
            let reason = tcpdump(&path, filter).unwrap_err();
            let output = replay(&path, &["--filter", filter], &[]);
            let said = stderr(&output);
            assert_eq!(output.status.code(), Some(1), "{link}: {said}");
            assert!(said.contains(&reason), "{link}: {reason}: {said}");
        }
    }
    // Linux cooked captures contain whether a packet was received.
    let cooked = [
        &[0; 14][..],
        &[8, 0],
        &frame(address(1), address(2), 8)[14..],
    ]
    .concat();
    let length = cooked.len() as u32;
    write(&path, false, 0xa1b2_c3d4, 113, &[(cooked, length)]);
    for (filter, expected) in [("inbound", 1), ("outbound", 0)] {
        assert_eq!(tcpdump(&path, filter), Ok(expected));
        let output = replay(&path, &["--filter", filter], &[]);
        assert_eq!(counted(&output).0, expected);
    }
}

#[test]
fn a_bad_filter_is_refused_before_anything_is_read() {
    let flag = agent(&["replay", "/no/such.pcap", "--filter", "hst x"]);
    assert_eq!(flag.status.code(), Some(2), "{}", stderr(&flag));
    let variable = [("CRANE_CAPTURE_FILTER", "hst x")];
    let key = replay(Path::new("/no/such.pcap"), &[], &variable);
    assert_eq!(key.status.code(), Some(78), "{}", stderr(&key));
    for said in [stderr(&flag), stderr(&key)] {
        assert!(
            said.contains("hst x") && said.contains("syntax error"),
            "{said}"
        );
        assert!(!said.contains("no such file"), "{said}");
    }
    // A filter that is valid for some other link type is not refused.
    let output = agent(&["replay", "/no/such.pcap", "--filter", "wlan type mgt"]);
    assert!(stderr(&output).contains("no such file"));
}

#[test]
fn keys_without_effect_in_a_replay_are_named_in_one_warning() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pcap");
    common::write_pcap(&path, &vec![frame(address(1), address(2), 8); 5]);
    let config = folder.path().join("a.toml");
    let text = "[capture]\ninterfaces = [\"eth0\"]\nsample = 1\n[window]\nlength = \"10s\"\n\
                [export]\ntop = 3\nlisten = \"127.0.0.1:1\"\n";
    std::fs::write(&config, text).unwrap();
    let config = config.to_str().unwrap();
    let output = replay(&path, &["-c", config], &[("CRANE_CAPTURE_SNAPLEN", "100")]);
    let said = stderr(&output);
    assert_eq!(counted(&output).0, 5);
    assert_eq!(said.lines().count(), 1, "{said}");
    for key in [
        "capture.interfaces",
        "capture.snaplen",
        "window.length (use --window)",
        "export.listen",
    ] {
        assert_eq!(said.matches(key).count(), 1, "{key}: {said}");
    }
    for key in ["sample", "export.top"] {
        assert!(!said.contains(key), "{said}");
    }
    assert_eq!(stderr(&replay(&path, &[], &[])), "");
}
