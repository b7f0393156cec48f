//! Packets of every kind. The integration tests also include these files, and compare the result
//! of decoding with that of tshark.
#![allow(dead_code)]

pub mod frame;
pub mod packets;
