//! Packets of every kind. The integration tests include these files, too, and compare with
//! the decoding of tshark.
#![allow(dead_code)]

pub mod frame;
pub mod packets;
