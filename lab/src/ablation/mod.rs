//! Variants of the packed profile without some of its parts, or with other codes, to
//! measure what each part contributes.
//!
//! A variant is a [`LayerProfile`] of its own, assembled from the parts of `crane-model`;
//! the agent does not use it. Two variants need a constructor in `crane-model`, because a
//! crown that admits no edges and witnesses that are not used cannot be assembled from
//! outside: `Crown::closed` and `Witnesses::counted_only`.

mod learned;

use std::sync::Arc;

use clap::ValueEnum;
use crane_model::codes::Codes;
use crane_model::crown::SLOT_BYTES;
use crane_model::device::OpenDevice;
use crane_model::layers::{Allotment, LayerProfile};
use crane_model::packed::PackedProfile;
use crane_model::packed::cell_finder::CellFinder;
use crane_model::packed::features::GLOBAL;
use crane_model::packed::narrow::Arrays;
use crane_model::packed::placement::Placement;
use crane_model::packed::profile::CROWN_SHARE;
use crane_model::packed::shape::Shape;
use crane_model::{PackedWeights, PaperWeights, Profile, Result};

use learned::LearnedCells;

/// A part of the packed profile that can be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// The table of the heaviest edges.
    #[value(alias = "crown")]
    Heavy,
    /// Narrow cells and the carry between them.
    Narrow,
    /// The networks that estimate counts.
    Decoder,
    /// The witnesses that calibrate the estimates.
    Witnesses,
}

/// The parts that are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ablation {
    /// The crown.
    pub crown: bool,
    /// Narrow cells and carry. One layer of 32-bit cells remains.
    pub narrow: bool,
    /// The decoder. The upper bound becomes the answer.
    pub decoder: bool,
    /// The witnesses. They are counted, but not used for answers.
    pub witnesses: bool,
}

impl Ablation {
    /// Nothing is left out.
    pub const NONE: Self = Self {
        crown: false,
        narrow: false,
        decoder: false,
        witnesses: false,
    };

    /// Leaves out these parts.
    pub fn of(without: &[Part]) -> Self {
        Self {
            crown: without.contains(&Part::Heavy),
            narrow: without.contains(&Part::Narrow),
            decoder: without.contains(&Part::Decoder),
            witnesses: without.contains(&Part::Witnesses),
        }
    }

    /// The packed profile without these parts, and with the codes of `encoders` if there
    /// are any. Returns the profile that the agent uses if nothing is different.
    pub fn profile(
        self,
        weights: Arc<PackedWeights>,
        encoders: Option<Arc<PaperWeights>>,
        device: &OpenDevice,
    ) -> Profile {
        if self == Self::NONE && encoders.is_none() {
            return Profile::packed(weights, device);
        }
        let weights = match self.decoder {
            false => weights,
            true => Arc::new(without_decoder(&weights)),
        };
        let layers = AblatedProfile {
            packed: PackedProfile::new(weights, device),
            without: self,
            encoders,
        };
        Profile::of_layers(Box::new(layers), device)
    }
}

/// Weights whose decoder covers no load at all, so that every answer is the upper bound.
fn without_decoder(weights: &PackedWeights) -> PackedWeights {
    let mut weights = weights.clone();
    weights.decoder.range = [[f32::INFINITY; GLOBAL], [f32::NEG_INFINITY; GLOBAL]];
    weights
}

/// The packed profile with some of its parts left out or replaced.
struct AblatedProfile {
    packed: PackedProfile,
    without: Ablation,
    encoders: Option<Arc<PaperWeights>>,
}

impl LayerProfile for AblatedProfile {
    fn number(&self) -> u64 {
        self.packed.number()
    }

    fn least(&self) -> usize {
        self.packed.least()
    }

    fn allot(&self, codes: &Codes, bytes: usize) -> Result<Allotment> {
        let crown_share = match self.without.crown {
            false => CROWN_SHARE,
            true => 0.0,
        };
        let shape = Shape::of(bytes, crown_share, SLOT_BYTES)?;
        let arrays = match self.without.narrow {
            false => self.packed.placement().narrow(shape.cell_bytes)?,
            true => wide(self.packed.placement(), shape.cell_bytes)?,
        };
        let mut finder = CellFinder::new(codes);
        if let Some(encoders) = &self.encoders {
            finder = finder.found_by(Arc::new(LearnedCells(Arc::clone(encoders))));
        }
        let mut allotment = self.packed.assemble(codes, &shape, arrays, finder);
        if self.without.crown {
            allotment.crown = allotment.crown.closed();
        }
        if self.without.witnesses {
            allotment.witnesses = allotment.witnesses.counted_only();
        }
        Ok(allotment)
    }
}

/// Empty cells of 32 bits that fit into `bytes` bytes, nearly all of them in the bottom
/// layer.
fn wide(placement: &Placement, bytes: usize) -> Result<Arrays> {
    let least = Shape::cells(0);
    let cells = bytes / 4 / 24 * 24 - 2 * least[0];
    Ok([
        placement.array::<32>(cells)?,
        placement.array::<8>(least[1])?,
        placement.array::<32>(least[2])?,
    ])
}
