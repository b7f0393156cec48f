//! Recognises files of other formats by their first bytes, so that the error message can
//! name the format and the command that converts it.

/// How many bytes of a file are examined.
pub const EXAMINED: usize = 4096;

/// First bytes of known formats, with a description.
const KNOWN: [(&[u8], &str); 7] = [
    (b"\xfd7zXZ\0", "xz-compressed: unpack it first (xz -d)"),
    (b"BZh", "bzip2-compressed: unpack it first (bzip2 -d)"),
    (
        b"\x04\x22\x4d\x18",
        "lz4-compressed: unpack it first (lz4 -d)",
    ),
    (b"PK\x03\x04", "a zip archive: unpack it first (unzip)"),
    (
        b"snoop\0\0\0",
        "snoop capture: convert it with editcap -F pcap",
    ),
    (
        b"GMBU",
        "Network Monitor capture: convert it with editcap -F pcap",
    ),
    (
        b"RTSS",
        "Network Monitor capture: convert it with editcap -F pcap",
    ),
];

/// Returns the description of a file with these first bytes. `None` if the format is
/// unknown.
pub fn name(head: &[u8]) -> Option<&'static str> {
    let known = KNOWN.iter().find(|(magic, _)| head.starts_with(magic));
    match known {
        Some((_, what)) => Some(what),
        None if is_erf(head) => Some("ERF (Endace) capture: convert it with editcap -F pcap"),
        None => None,
    }
}

/// Size of the header of an ERF record: time, type, flags, lengths.
const RECORD: usize = 16;
/// Earliest plausible time, in 1990.
const EARLIEST: u32 = 631_152_000;
/// Number of records that are checked.
const RECORDS: usize = 3;

/// ERF has no magic number. A file is taken for ERF if its first records, or all if there
/// are fewer, are plausible and their times do not go back far.
fn is_erf(head: &[u8]) -> bool {
    let (mut rest, mut before) = (head, EARLIEST);
    for n in 0..RECORDS {
        let Some(record) = rest.first_chunk::<RECORD>() else {
            return n > 0 && rest.is_empty();
        };
        let seconds = u32::from_le_bytes([record[4], record[5], record[6], record[7]]);
        let (kind, length) = (
            record[8] & 0x7f,
            u16::from_be_bytes([record[10], record[11]]),
        );
        let length = usize::from(length);
        if !(1..=48).contains(&kind) || length < RECORD || seconds < before {
            return false;
        }
        before = seconds - 1;
        // The record ends after the examined part.
        if rest.len() < length {
            return n > 0 && head.len() >= EXAMINED;
        }
        rest = &rest[length..];
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn erf(records: &[(u32, u8, u16)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (seconds, kind, length) in records {
            let start = bytes.len();
            bytes.extend([0; 4]);
            bytes.extend(seconds.to_le_bytes());
            bytes.extend([*kind, 4]);
            bytes.extend(length.to_be_bytes());
            bytes.resize(start + usize::from(*length), 0);
        }
        bytes
    }

    #[test]
    fn known_formats_are_recognised_and_other_bytes_are_not() {
        let named = |bytes: &[u8]| name(bytes).unwrap_or_default();
        assert!(named(b"\xfd7zXZ\0\0\x04").contains("xz -d"));
        let noon = 1_700_000_000;
        let good = erf(&[(noon, 2, 80), (noon, 2, 64), (noon + 1, 0x82, 1500)]);
        assert!(named(&good).contains("ERF"));
        assert!(
            named(&erf(&[(noon, 2, 80)])).contains("ERF"),
            "a single record"
        );
        for bad in [
            erf(&[(noon, 0, 80)]),
            erf(&[(5, 2, 80)]),
            erf(&[(noon, 2, 80), (noon - 100, 2, 80)]),
            b"this is not a capture, though long enough to be one".to_vec(),
            vec![0; 100],
            vec![0xff; 5000],
            Vec::new(),
        ] {
            assert_eq!(name(&bad), None);
        }
    }
}
