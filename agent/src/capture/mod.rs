//! Where packets come from: [`live`] interfaces or [`file`]s.
//!
//! The way of a file: [`folder`] finds it, [`input`] unpacks it, [`buffer`]
//! holds the part at hand, [`pcap`] or [`pcapng`] cuts packets from it.

mod buffer;
mod clock;
pub mod damage;
pub mod devices;
pub mod file;
pub mod folder;
pub mod input;
mod interfaces;
pub mod live;
mod order;
pub mod pattern;
mod pcap;
mod pcapng;
#[cfg(test)]
mod samples;

/// A link-layer type as numbered in capture files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Link(pub u32);

/// One captured packet.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a> {
    /// What was captured of it.
    pub data: &'a [u8],
    /// Its length on the wire.
    pub wire_len: u32,
    /// When, in nanoseconds since 1970; 0 if it is live.
    pub time: u64,
    /// What its first header is.
    pub link: Link,
    /// Which interface of its file it is from; 0 where there is only one.
    pub interface: u32,
}

/// An interface that packets of a file were captured on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CaptureInterface {
    /// Its name, if the file has it.
    pub name: Option<String>,
    /// What the first header of its packets is.
    pub link: Link,
}
