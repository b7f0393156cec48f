//! The layers that an arrival is written to. The paper describes both variants.

use std::fmt;
use std::str::FromStr;

use crate::{Error, Result, choice};

/// Which layers an arrival is written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Writes {
    /// The bottom layer. Higher layers receive packets by carry only, and a unit in layer
    /// i stands for θ^(i−1) packets.
    Bottom,
    /// Every layer. Each layer also receives what is carried to it. If little is carried
    /// out of a layer, it is a count of its own, and the mean of several counts has a
    /// smaller error than one.
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
