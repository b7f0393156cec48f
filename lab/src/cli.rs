//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use crane_agent::config::Profile;
use crane_agent::config::length::WindowLength;
use crane_agent::config::size::Size;
use crane_agent::process::log::LogFormat;
use crane_model::{Carry, DeviceChoice, Ids, Writes};

use crate::ablation::Part;
use crate::eval::methods::Method;
use crate::train::{Options, packed};

/// Compare Crane with other methods and train its weights. For development of the
/// sketch; operators need crane-agent only.
#[derive(Debug, Parser)]
#[command(name = "crane-lab", version, about, propagate_version = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,

    /// Log more on standard error; twice for even more.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,

    /// Log errors only.
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,

    /// How log lines are written.
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Measure Crane and other methods on an edge stream.
    Eval(Eval),
    /// Train the weights of a sketch on synthetic streams.
    Train(Train),
    /// Measure how fast both profiles are on each device.
    Device(Device),
}

/// How a report is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// Text tables.
    Table,
    /// JSON.
    Json,
}

/// `crane-lab eval`
#[derive(Debug, Args)]
pub struct Eval {
    /// Text (`src dst [weight]` a line) or binary (`.u32`); .gz and .zst are unpacked.
    pub stream: PathBuf,
    /// Memory for each method.
    #[arg(long, default_value = "64KiB", value_parser = eval_memory)]
    pub memory: Size,
    /// Read the first N arrivals only.
    #[arg(long, value_name = "N")]
    pub edges: Option<usize>,
    /// Methods to measure, separated by commas.
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = Method::value_variants().iter().copied())]
    pub methods: Vec<Method>,
    /// How to show the figures.
    #[arg(long, value_enum, default_value_t = ReportFormat::Table)]
    pub format: ReportFormat,
    /// Save the state of the one method that is measured.
    #[arg(long, value_name = "FILE")]
    pub save_state: Option<PathBuf>,
    /// Answer from a saved state instead of storing the stream.
    #[arg(long, value_name = "FILE", conflicts_with = "save_state")]
    pub load_state: Option<PathBuf>,
    /// Weight file for one profile of Crane, instead of the built-in weights.
    #[arg(long, value_name = "FILE")]
    pub weights: Option<PathBuf>,
    /// Let the packed profile start as a table of this size and grow up to --memory.
    #[arg(long, value_name = "SIZE")]
    pub start: Option<Size>,
    /// How the packed profile selects the cells of an edge.
    #[arg(long, value_enum, default_value_t = CodeKind::Hashed)]
    pub codes: CodeKind,
    /// Leave out parts of the packed profile: heavy, narrow, decoder or witnesses.
    #[arg(long, value_name = "PART", value_delimiter = ',', value_enum)]
    pub without: Vec<Part>,
    /// Arrivals in a batch.
    #[arg(long, default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub batch: u32,
    /// How Crane carries: sequential, batch_synchronous or mini_batch.
    #[arg(long, default_value_t)]
    pub carry: Carry,
    /// Device of Crane: auto, cpu, cpu-tensor or cuda:N.
    #[arg(long, default_value_t)]
    pub device: DeviceChoice,
    /// Random seed; the same seed gives the same figures.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// How the cells of an edge are selected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CodeKind {
    /// A keyed hash.
    Hashed,
    /// The trained encoders of the paper profile, applied to a keyed hash.
    Learned,
}

/// `crane-lab train`
#[derive(Debug, Args)]
pub struct Train {
    /// Weight file to write.
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Profile to train; `packed` uses --seed, --streams, --steps and --without only.
    #[arg(long, value_enum, default_value_t = Profile::Paper)]
    pub profile: Profile,
    /// Number of training streams of the packed profile.
    #[arg(long, default_value_t = packed::Options::default().streams)]
    pub streams: usize,
    /// Parts of the packed profile to leave out in training.
    #[arg(long, value_name = "PART", value_delimiter = ',', value_enum)]
    pub without: Vec<Part>,
    /// Checkpoint file; if it exists, training continues from it.
    #[arg(long, value_name = "FILE")]
    pub checkpoint: Option<PathBuf>,
    /// Random seed; the same seed gives the same weights.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Largest number of steps; training ends earlier if validation does not improve.
    #[arg(long)]
    pub steps: Option<usize>,
    /// Start from the encoders of this weight file; with --steps 0 only the decoder is fitted.
    #[arg(long, value_name = "FILE")]
    pub encoders: Option<PathBuf>,
    /// Largest number of layers.
    #[arg(long, default_value_t = Options::default().layers as u8, value_parser = clap::value_parser!(u8).range(1..=16))]
    pub layers: u8,
    /// Carry threshold.
    #[arg(long, default_value_t = Options::default().theta)]
    pub theta: f32,
    /// Mean load of the top layer at which a layer is added.
    #[arg(long, default_value_t = Options::default().tau)]
    pub tau: f32,
    /// Layers that an arrival is written to: `every`, or `bottom` only.
    #[arg(long, default_value_t)]
    pub writes: Writes,
    /// Ids that the encoders are given: `pair`, or `node` as in the paper.
    #[arg(long, default_value_t)]
    pub ids: Ids,
    /// Largest number of edges in a training stream of the encoders.
    #[arg(long, default_value_t = Options::default().largest)]
    pub largest: usize,
}

/// `crane-lab device`
#[derive(Debug, Args)]
pub struct Device {
    /// Device to measure; may be given several times. Default: cpu, cpu-tensor, and
    /// in a CUDA build every GPU.
    #[arg(long, value_name = "DEVICE")]
    pub device: Vec<DeviceChoice>,
    /// Largest memory of a sketch; the paper profile uses no more than its layers need.
    #[arg(long, default_value = "1MiB", value_parser = eval_memory)]
    pub memory: Size,
    /// Arrivals in a stored batch, and edges in a query.
    #[arg(long, default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub batch: u32,
    /// Duration of each measurement.
    #[arg(long, default_value = "1s")]
    pub time: WindowLength,
    /// How to show the figures.
    #[arg(long, value_enum, default_value_t = ReportFormat::Table)]
    pub format: ReportFormat,
    /// Random seed.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// Parses the memory of a method, which is limited to what a sketch of the agent may
/// have.
fn eval_memory(text: &str) -> Result<Size, String> {
    const MOST: Size = Size(1 << 30);
    match text.parse::<Size>()? {
        size if size <= MOST => Ok(size),
        size => Err(format!("{size}: must be {MOST} or less")),
    }
}
