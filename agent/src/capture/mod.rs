//! Live capture. [`interfaces`] tracks the network interfaces of the machine and starts or
//! ends a capture when one appears or vanishes. Each interface has a [`sink`], which
//! decodes packets and writes them to the ring of the worker; if the ring is full, packets
//! are dropped and counted.
//!
//! [`network`] lists interfaces and opens captures on them. An open capture is a packet
//! [`source`]: libpcap on this machine, or a fake in tests.

mod captured;
pub mod devices;
mod hand_over;
pub mod interfaces;
mod kernel;
mod libpcap;
mod live;
mod netlink;
pub mod network;
mod open;
mod patterns;
pub mod settings;
pub mod sink;
pub mod source;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod thread;
