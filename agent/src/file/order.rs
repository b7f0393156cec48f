//! The byte order of a capture, which is that of the machine that wrote it.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Most significant byte first.
    Big,
    /// Least significant byte first.
    Little,
}

impl Order {
    /// Reads a number of 2 bytes at `at`. Panics if there are fewer.
    #[inline]
    pub fn u16(self, bytes: &[u8], at: usize) -> u16 {
        let number = [bytes[at], bytes[at + 1]];
        match self {
            Self::Big => u16::from_be_bytes(number),
            Self::Little => u16::from_le_bytes(number),
        }
    }

    /// Reads a number of 4 bytes at `at`. Panics if there are fewer.
    #[inline]
    pub fn u32(self, bytes: &[u8], at: usize) -> u32 {
        let number = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        match self {
            Self::Big => u32::from_be_bytes(number),
            Self::Little => u32::from_le_bytes(number),
        }
    }

    /// Reads a number of 8 bytes at `at`. Panics if there are fewer.
    #[inline]
    pub fn u64(self, bytes: &[u8], at: usize) -> u64 {
        let (one, two) = (self.u32(bytes, at), self.u32(bytes, at + 4));
        let (high, low) = match self {
            Self::Big => (one, two),
            Self::Little => (two, one),
        };
        u64::from(high) << 32 | u64::from(low)
    }
}
