//! The bits of an address, as prefixes and ranges calculate with them.

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// An address of one IP version, as a number.
pub trait Address: Copy + Ord {
    const BITS: u32;
    const FIRST: Self;

    /// The last address of the prefix of this length that begins here.
    fn last(self, length: u8) -> Self;

    /// The prefix of this length that begins here.
    fn net(self, length: u8) -> IpNet;

    /// The address after this one.
    fn next(self) -> Option<Self>;

    /// Index of the block of this address, if the first one has the number `first` and the last
    /// one the index `last`. Blocks have 2 to the power of `shift` addresses.
    fn block(self, shift: u32, first: Self, last: usize) -> usize;

    /// Whether this is the first address of a block.
    fn begins_block(self, shift: u32) -> bool;

    /// The number of the block before the one of this address, or 0 if there is none before it.
    fn block_before(self, shift: u32) -> Self;

    /// How many blocks there are from the one before the block of `low` to the one after the
    /// block of this address. An address at the end of all addresses has a block after it, too,
    /// which is not used.
    fn blocks_from(self, low: Self, shift: u32) -> usize;

    /// The address with these bits.
    #[cfg(test)]
    fn of(bits: u128) -> Self;
}

macro_rules! address {
    ($bits:ty, $net:ident, $version:ident) => {
        impl Address for $bits {
            const BITS: u32 = Self::BITS;
            const FIRST: Self = 0;

            #[inline]
            fn last(self, length: u8) -> Self {
                self | Self::MAX.checked_shr(length.into()).unwrap_or(0)
            }

            fn net(self, length: u8) -> IpNet {
                IpNet::$version($net::new_assert(self.into(), length))
            }

            #[inline]
            fn next(self) -> Option<Self> {
                self.checked_add(1)
            }

            #[inline]
            fn block(self, shift: u32, first: Self, last: usize) -> usize {
                (self >> shift).saturating_sub(first).min(last as Self) as usize
            }

            #[inline]
            fn begins_block(self, shift: u32) -> bool {
                self >> shift << shift == self
            }

            fn block_before(self, shift: u32) -> Self {
                (self >> shift).saturating_sub(1)
            }

            fn blocks_from(self, low: Self, shift: u32) -> usize {
                let between = (self >> shift) - low.block_before(shift);
                usize::try_from(between).map_or(usize::MAX, |blocks| blocks.saturating_add(2))
            }

            #[cfg(test)]
            fn of(bits: u128) -> Self {
                bits as Self
            }
        }
    };
}

address!(u32, Ipv4Net, V4);
address!(u128, Ipv6Net, V6);
