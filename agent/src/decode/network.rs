//! The IP header.

use etherparse::err::{ipv4, ipv6};
use etherparse::{Ipv4HeaderSlice, Ipv6HeaderSlice};

use crate::edge::Pair;
use crate::tally::Ignored;

/// Addresses of an IPv4 header.
pub fn ipv4(data: &[u8]) -> Result<Pair, Ignored> {
    match Ipv4HeaderSlice::from_slice(data) {
        Ok(header) => Ok(Pair::new(header.source_addr(), header.destination_addr())),
        Err(ipv4::HeaderSliceError::Len(_)) => Err(Ignored::Truncated),
        Err(ipv4::HeaderSliceError::Content(_)) => Err(Ignored::Malformed),
    }
}

/// Addresses of an IPv6 header.
pub fn ipv6(data: &[u8]) -> Result<Pair, Ignored> {
    match Ipv6HeaderSlice::from_slice(data) {
        Ok(header) => Ok(Pair::new(header.source_addr(), header.destination_addr())),
        Err(ipv6::HeaderSliceError::Len(_)) => Err(Ignored::Truncated),
        Err(ipv6::HeaderSliceError::Content(_)) => Err(Ignored::Malformed),
    }
}
