//! The commands that measure the model and make its weights.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use crane_model::packed::Ablation;
use crane_model::train::{Options, packed};
use crane_model::{Carry, Ids, Writes};

use super::{ReportFormat, SketchArgs};
use crate::config::Profile;
use crate::config::size::Size;
use crate::eval::methods::Method;

/// `crane-agent eval`
#[derive(Debug, Args)]
pub struct Eval {
    /// Text (`src dst [weight]` a line) or binary (`.u32`); .gz and .zst are unpacked.
    pub stream: PathBuf,
    /// Memory for each method.
    #[arg(long, default_value = "64KiB", value_parser = eval_memory)]
    pub memory: Size,
    /// Only the first N arrivals.
    #[arg(long, value_name = "N")]
    pub edges: Option<usize>,
    /// Methods, separated by commas.
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = Method::value_variants().iter().copied())]
    pub methods: Vec<Method>,
    /// How to show the figures.
    #[arg(long, value_enum, default_value_t = ReportFormat::Table)]
    pub format: ReportFormat,
    /// Write all that the answers of the one method come from.
    #[arg(long, value_name = "FILE")]
    pub save_state: Option<PathBuf>,
    /// Answer from a saved state instead of storing the stream.
    #[arg(long, value_name = "FILE", conflicts_with = "save_state")]
    pub load_state: Option<PathBuf>,
    /// Weights for Crane instead of those in the program, for either profile.
    #[arg(long, value_name = "FILE")]
    pub weights: Option<PathBuf>,
    /// Let the packed profile start with this much and grow up to --memory.
    #[arg(long, value_name = "SIZE")]
    pub start: Option<Size>,
    /// Which codes the packed profile has.
    #[arg(long, value_enum, default_value_t = CodeKind::Hashed)]
    pub codes: CodeKind,
    /// Leave parts of the packed profile out: heavy, narrow, decoder or witnesses.
    #[arg(long, value_name = "PART", value_delimiter = ',', value_enum)]
    pub without: Vec<Part>,
    /// Arrivals that Crane stores at once.
    #[arg(long, default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub batch: u32,
    /// How Crane carries: sequential, batch_synchronous or mini_batch.
    #[arg(long, default_value_t)]
    pub carry: Carry,
    #[command(flatten)]
    pub sketch: SketchArgs,
}

impl Eval {
    /// The parts of the packed profile that are left out.
    pub fn ablation(&self) -> Ablation {
        Part::ablation(&self.without)
    }
}

/// Where the cells of an edge come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CodeKind {
    /// A keyed hash.
    Hashed,
    /// The trained encoders of the paper profile, behind the keyed hash.
    Learned,
}

/// A part of the packed profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// The table of the heaviest edges.
    #[value(alias = "crown")]
    Heavy,
    /// Narrow cells and the carry between them.
    Narrow,
    /// The network.
    Decoder,
    /// The sample that estimates are calibrated on.
    Witnesses,
}

impl Part {
    /// These parts are left out.
    pub fn ablation(without: &[Self]) -> Ablation {
        Ablation {
            crown: without.contains(&Self::Heavy),
            narrow: without.contains(&Self::Narrow),
            decoder: without.contains(&Self::Decoder),
            witnesses: without.contains(&Self::Witnesses),
        }
    }
}

/// `crane-agent train`
#[derive(Debug, Args)]
pub struct Train {
    /// Where to write the weights.
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Which profile they are for; `packed` takes only --seed, --streams, --steps and --without.
    #[arg(long, value_enum, default_value_t = Profile::Paper)]
    pub profile: Profile,
    /// Streams that the packed profile learns from.
    #[arg(long, default_value_t = packed::Options::default().streams)]
    pub streams: usize,
    /// Parts of the packed profile to train without.
    #[arg(long, value_name = "PART", value_delimiter = ',', value_enum)]
    pub without: Vec<Part>,
    /// Where to keep what an interrupted training needs; continues from there if it exists.
    #[arg(long, value_name = "FILE")]
    pub checkpoint: Option<PathBuf>,
    /// The same seed gives the same weights.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Steps at most; training ends earlier when validation gets no better.
    #[arg(long)]
    pub steps: Option<usize>,
    /// Start from the encoders of this weight file; with --steps 0 only the decoder is fitted.
    #[arg(long, value_name = "FILE")]
    pub encoders: Option<PathBuf>,
    /// Layers at most.
    #[arg(long, default_value_t = Options::default().layers as u8, value_parser = clap::value_parser!(u8).range(1..=16))]
    pub layers: u8,
    /// Carry threshold.
    #[arg(long, default_value_t = Options::default().theta)]
    pub theta: f32,
    /// Load of the top layer at which a layer is added.
    #[arg(long, default_value_t = Options::default().tau)]
    pub tau: f32,
    /// Which layers an arrival is written to: `every`, or the `bottom` one only.
    #[arg(long, default_value_t)]
    pub writes: Writes,
    /// Which ids the encoders see: `pair`, or `node` as in the paper.
    #[arg(long, default_value_t)]
    pub ids: Ids,
    /// Edges of the largest stream that encoders learn from.
    #[arg(long, default_value_t = Options::default().largest)]
    pub largest: usize,
}

/// Memory for a method: no more than a sketch of the agent may have.
fn eval_memory(text: &str) -> Result<Size, String> {
    const MOST: Size = Size(1 << 30);
    match text.parse::<Size>()? {
        size if size <= MOST => Ok(size),
        size => Err(format!("{size} is not possible, allowed is up to {MOST}")),
    }
}
