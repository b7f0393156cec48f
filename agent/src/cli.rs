//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use crane_model::DeviceChoice;

/// Watches who talks to whom: captures packets, keeps a small sketch of all
/// pairs of addresses per interface, and exports the heavy hitters to
/// Prometheus.
#[derive(Debug, Parser)]
#[command(version, about, after_help = EXAMPLES, propagate_version = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,

    /// Say more on standard error; twice for even more.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,

    /// Say only what goes wrong.
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,

    /// How log lines are written.
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
}

const EXAMPLES: &str = "\
Examples:
  crane-agent run                          capture on all interfaces that are up
  crane-agent run -i eth0 --listen 127.0.0.1:9732
  crane-agent replay traffic.pcap          who was heavy in this file?
  crane-agent replay traffic.pcap --format json | jq .captures[0].top";

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Capture live traffic and export it.
    Run(Run),
    /// Replay capture files through the same pipeline.
    Replay(Replay),
    /// List the interfaces of this machine.
    Interfaces,
    /// Check a configuration file.
    CheckConfig {
        /// The file.
        file: PathBuf,
    },
    /// Write a sample capture: some hundred hosts, heavy pairs, a scan, a flood.
    Sample {
        /// Where to write it.
        file: PathBuf,
        /// How many packets.
        #[arg(long, default_value_t = 60_000)]
        packets: u64,
        /// The same seed gives the same file.
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Write a completion script for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

/// `crane-agent run`
#[derive(Debug, Args)]
pub struct Run {
    /// Configuration file; flags override it.
    #[arg(short, long, value_name = "FILE", env = "CRANE_CONFIG")]
    pub config: Option<PathBuf>,
    /// Interface to capture on; may be given several times. Default: all that are up.
    #[arg(short, long = "interface", value_name = "IFACE")]
    pub interfaces: Vec<String>,
    /// Where to serve metrics.
    #[arg(long, value_name = "ADDR:PORT")]
    pub listen: Option<SocketAddr>,
    #[command(flatten)]
    pub sketch: SketchArgs,
}

/// `crane-agent replay`
#[derive(Debug, Args)]
pub struct Replay {
    /// Capture files (pcap).
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Configuration file; flags override it.
    #[arg(short, long, value_name = "FILE", env = "CRANE_CONFIG")]
    pub config: Option<PathBuf>,
    /// `max`, or a factor: 1 replays as fast as it was captured, 10 ten times as fast.
    #[arg(long, default_value = "max", value_parser = speed)]
    pub speed: Speed,
    /// How many pairs to show.
    #[arg(long, value_name = "K", default_value_t = 10)]
    pub top: usize,
    /// How to show them.
    #[arg(long, value_enum, default_value_t = ReportFormat::Table)]
    pub format: ReportFormat,
    /// Serve metrics meanwhile, and after the last packet until stopped.
    #[arg(long)]
    pub serve: bool,
    /// Start again at the end, until stopped.
    #[arg(long = "loop")]
    pub repeat: bool,
    /// Where to serve metrics.
    #[arg(long, value_name = "ADDR:PORT", requires = "serve")]
    pub listen: Option<SocketAddr>,
    #[command(flatten)]
    pub sketch: SketchArgs,
}

/// Flags of everything that has a sketch.
#[derive(Debug, Args)]
pub struct SketchArgs {
    /// Where the sketch runs: auto, cpu, cpu-tensor or cuda:N.
    #[arg(long)]
    pub device: Option<DeviceChoice>,
    /// Seed of everything random.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// How log lines are written.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// How a report is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// For people.
    Table,
    /// For programs.
    Json,
}

/// How fast a file is replayed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Speed {
    /// As fast as it goes.
    Max,
    /// This many times as fast as it was captured.
    Times(f64),
}

fn speed(text: &str) -> Result<Speed, String> {
    match (text, text.parse::<f64>()) {
        ("max", _) => Ok(Speed::Max),
        (_, Ok(times)) if times > 0.0 && times.is_finite() => Ok(Speed::Times(times)),
        _ => Err("write `max` or a number above 0".into()),
    }
}
