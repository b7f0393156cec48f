//! Replaces addresses in output.
//!
//! Pseudonyms preserve prefixes, like Crypto-PAn: two addresses that share exactly their
//! first n bits have pseudonyms that share exactly their first n bits. So networks can
//! still be distinguished, no two addresses become one, and the key allows the reverse
//! mapping. Each bit is flipped or not depending on SipHash of the bits before it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crane_model::Secret;

/// Prefix length of the network that is shown, for IPv4 and IPv6.
const NETWORK: [u32; 2] = [24, 48];

#[derive(Debug)]
pub enum Anonymiser {
    /// Shows the network of an address.
    Prefix,
    /// Shows pseudonyms under this key.
    Keyed(Secret),
}

/// Returns the bits of an address, aligned to the left, and their number.
fn bits(address: IpAddr) -> (u128, u32) {
    match address {
        IpAddr::V4(address) => (u128::from(address.to_bits()) << 96, 32),
        IpAddr::V6(address) => (address.to_bits(), 128),
    }
}

fn address(bits: u128, length: u32) -> IpAddr {
    match length {
        32 => Ipv4Addr::from_bits((bits >> 96) as u32).into(),
        _ => Ipv6Addr::from_bits(bits).into(),
    }
}

/// Returns the first bits; the others are zero.
fn first(bits: u128, count: u32) -> u128 {
    bits & !u128::MAX.checked_shr(count).unwrap_or(0)
}

impl Anonymiser {
    /// Returns what is shown for an address.
    pub fn show(&self, real: IpAddr) -> IpAddr {
        let (bits, length) = bits(real);
        match self {
            Self::Prefix => {
                let network = NETWORK[usize::from(length > 32)];
                address(first(bits, network), length)
            }
            Self::Keyed(secret) => {
                let flipped = (0..length).filter(|at| is_flipped(secret, bits, *at, length));
                let mask = flipped.fold(0, |mask, at| mask | bit(at));
                address(bits ^ mask, length)
            }
        }
    }

    /// Returns the address of a pseudonym. `None` if the mapping cannot be reversed.
    pub fn real(&self, shown: IpAddr) -> Option<IpAddr> {
        let Self::Keyed(secret) = self else {
            return None;
        };
        let (mut bits, length) = bits(shown);
        for at in 0..length {
            // All bits before this one are already restored.
            if is_flipped(secret, bits, at, length) {
                bits ^= bit(at);
            }
        }
        Some(address(bits, length))
    }
}

fn bit(at: u32) -> u128 {
    1 << (127 - at)
}

/// Whether a bit is flipped, depending on those before it.
fn is_flipped(secret: &Secret, bits: u128, at: u32, length: u32) -> bool {
    let before = first(bits, at);
    let place = u64::from(at) << 32 | u64::from(length);
    secret.id(&[(before >> 64) as u64, before as u64, place, 0]) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn common(a: IpAddr, b: IpAddr) -> u32 {
        (bits(a).0 ^ bits(b).0).leading_zeros()
    }

    #[test]
    fn pseudonyms_preserve_prefixes_and_can_be_reversed() {
        let keyed = Anonymiser::Keyed(Secret::from_seed(7));
        let texts = [
            "10.0.0.1",
            "10.0.0.2",
            "10.0.1.1",
            "10.128.0.1",
            "192.0.2.7",
            "0.0.0.0",
            "2001:db8::1",
            "2001:db8::2",
            "2001:db8:0:1::1",
            "fe80::1",
            "::",
        ];
        let all = texts.map(|text| text.parse::<IpAddr>().unwrap());
        for a in all {
            let shown = keyed.show(a);
            assert_eq!(keyed.real(shown), Some(a));
            assert_eq!(shown.is_ipv4(), a.is_ipv4());
            for b in all.into_iter().filter(|b| b.is_ipv4() == a.is_ipv4()) {
                assert_eq!(common(shown, keyed.show(b)), common(a, b), "{a} {b}");
            }
        }
        let other = Anonymiser::Keyed(Secret::from_seed(8));
        assert_ne!(all.map(|a| keyed.show(a)), all.map(|a| other.show(a)));
        assert_ne!(all.map(|a| keyed.show(a)), all);
    }

    #[test]
    fn only_the_network_of_an_address_is_shown() {
        let shown = |text: &str| Anonymiser::Prefix.show(text.parse().unwrap()).to_string();
        assert_eq!(shown("10.1.2.3"), "10.1.2.0");
        assert_eq!(shown("2001:db8:1:2:3::4"), "2001:db8:1::");
        assert_eq!(Anonymiser::Prefix.real([10, 1, 2, 0].into()), None);
    }
}
