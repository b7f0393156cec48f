//! Names: the keys of a sketch.
//!
//! An edge between IPv4 addresses is named by 8 bytes, an edge between IPv6 addresses by
//! 32 bytes. A sketch holds names of both lengths, and a short name does not take the
//! room of a long one.

use std::fmt::Debug;

use crate::Edge;

/// A name of 8 bytes: two IPv4 addresses, or anything else that fits.
pub type Narrow = [u64; 1];

/// A name of 32 bytes: two IPv6 addresses, or anything else that fits.
pub type Wide = [u64; 4];

/// A name of either length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AnyName {
    /// 8 bytes.
    Narrow(Narrow),
    /// 32 bytes.
    Wide(Wide),
}

/// A name of a fixed length: [`Narrow`] or [`Wide`].
pub trait Name: Copy + Eq + Ord + Debug + Default + Send + 'static {
    /// The name as a name of either length.
    fn any(self) -> AnyName;

    /// The name, if it has this length.
    fn of(any: AnyName) -> Option<Self>;

    /// The words of the name.
    fn words(&self) -> &[u64];

    /// The name with these words. There must be as many as the name has.
    fn from_words(words: &[u64]) -> Self;
}

impl Name for Narrow {
    fn any(self) -> AnyName {
        AnyName::Narrow(self)
    }

    fn of(any: AnyName) -> Option<Self> {
        match any {
            AnyName::Narrow(name) => Some(name),
            AnyName::Wide(_) => None,
        }
    }

    fn words(&self) -> &[u64] {
        self
    }

    fn from_words(words: &[u64]) -> Self {
        std::array::from_fn(|at| words[at])
    }
}

impl Name for Wide {
    fn any(self) -> AnyName {
        AnyName::Wide(self)
    }

    fn of(any: AnyName) -> Option<Self> {
        match any {
            AnyName::Wide(name) => Some(name),
            AnyName::Narrow(_) => None,
        }
    }

    fn words(&self) -> &[u64] {
        self
    }

    fn from_words(words: &[u64]) -> Self {
        std::array::from_fn(|at| words[at])
    }
}

impl Edge {
    /// The name of the edge in a sketch.
    pub fn name(self) -> Narrow {
        [u64::from(self.src) << 32 | u64::from(self.dst)]
    }

    /// The edge with this name.
    pub fn of_name([name]: Narrow) -> Self {
        Self::new((name >> 32) as u32, name as u32)
    }
}
