//! What encoders see of an edge: its nodes, or both of them at once.

use std::fmt;
use std::str::FromStr;

use crate::{Edge, Error, choice};

/// Which ids of an edge the encoders see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ids {
    /// Those of its nodes, as in the paper: all edges of a node share a row or
    /// a column, which fills up where traffic is star-shaped.
    Node,
    /// Two made of both by a bijection of 64 bits: every edge is by itself.
    #[default]
    Pair,
}

impl Ids {
    /// Names in weight files and on the command line.
    pub const NAMES: [(&'static str, Self); 2] = [("node", Self::Node), ("pair", Self::Pair)];

    /// The edge as the encoders see it.
    pub fn of(self, edge: Edge) -> Edge {
        match self {
            Self::Node => edge,
            Self::Pair => {
                let mut x = u64::from(edge.src) << 32 | u64::from(edge.dst);
                x = (x ^ (x >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
                x = (x ^ (x >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
                x ^= x >> 32;
                Edge::new((x >> 32) as u32, x as u32)
            }
        }
    }
}

impl fmt::Display for Ids {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(choice::name(&Self::NAMES, self))
    }
}

impl FromStr for Ids {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        choice::parse("ids", &Self::NAMES, text)
    }
}
