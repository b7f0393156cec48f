//! Packets of every kind. The tests of the whole program include these files,
//! too, and have tshark decode the same packets.
#![allow(dead_code)]

pub mod frame;
pub mod packets;
