//! Names: what a sketch is keyed by.
//!
//! An edge between IPv4 addresses is named by 8 bytes, one between IPv6
//! addresses by 32. A sketch holds both kinds beside each other, and each name
//! takes no more room than it has to.

use std::fmt::Debug;

use crate::Edge;

/// A name of 8 bytes: two IPv4 addresses, or anything else that fits.
pub type Narrow = [u64; 1];

/// A name of 32 bytes: two IPv6 addresses, or anything else that fits.
pub type Wide = [u64; 4];

/// A name of either kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AnyName {
    /// 8 bytes.
    Narrow(Narrow),
    /// 32 bytes.
    Wide(Wide),
}

/// [`Narrow`] or [`Wide`].
pub trait Name: Copy + Eq + Ord + Debug + Default + Send + 'static {
    /// The name as one of either kind.
    fn any(self) -> AnyName;

    /// The name, if it is of this kind.
    fn of(any: AnyName) -> Option<Self>;

    /// Its words.
    fn words(&self) -> &[u64];

    /// The name of these words, which are as many as it has.
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
    /// The edge as sketches know it.
    pub fn name(self) -> Narrow {
        [u64::from(self.src) << 32 | u64::from(self.dst)]
    }

    /// The edge of a name.
    pub fn of_name([name]: Narrow) -> Self {
        Self::new((name >> 32) as u32, name as u32)
    }
}
