//! What is shown in the place of an address.
//!
//! Pseudonyms keep prefixes, as Crypto-PAn does: two addresses that have their
//! first n bits in common have pseudonyms that have just their first n bits in
//! common. So networks can still be told apart, no two addresses become one, and
//! who has the key finds the way back. Each bit is turned over or not by SipHash
//! of the bits before it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crane_model::Secret;

/// Bits of an address that its network has.
const NETWORK: [u32; 2] = [24, 48];

/// A way to hide addresses.
#[derive(Debug)]
pub enum Anonymiser {
    /// Shows their networks.
    Prefix,
    /// Shows pseudonyms under this key.
    Keyed(Secret),
}

/// The bits of an address, aligned to the left, and how many they are.
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

/// The first bits, the others zero.
fn first(bits: u128, count: u32) -> u128 {
    bits & !u128::MAX.checked_shr(count).unwrap_or(0)
}

impl Anonymiser {
    /// What is shown of an address.
    pub fn show(&self, real: IpAddr) -> IpAddr {
        let (bits, length) = bits(real);
        match self {
            Self::Prefix => {
                let network = NETWORK[usize::from(length > 32)];
                address(first(bits, network), length)
            }
            Self::Keyed(secret) => {
                let turned = (0..length).filter(|at| turns(secret, bits, *at, length));
                let mask = turned.fold(0, |mask, at| mask | bit(at));
                address(bits ^ mask, length)
            }
        }
    }

    /// The address behind what is shown; none where there is no way back.
    pub fn real(&self, shown: IpAddr) -> Option<IpAddr> {
        let Self::Keyed(secret) = self else {
            return None;
        };
        let (mut bits, length) = bits(shown);
        for at in 0..length {
            // All bits before this one are real by now.
            if turns(secret, bits, at, length) {
                bits ^= bit(at);
            }
        }
        Some(address(bits, length))
    }
}

fn bit(at: u32) -> u128 {
    1 << (127 - at)
}

/// Whether a bit is turned over, which those before it decide.
fn turns(secret: &Secret, bits: u128, at: u32, length: u32) -> bool {
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
    fn pseudonyms_keep_prefixes_and_lead_back() {
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
    fn networks_have_no_hosts() {
        let shown = |text: &str| Anonymiser::Prefix.show(text.parse().unwrap()).to_string();
        assert_eq!(shown("10.1.2.3"), "10.1.2.0");
        assert_eq!(shown("2001:db8:1:2:3::4"), "2001:db8:1::");
        assert_eq!(Anonymiser::Prefix.real([10, 1, 2, 0].into()), None);
    }
}
