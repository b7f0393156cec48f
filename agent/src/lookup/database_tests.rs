//! Tests of both layouts, all record sizes, and damaged files.

use super::database::{Asns, Countries};
use super::testing::{Layout, Value, database, geolite_asn, geolite_country, ipinfo};

fn layout(kind: &'static str, record_size: u16, ip_version: u16) -> Layout {
    Layout {
        kind,
        record_size,
        ip_version,
    }
}

/// Two networks of one AS, adjacent to one of another; IPv6 if `ip_version` is 6.
fn asns(record_size: u16, ip_version: u16) -> Vec<u8> {
    let mut networks = vec![
        ("10.0.0.0/9", geolite_asn(64496, "Example One")),
        ("10.128.0.0/9", geolite_asn(64496, "Example One")),
        ("11.0.0.0/8", geolite_asn(64497, "Two")),
        ("192.0.2.1/32", geolite_asn(4_200_000_000, "")),
        ("198.51.100.0/24", Value::Map(Vec::new())),
    ];
    if ip_version == 6 {
        networks.push(("2001:db8::/32", geolite_asn(64496, "Example One")));
        networks.push(("2002::/16", geolite_asn(64497, "repeated")));
    }
    database(layout("GeoLite2-ASN", record_size, ip_version), &networks)
}

#[test]
fn every_size_of_records_and_both_kinds_of_trees_are_read() {
    for record_size in [24, 28, 32] {
        for ip_version in [4, 6] {
            let read = Asns::read(&asns(record_size, ip_version)).unwrap();
            let number = |text: &str| read.number(text.parse().unwrap());
            for (address, asn) in [
                ("9.255.255.255", None),
                ("10.0.0.0", Some(64496)),
                ("10.127.255.255", Some(64496)),
                ("10.128.0.0", Some(64496)),
                ("10.255.255.255", Some(64496)),
                ("11.0.0.0", Some(64497)),
                ("12.0.0.0", None),
                ("192.0.2.0", None),
                ("192.0.2.1", Some(4_200_000_000)),
                ("192.0.2.2", None),
                ("198.51.100.7", None),
                ("255.255.255.255", None),
                // These repeat IPv4 addresses, or nothing is known of them.
                ("::ffff:10.0.0.1", None),
                ("2002:a00::1", None),
                ("::1", None),
            ] {
                assert_eq!(number(address), asn, "{address} {record_size} {ip_version}");
            }
            let wide = (ip_version == 6).then_some(64496);
            assert_eq!(number("2001:db8::"), wide);
            assert_eq!(number("2001:db8:ffff:ffff:ffff:ffff:ffff:ffff"), wide);
            assert_eq!(number("2001:db9::"), None);
            assert_eq!(read.name(64496).map(|name| &**name), Some("Example One"));
            assert_eq!(read.name(4_200_000_000), None);
            assert!(read.has(64497) && !read.has(64498));
            let ranges: Vec<_> = read.ranges().map(|(first, ..)| first.to_string()).collect();
            let expected = ["10.0.0.0", "11.0.0.0", "192.0.2.1", "2001:db8::"];
            assert_eq!(ranges, expected[..if ip_version == 6 { 4 } else { 3 }]);
            let described = read.describe();
            assert!(described.contains("GeoLite2-ASN, 3 AS"), "{described}");
        }
    }
}

#[test]
fn a_file_of_ipinfo_has_as_numbers_and_countries() {
    let networks = [
        ("10.0.0.0/8", ipinfo("AS64496", "Example", "DE")),
        ("2001:db8::/32", ipinfo("", "", "FR")),
    ];
    let file = database(layout("ipinfo generic_lite", 32, 6), &networks);
    let (asns, countries) = (Asns::read(&file).unwrap(), Countries::read(&file).unwrap());
    let address = |text: &str| text.parse().unwrap();
    assert_eq!(asns.number(address("10.1.2.3")), Some(64496));
    assert_eq!(asns.number(address("2001:db8::1")), None);
    let code = |text: &str| countries.code(address(text)).map(|code| code.to_string());
    assert_eq!(code("10.1.2.3").as_deref(), Some("DE"));
    assert_eq!(code("2001:db8::1").as_deref(), Some("FR"));
    assert_eq!(code("10.1.2.3"), Some("DE".into()));
    assert_eq!(code("11.1.2.3"), None);

    let networks = [("10.0.0.0/8", geolite_country("US"))];
    let file = database(layout("GeoLite2-Country", 24, 4), &networks);
    let countries = Countries::read(&file).unwrap();
    assert_eq!(
        countries.code(address("10.0.0.1")).map(|code| &**code),
        Some("US")
    );
}

#[test]
fn the_error_names_the_kind_of_a_wrong_file() {
    let countries = [("10.0.0.0/8", geolite_country("US"))];
    let file = database(layout("GeoLite2-Country", 24, 4), &countries);
    let error = Asns::read(&file).unwrap_err();
    assert!(
        error.contains("no AS number") && error.contains("GeoLite2-Country"),
        "{error}"
    );
    let error = Countries::read(&asns(24, 4)).unwrap_err();
    assert!(
        error.contains("no country") && error.contains("GeoLite2-ASN"),
        "{error}"
    );
    for other in [&b""[..], b"x", b"\xab\xcd\xefMaxMind.com", &[0; 4096]] {
        let error = Asns::read(other).unwrap_err();
        assert!(error.contains("damaged, or no MaxMind DB"), "{error}");
    }
}

/// Looks up addresses inside and outside of the networks of the files above.
fn look_up_all(read: &Asns) {
    for text in [
        "10.0.0.1",
        "11.0.0.1",
        "192.0.2.1",
        "::1",
        "2001:db8::1",
        "::",
    ] {
        let asn = read.number(text.parse().unwrap());
        asn.map(|asn| read.name(asn));
    }
    read.ranges().take(100).for_each(drop);
}

#[test]
fn a_truncated_or_damaged_file_causes_no_panic() {
    let country = database(
        layout("GeoLite2-Country", 24, 4),
        &[("10.0.0.0/8", geolite_country("US"))],
    );
    let (v4, v6) = (asns(24, 4), asns(28, 6));
    for file in [&v4, &v6] {
        for length in 0..file.len() {
            if let Ok(read) = Asns::read(&file[..length]) {
                look_up_all(&read);
            }
        }
    }
    for length in 0..country.len() {
        let _ = Countries::read(&country[..length]);
    }
    // A damaged IPv6 tree can have very many networks, which take a while to read.
    for (file, step) in [(&v4, 1), (&v6, 7)] {
        for at in (0..file.len()).step_by(step) {
            for bit in 0..8 {
                let mut other = file.clone();
                other[at] ^= 1 << bit;
                if let Ok(read) = Asns::read(&other) {
                    look_up_all(&read);
                }
            }
        }
    }
    for at in 0..country.len() {
        for bit in 0..8 {
            let mut other = country.clone();
            other[at] ^= 1 << bit;
            let _ = Countries::read(&other);
        }
    }
}

/// The nodes form a cycle, so every path through the tree ends only after 32 bits.
#[test]
fn a_tree_with_a_cycle_is_refused() {
    let mut file = asns(24, 4);
    let nodes = file.windows(16).position(|bytes| bytes == [0; 16]).unwrap();
    file[..nodes].fill(0);
    let error = Asns::read(&file).unwrap_err();
    assert!(error.contains("more than 8388608 networks"), "{error}");
}
