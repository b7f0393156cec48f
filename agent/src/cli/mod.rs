//! The command line; that of what measures and makes the model is in [`model`].

mod model;
mod version;

use std::net::{IpAddr, SocketAddr};
use std::num::NonZero;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use crane_model::DeviceChoice;

use crate::capture::filter;
use crate::capture::pace::Speed;
use crate::capture::synthetic::Traffic;
use crate::config::length::WindowLength;
use crate::config::pattern::Pattern;
use crate::config::values::socket_address;
use crate::endpoint::Endpoint;
use crate::log::LogFormat;
use crate::sketch::answer::{About, By, WindowName};

pub use model::{CodeKind, Eval, Part, Train};

/// Watches who talks to whom: captures packets, keeps a small sketch of all
/// pairs of addresses per interface, and exports the heavy hitters to
/// Prometheus.
#[derive(Debug, Parser)]
#[command(version, long_version = version::long(), about, after_help = VARIABLES, propagate_version = true)]
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

const VARIABLES: &str = "\
Every key of the configuration file can also be set by a variable:
CRANE_SECTION_KEY, like CRANE_CAPTURE_SNAPLEN=128. Flags win over variables,
variables over the file.";

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Capture live traffic and export it.
    ///
    /// SIGINT and SIGTERM end it. On SIGHUP it reads its configuration again, with names
    /// and certificates, and acts on what has changed; a mistake changes nothing.
    Run(Run),
    /// Replay capture files through the same pipeline.
    Replay(Replay),
    /// Measure Crane and its rivals on an edge stream.
    Eval(Eval),
    /// Train the weights of a sketch on synthetic streams.
    Train(Train),
    /// Ask a running agent about a pair, networks or a node.
    Query(Query),
    /// Show who is heavy at a running agent now, live on a terminal.
    Top(Top),
    /// List the interfaces of this machine.
    Interfaces,
    /// Check a configuration file, and the variables that are put over it.
    ///
    /// All that can be checked without opening a device: keys and values, the
    /// filter, the weights, certificates and users of `export.web_config`, what this
    /// binary can run on.
    CheckConfig {
        /// The file.
        file: PathBuf,
    },
    /// Write a sample capture: some hundred hosts, heavy pairs, a scan, a flood.
    Sample {
        /// Where to write it.
        file: PathBuf,
        /// What it is like; `skewed` and `hostile` are for measuring speed.
        #[arg(long, value_enum, default_value_t = Traffic::Office)]
        kind: Traffic,
        /// How many packets.
        #[arg(long, default_value_t = 60_000)]
        packets: u64,
        /// The same seed gives the same file.
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Write the manual page of a command, for `man -l -`.
    Man {
        /// The command. Default: the page of the program.
        #[arg(conflicts_with = "dir")]
        command: Option<String>,
        /// Write all pages into this directory.
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
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
    /// Interface to capture on: a name, a glob (`eth*`) or a regular expression
    /// (`/^veth/`); may be given several times. Default: all that are up.
    #[arg(short, long = "interface", value_name = "IFACE")]
    pub interfaces: Vec<Pattern>,
    /// Interface not to capture on, in the same way.
    #[arg(short = 'x', long, value_name = "IFACE")]
    pub exclude: Vec<Pattern>,
    /// Where to serve metrics; may be given several times.
    #[arg(long, value_name = "ADDR:PORT", value_parser = socket_address)]
    pub listen: Vec<SocketAddr>,
    /// Length of a window, like 60s or 5m.
    #[arg(long, value_name = "LENGTH")]
    pub window: Option<WindowLength>,
    /// Directory in which windows are saved, for the next run to go on with them.
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Keep all capabilities. Otherwise only CAP_NET_RAW is kept, which captures.
    #[arg(long)]
    pub keep_privileges: bool,
    #[command(flatten)]
    pub sketch: SketchArgs,
}

/// `crane-agent replay`
#[derive(Debug, Args)]
pub struct Replay {
    /// Capture files (pcap or pcapng, also .gz and .zst), directories of them, or
    /// `-` for standard input. Content decides, not the name.
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Configuration file; flags override it.
    #[arg(short, long, value_name = "FILE", env = "CRANE_CONFIG")]
    pub config: Option<PathBuf>,
    /// Only packets that match this filter, in tcpdump's language; overrides
    /// `capture.filter`. All others are as if they were not in the file.
    #[arg(long, value_name = "EXPR", value_parser = filter::parse)]
    pub filter: Option<String>,
    /// `max`, or a factor: 1 replays as fast as it was captured, 10 ten times as fast;
    /// pauses of more than an hour are left out.
    #[arg(long, default_value = "max", value_parser = speed)]
    pub speed: Speed,
    /// `whole`, or the length of a window in packet time, like 60s.
    #[arg(long, value_name = "LENGTH", default_value = "whole", value_parser = replay_window)]
    pub window: ReplayWindow,
    /// Count exactly, too, and show how far off the sketch is.
    #[arg(long)]
    pub verify: bool,
    /// Decode only: what the sketch costs is the difference.
    #[arg(long, hide = true)]
    pub no_sketch: bool,
    /// How many pairs, sources and destinations to show. Default: 10, or `export.top`.
    #[arg(long, value_name = "K", value_parser = count)]
    pub top: Option<NonZero<usize>>,
    /// By what to order them: packets or bytes.
    #[arg(long, value_enum, default_value_t = By::Packets)]
    pub sort: By,
    /// Show conversations, too: both directions between two addresses in one row;
    /// and both directions of what --ask asks for.
    #[arg(long)]
    pub both: bool,
    /// Ask about a pair, like 10.0.0.1,10.0.0.2, about networks, by prefix or
    /// configured name, like '10.0.0.0/8,*', or all that an address sent and received;
    /// may be given several times. The answer is an estimate, the interval that holds
    /// the truth in nine of ten cases (90 %), and what is certain.
    #[arg(long, value_name = "SRC,DST|IP")]
    pub ask: Vec<About>,
    /// How to show them.
    #[arg(long, value_enum, default_value_t = ReportFormat::Table)]
    pub format: ReportFormat,
    /// Show all digits in the table, not 12.3 k or 4.5 MiB.
    #[arg(long)]
    pub exact: bool,
    /// Write a page, too, that shows the capture in a browser: one file with all
    /// data inside. With --window it has a chart.
    #[arg(long, value_name = "FILE.html", conflicts_with_all = ["serve", "repeat"])]
    pub report: Option<PathBuf>,
    /// Serve metrics meanwhile, and after the last packet until stopped.
    #[arg(long)]
    pub serve: bool,
    /// Take all files together, in the order of time, as one capture; a folder of
    /// rotated captures gives one report.
    #[arg(long, conflicts_with = "repeat")]
    pub merge: bool,
    /// Start again at the end, until stopped.
    #[arg(long = "loop")]
    pub repeat: bool,
    /// Where to serve metrics; may be given several times.
    #[arg(long, value_name = "ADDR:PORT", requires = "serve", value_parser = socket_address)]
    pub listen: Vec<SocketAddr>,
    #[command(flatten)]
    pub sketch: SketchArgs,
}

/// `crane-agent query`
#[derive(Debug, Args)]
#[command(
    after_help = QUERY_ANSWER,
    override_usage = QUERY_USAGE,
    group = clap::ArgGroup::new("whom").args(["src", "node"]).required(true)
)]
pub struct Query {
    /// Who sends: an address, a prefix like 10.0.0.0/8, a configured name, or `*` for
    /// anyone.
    #[arg(long, value_name = "SRC", requires = "dst")]
    pub src: Option<Endpoint>,
    /// Who receives, in the same way.
    #[arg(long, value_name = "DST", requires = "src")]
    pub dst: Option<Endpoint>,
    /// The other direction, too.
    #[arg(long, conflicts_with = "node")]
    pub both: bool,
    /// All that this node sends and receives.
    #[arg(long, value_name = "IP", conflicts_with_all = ["src", "dst"], value_parser = address)]
    pub node: Option<IpAddr>,
    #[command(flatten)]
    pub ask: Ask,
}

/// The two ways to ask.
const QUERY_USAGE: &str = "\
crane-agent query --src <SRC> --dst <DST> [--both] [OPTIONS]
       crane-agent query --node <IP> [OPTIONS]";

const QUERY_ANSWER: &str = "\
An answer is an estimate, the interval that holds the truth in nine of ten cases
(90 %), and what is certain, whatever the traffic; or it is exact.";

/// `crane-agent top`
#[derive(Debug, Args)]
pub struct Top {
    /// By what to order: packets or bytes.
    #[arg(long, value_enum, default_value_t = By::Packets)]
    pub by: By,
    /// Print the lists once, as where the output is no terminal.
    #[arg(long)]
    pub once: bool,
    /// How often to ask the agent.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub interval: Duration,
    #[command(flatten)]
    pub ask: Ask,
}

/// Flags of everything that asks a running agent.
#[derive(Debug, Args)]
pub struct Ask {
    /// The agent: host:port, also as the address that its log names, https://host:port,
    /// or the path of its unix socket.
    #[arg(long, value_name = "WHERE", default_value = "127.0.0.1:9732")]
    pub agent: String,
    #[command(flatten)]
    pub credentials: Credentials,
    /// Only this interface.
    #[arg(short, long, value_name = "IFACE")]
    pub interface: Option<String>,
    /// Which window. Default: the last complete one, the current one until there is one;
    /// where `top` is live, the current one.
    #[arg(long, value_enum)]
    pub window: Option<WindowName>,
    /// How to show the answer.
    #[arg(long, value_enum, default_value_t = ReportFormat::Table)]
    pub format: ReportFormat,
    /// Show all digits in the table, not 12.3 k or 4.5 MiB.
    #[arg(long)]
    pub exact: bool,
}

/// What a protected agent wants to see; its unix socket needs none of it.
#[derive(Debug, Default, Args)]
pub struct Credentials {
    /// Who asks. The password is in the variable CRANE_PASSWORD or in a file.
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// The first line of this file is the password.
    #[arg(long, value_name = "FILE", requires = "user")]
    pub password_file: Option<PathBuf>,
    /// Whom to trust with the agent's certificate. Default: whom this machine trusts.
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// A certificate of our own, for an agent that wants one.
    #[arg(long, value_name = "FILE", requires = "key")]
    pub cert: Option<PathBuf>,
    /// Its key.
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub key: Option<PathBuf>,
}

/// Flags of everything that has a sketch.
#[derive(Debug, Default, Args)]
pub struct SketchArgs {
    /// Where the sketch runs: auto, cpu, cpu-tensor or cuda:N.
    #[arg(long)]
    pub device: Option<DeviceChoice>,
    /// Seed of everything random: the same seed gives the same numbers. Default: 1;
    /// `run` draws a key that nobody knows from the operating system.
    #[arg(long)]
    pub seed: Option<u64>,
}

impl SketchArgs {
    /// The seed where results shall be the same every time.
    pub fn seed(&self) -> u64 {
        self.seed.unwrap_or(1)
    }
}

/// How a report is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// For people.
    Table,
    /// For programs.
    Json,
}

/// Over which time a replay summarises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplayWindow {
    /// All of it.
    Whole,
    /// Windows of this length.
    Length(WindowLength),
}

fn replay_window(text: &str) -> Result<ReplayWindow, String> {
    match text {
        "whole" => Ok(ReplayWindow::Whole),
        _ => text
            .parse()
            .map(ReplayWindow::Length)
            .map_err(|error| format!("{error}; or write `whole`")),
    }
}

fn address(text: &str) -> Result<IpAddr, String> {
    let wrong = |_| "write an address like 10.0.0.1 or 2001:db8::1; a network goes with --src";
    text.trim().parse().map_err(wrong).map_err(str::to_owned)
}

fn count(text: &str) -> Result<NonZero<usize>, String> {
    let wrong = |_| "write a whole number from 1 on".to_owned();
    text.parse().map_err(wrong)
}

fn interval(text: &str) -> Result<Duration, String> {
    const LIMITS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(3600));
    let interval = text.parse::<WindowLength>().map(|length| length.0);
    match interval {
        Ok(interval) if interval >= LIMITS.0 && interval <= LIMITS.1 => Ok(interval),
        _ => Err("write a time from 100ms to 1h, like 1s or 500ms".into()),
    }
}

fn speed(text: &str) -> Result<Speed, String> {
    match (text, text.parse::<f64>()) {
        ("max", _) => Ok(Speed::Max),
        (_, Ok(times)) if times > 0.0 && times.is_finite() => Ok(Speed::Times(times)),
        _ => Err("write `max` or a number above 0".into()),
    }
}
