//! Messages of DNS (RFC 1035), as far as a reverse look-up needs them: a question for the
//! name of an address, and the name in an answer.

use std::net::IpAddr;

/// The type PTR and the class IN.
const PTR: [u8; 4] = [0, 12, 0, 1];
/// Bytes of a header.
const HEADER: usize = 12;
/// Longest name, without the dot at its end.
const MAX_NAME: usize = 253;
/// Most pointers that are followed in a name.
const MAX_JUMPS: usize = 16;

/// Why a message gives no answer.
#[derive(Debug, PartialEq, Eq)]
pub enum Unanswered {
    /// It belongs to another question, or is not a DNS answer.
    Foreign,
    /// The server reports an error, or its answer is incomplete.
    Failed,
}

/// Builds a question for the name of an address.
pub fn question(id: u16, address: IpAddr) -> Vec<u8> {
    let mut message = Vec::with_capacity(96);
    message.extend(id.to_be_bytes());
    // Recursion is desired; one question.
    message.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    let mut label = |text: &str| {
        message.push(text.len() as u8);
        message.extend(text.as_bytes());
    };
    match address {
        IpAddr::V4(address) => {
            let octets = address.octets();
            octets
                .iter()
                .rev()
                .for_each(|byte| label(&byte.to_string()));
            label("in-addr");
        }
        IpAddr::V6(address) => {
            for byte in address.octets().iter().rev() {
                label(&format!("{:x}", byte & 15));
                label(&format!("{:x}", byte >> 4));
            }
            label("ip6");
        }
    }
    label("arpa");
    message.push(0);
    message.extend(PTR);
    message
}

/// Reads the name in the answer to `question`. `None` if the address has no name, or one that
/// is not valid for a host.
pub fn answer(question: &[u8], message: &[u8]) -> Result<Option<String>, Unanswered> {
    use Unanswered::{Failed, Foreign};
    let head = message.get(..HEADER).ok_or(Foreign)?;
    let asked = question.get(HEADER..).unwrap_or_default();
    let is_answer = head[2] & 0x80 != 0;
    let repeated = message.get(HEADER..HEADER + asked.len());
    let repeats = repeated.is_some_and(|text| text.eq_ignore_ascii_case(asked));
    if head.get(..2) != question.get(..2) || !is_answer {
        return Err(Foreign);
    }
    let code = head[3] & 15;
    if code != 0 && code != 3 {
        // Checked before the question, which some servers leave out of such an answer.
        return Err(Failed);
    }
    if !repeats {
        return Err(Foreign);
    }
    if code == 3 {
        return Ok(None);
    }
    if head[2] & 2 != 0 {
        // Truncated: the address has too many names.
        return Err(Failed);
    }
    let count = u16::from_be_bytes([head[6], head[7]]);
    let mut at = HEADER + asked.len();
    for _ in 0..count {
        at = skip_name(message, at).ok_or(Failed)?;
        let fixed = message.get(at..at + 10).ok_or(Failed)?;
        let length = usize::from(u16::from_be_bytes([fixed[8], fixed[9]]));
        let data = at + 10;
        message.get(data..data + length).ok_or(Failed)?;
        if fixed[..4] == PTR {
            return Ok(name(message, data));
        }
        // Aliases come before the name that they refer to.
        at = data + length;
    }
    Ok(None)
}

/// Returns where a name ends.
fn skip_name(message: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match usize::from(*message.get(at)?) {
            0 => return Some(at + 1),
            length @ 1..=63 => at += 1 + length,
            192.. => return Some(at + 2),
            _ => return None,
        }
    }
}

/// Reads a host name. `None` if it is not valid: the owner of an address may give it any
/// name.
fn name(message: &[u8], mut at: usize) -> Option<String> {
    let (mut name, mut jumps) = (String::new(), 0);
    loop {
        let length = usize::from(*message.get(at)?);
        match length {
            0 => break,
            1..=63 => {
                let label = message.get(at + 1..at + 1 + length)?;
                let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_/".contains(byte);
                if !label.iter().all(is_part) {
                    return None;
                }
                if !name.is_empty() {
                    name.push('.');
                }
                name.extend(label.iter().map(|byte| char::from(*byte)));
                if name.len() > MAX_NAME {
                    return None;
                }
                at += 1 + length;
            }
            192.. => {
                jumps += 1;
                if jumps > MAX_JUMPS {
                    return None;
                }
                at = (length & 63) << 8 | usize::from(*message.get(at + 1)?);
            }
            _ => return None,
        }
    }
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// An answer with these records behind the question: type and data.
    pub fn reply(question: &[u8], code: u8, records: &[(u8, Vec<u8>)]) -> Vec<u8> {
        let mut message = question.to_vec();
        message[2] = 0x81;
        message[3] = 0x80 | code;
        message[7] = records.len() as u8;
        for (kind, data) in records {
            // The name of the question.
            message.extend([0xc0, HEADER as u8, 0, *kind, 0, 1, 0, 0, 0, 60]);
            message.extend((data.len() as u16).to_be_bytes());
            message.extend(data);
        }
        message
    }

    pub fn encoded(name: &str) -> Vec<u8> {
        let labels = name.split('.');
        let mut bytes: Vec<u8> = labels
            .flat_map(|label| [&[label.len() as u8], label.as_bytes()].concat())
            .collect();
        bytes.push(0);
        bytes
    }

    #[test]
    fn a_question_is_built_and_its_answer_is_read() {
        let v4 = question(7, [192, 0, 2, 5].into());
        assert_eq!(
            v4[HEADER..],
            [encoded("5.2.0.192.in-addr.arpa"), PTR.to_vec()].concat()
        );
        let v6 = question(7, "2001:db8::1a".parse().unwrap());
        let zeros = "0.".repeat(22);
        let name = format!("a.1.{zeros}8.b.d.0.1.0.0.2.ip6.arpa");
        assert_eq!(v6[HEADER..], [encoded(&name), PTR.to_vec()].concat());

        let name = |records: &[(u8, Vec<u8>)]| answer(&v4, &reply(&v4, 0, records));
        let host = || (12, encoded("Web-1.example.org"));
        assert_eq!(name(&[host()]), Ok(Some("Web-1.example.org".into())));
        let alias = (5, encoded("5.0-31.2.0.192.in-addr.arpa"));
        assert_eq!(
            name(&[alias.clone(), host()]),
            Ok(Some("Web-1.example.org".into()))
        );
        assert_eq!(name(&[alias]), Ok(None));
        assert_eq!(name(&[]), Ok(None));
        assert_eq!(answer(&v4, &reply(&v4, 3, &[])), Ok(None));
        assert_eq!(answer(&v4, &reply(&v4, 2, &[])), Err(Unanswered::Failed));
        let compressed = (12, [&[3], &b"www"[..], &[0xc0, 18]].concat());
        assert_eq!(name(&[compressed]), Ok(Some("www.192.in-addr.arpa".into())));
    }

    #[test]
    fn answers_to_other_questions_and_invalid_names_are_rejected() {
        let asked = question(7, [192, 0, 2, 5].into());
        let good = |asked: &[u8]| reply(asked, 0, &[(12, encoded("a.example"))]);
        for other in [
            question(8, [192, 0, 2, 5].into()),
            question(7, [192, 0, 2, 6].into()),
        ] {
            assert_eq!(answer(&asked, &good(&other)), Err(Unanswered::Foreign));
        }
        assert_eq!(answer(&asked, &asked), Err(Unanswered::Foreign));
        let long = vec!["x".repeat(63); 5].join(".");
        for name in ["a\u{1b}[2J.example", "a b", "<b>", &long] {
            let reply = reply(&asked, 0, &[(12, encoded(name))]);
            assert_eq!(answer(&asked, &reply), Ok(None), "{name}");
        }
        // A name that points to itself.
        let at = (asked.len() + 12) as u8;
        let circle = reply(&asked, 0, &[(12, vec![0xc0, at])]);
        assert_eq!(answer(&asked, &circle), Ok(None));
    }

    #[test]
    fn truncated_and_damaged_messages_cause_no_panic() {
        let asked = question(7, [192, 0, 2, 5].into());
        let whole = reply(
            &asked,
            0,
            &[(5, encoded("b.example")), (12, encoded("a.example"))],
        );
        for length in 0..whole.len() {
            let cut = answer(&asked, &whole[..length]);
            assert!(cut.is_err(), "{length}: {cut:?}");
        }
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut other = whole.clone();
                other[at] ^= 1 << bit;
                let _ = answer(&asked, &other);
            }
        }
    }
}
