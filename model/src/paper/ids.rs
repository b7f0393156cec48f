//! The ids that the encoders are given for an edge.

use std::fmt;
use std::str::FromStr;

use crate::{Edge, Error, choice};

/// Which ids the encoders are given for an edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ids {
    /// The ids of its nodes, as in the paper. All edges of a node share a row or a
    /// column, which fills up if traffic is star-shaped.
    Node,
    /// Two ids made from both nodes by a bijection of 64 bits. Edges of the same node
    /// share nothing.
    #[default]
    Pair,
}

impl Ids {
    /// Names in weight files and on the command line.
    pub const NAMES: [(&'static str, Self); 2] = [("node", Self::Node), ("pair", Self::Pair)];

    /// The edge that the encoders are given.
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
