//! A packet as it was captured.

/// A link-layer type as numbered in capture files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Link(pub u32);

/// The time of a packet of which nobody knows when it was captured.
pub const NO_TIME: u64 = 0;

/// One captured packet.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a> {
    /// What was captured of it.
    pub data: &'a [u8],
    /// Its length on the wire.
    pub wire_len: u32,
    /// When, in nanoseconds since 1970; [`NO_TIME`] if it is live or its file does not say.
    pub time: u64,
    /// What its first header is.
    pub link: Link,
    /// Which interface of its file it is from; 0 where there is only one.
    pub interface: u32,
}
