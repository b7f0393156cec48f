//! Which layers are written to, on which the paper contradicts itself.

use std::fmt;
use std::str::FromStr;

use crate::{Error, Result, choice};

/// Which layers an arrival is written to. The paper says both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Writes {
    /// The bottom one; those above receive mass only by carry, and a unit in
    /// layer i stands for θ^(i−1) packets.
    Bottom,
    /// All there are, each of which has what was carried into it besides. A
    /// layer from which little is carried is then a count of its own, and
    /// several of them err less than one.
    #[default]
    Every,
}

impl Writes {
    /// Names in weight files and on the command line.
    pub const NAMES: [(&'static str, Self); 2] = [("bottom", Self::Bottom), ("every", Self::Every)];
}

impl fmt::Display for Writes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(choice::name(&Self::NAMES, self))
    }
}

impl FromStr for Writes {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        choice::parse("writes", &Self::NAMES, text)
    }
}
