//! A packet as it was captured.

/// A link-layer type as numbered in capture files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Link(pub u32);

/// Time of a packet whose capture time is unknown.
pub const NO_TIME: u64 = 0;

#[derive(Debug, Clone, Copy)]
pub struct Packet<'a> {
    /// The captured bytes.
    pub data: &'a [u8],
    pub wire_len: u32,
    /// Capture time in nanoseconds since 1970. [`NO_TIME`] if the packet is live or its
    /// file has no time.
    pub time: u64,
    pub link: Link,
    /// Index of the interface in its file; 0 if there is only one.
    pub interface: u32,
}
