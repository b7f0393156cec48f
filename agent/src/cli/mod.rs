//! The command line.

mod version;

use std::net::{IpAddr, SocketAddr};
use std::num::NonZero;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use crane_model::DeviceChoice;

use crate::config::length::WindowLength;
use crate::config::pattern::Pattern;
use crate::config::values::socket_address;
use crate::filter;
use crate::lines::line::LineFormat;
use crate::process::log::LogFormat;
use crate::replay::pace::Speed;
use crate::replay::synthetic::Traffic;
use crate::traffic::endpoint::Endpoint;
use crate::traffic::question::{By, Question, WindowName};
use crate::traffic::service::filter::ServiceFilter;

/// Shows which addresses talk to each other: captures packets, keeps a small sketch of all
/// pairs of addresses per interface, and exports the heavy hitters to Prometheus.
#[derive(Debug, Parser)]
#[command(version, long_version = version::long(), about, after_help = VARIABLES, propagate_version = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,

    /// Log more; give it twice for even more.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,

    /// Log errors only.
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,

    /// Format of log lines.
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
}

const VARIABLES: &str = "\
Every key of the configuration file can also be set by a variable:
CRANE_SECTION_KEY, like CRANE_CAPTURE_SNAPLEN=128. Flags win over variables,
variables over the file.";

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Capture live traffic and export it.
    ///
    /// SIGINT and SIGTERM end it. SIGHUP reloads the configuration, names and certificates;
    /// if there is an error, nothing changes.
    Run(Run),
    /// Analyse capture files.
    Replay(Replay),
    /// Ask a running agent about a pair, a network or an address.
    Query(Query),
    /// Show the heavy hitters of a running agent, live on a terminal.
    Top(Top),
    /// Write a window of a running agent as lines for other programs.
    ///
    /// One line for each window and one for each row of its lists, as JSON Lines or CSV; the
    /// reference explains the columns. `export.jsonl` has the agent write the same lines into
    /// a file whenever a window ends.
    Export(Export),
    /// List the interfaces of this machine.
    Interfaces,
    /// Check a configuration file, and the variables that override it.
    ///
    /// Checks everything that needs no device: keys and values, the filter, the weights,
    /// certificates and users of `export.web_config`, and which devices this binary supports.
    CheckConfig {
        /// Configuration file.
        file: PathBuf,
    },
    /// Write a sample capture: some hundred hosts, heavy pairs, a scan, a flood.
    Sample {
        /// File to write.
        file: PathBuf,
        /// Kind of traffic; `skewed`, `hostile` and `forged` are for measuring speed.
        #[arg(long, value_enum, default_value_t = Traffic::Office)]
        kind: Traffic,
        /// Number of packets.
        #[arg(long, default_value_t = 60_000)]
        packets: u64,
        /// The same seed gives the same file.
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Write the manual page of a command, for `man -l -`.
    Man {
        /// Command. Default: the page of the program.
        #[arg(conflicts_with = "dir")]
        command: Option<String>,
        /// Write all pages into this directory.
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
    /// Write a completion script for a shell.
    Completions {
        /// Shell.
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
    /// Interface not to capture on, written in the same way.
    #[arg(short = 'x', long, value_name = "IFACE")]
    pub exclude: Vec<Pattern>,
    /// Address and port to serve metrics at; may be given several times.
    #[arg(long, value_name = "ADDR:PORT", value_parser = socket_address)]
    pub listen: Vec<SocketAddr>,
    /// Length of a window, like 60s or 5m.
    #[arg(long, value_name = "LENGTH")]
    pub window: Option<WindowLength>,
    /// Directory in which windows are saved, so that the next run continues them.
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Keep all capabilities. Default: only CAP_NET_RAW is kept, which is needed to capture.
    #[arg(long)]
    pub keep_privileges: bool,
    #[command(flatten)]
    pub sketch: SketchArgs,
}

/// `crane-agent replay`
#[derive(Debug, Args)]
pub struct Replay {
    /// Capture files (pcap or pcapng, also .gz and .zst), directories of them, or
    /// `-` for standard input. The format is detected by content, not by name.
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Configuration file; flags override it.
    #[arg(short, long, value_name = "FILE", env = "CRANE_CONFIG")]
    pub config: Option<PathBuf>,
    /// Only packets that match this filter, in tcpdump's language; overrides
    /// `capture.filter`. All others are treated as if they were not in the file.
    #[arg(long, value_name = "EXPR", value_parser = filter::parse)]
    pub filter: Option<String>,
    /// `max`, or a factor: 1 replays as fast as it was captured, 10 ten times as fast;
    /// pauses of more than an hour are left out.
    #[arg(long, default_value = "max", value_parser = speed)]
    pub speed: Speed,
    /// `whole`, or the length of a window in packet time, like 60s.
    #[arg(long, value_name = "LENGTH", default_value = "whole", value_parser = replay_window)]
    pub window: ReplayWindow,
    /// Also count exactly, and show the error of the sketch.
    #[arg(long)]
    pub verify: bool,
    /// Cores to use. With 1, one thread decodes and one stores; with 2 or more, a third reads
    /// ahead and a fourth stores addresses and services. The answers are the same. Default: all.
    #[arg(short, long, value_name = "N", value_parser = count)]
    pub jobs: Option<NonZero<usize>>,
    /// Decode only, to measure the cost of the sketch.
    #[arg(long, hide = true)]
    pub no_sketch: bool,
    /// Number of pairs, sources and destinations to show. Default: 10, or `export.top`.
    #[arg(long, value_name = "K", value_parser = count)]
    pub top: Option<NonZero<usize>>,
    /// Order: packets or bytes. Default: bytes in tables, packets in JSON.
    #[arg(long, value_enum)]
    pub sort: Option<By>,
    /// Also show conversations, with both directions between two addresses in one row, and
    /// both directions of the answers to --ask.
    #[arg(long)]
    pub both: bool,
    /// Ask about a pair, like 10.0.0.1,10.0.0.2, about networks, by prefix or
    /// configured name, like '10.0.0.0/8,*', about an AS, like 'AS64496,*', about a service of
    /// them, like '10.0.0.0/8,*,443' or 10.0.0.1,10.0.0.2,tcp/443, or about all traffic of an
    /// address; may be given several times. The answer has an estimate, its 90 % interval,
    /// and the guaranteed bounds.
    #[arg(long, value_name = "SRC,DST[,SERVICE]|IP")]
    pub ask: Vec<Question>,
    /// Output format.
    #[arg(long, value_enum, default_value_t = ReportFormat::Table)]
    pub format: ReportFormat,
    /// Show all digits in the table, not 12.3 k or 4.5 MiB.
    #[arg(long)]
    pub exact: bool,
    /// Also write a self-contained HTML page with the results. With --window it has a
    /// chart.
    #[arg(long, value_name = "FILE.html", conflicts_with_all = ["serve", "repeat"])]
    pub report: Option<PathBuf>,
    /// Serve metrics during the replay, and after the last packet until stopped.
    #[arg(long)]
    pub serve: bool,
    /// Read all files as one capture in the order of time, for example a directory of
    /// rotated captures.
    #[arg(long, conflicts_with = "repeat")]
    pub merge: bool,
    /// Start again at the end of the files, until stopped.
    #[arg(long = "loop")]
    pub repeat: bool,
    /// Address and port to serve metrics at; may be given several times.
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
    group = clap::ArgGroup::new("whom").args(["src", "dst", "node", "port", "service"])
        .required(true).multiple(true)
)]
pub struct Query {
    /// Source: an address, a prefix like 10.0.0.0/8, a configured name, an AS like AS64496,
    /// or `*` for any address, which is the default if only --dst is given.
    #[arg(long, value_name = "SRC")]
    pub src: Option<Endpoint>,
    /// Destination, written in the same way; `*` if only --src is given.
    #[arg(long, value_name = "DST")]
    pub dst: Option<Endpoint>,
    /// Include the other direction.
    #[arg(long, requires = "src")]
    pub both: bool,
    /// All traffic that this address sends and receives.
    #[arg(long, value_name = "IP", conflicts_with_all = ["src", "dst", "both"], value_parser = address)]
    pub node: Option<IpAddr>,
    /// Only packets of this port of a server, whatever the protocol. Without --src and --dst:
    /// the pairs that have most of them.
    #[arg(long, value_name = "PORT", conflicts_with = "node")]
    pub port: Option<u16>,
    /// The same for a service: tcp/443, a name like https, or a protocol like icmp.
    #[arg(long, value_name = "SERVICE", conflicts_with_all = ["node", "port"])]
    pub service: Option<ServiceFilter>,
    /// Order of pairs and services: packets or bytes. Default: bytes in tables, packets in JSON.
    #[arg(long, value_enum)]
    pub sort: Option<By>,
    #[command(flatten)]
    pub ask: Ask,
}

/// The two forms of the command.
const QUERY_USAGE: &str = "\
crane-agent query [--src <SRC>] [--dst <DST>] [--both] [--port <PORT> | --service <SERVICE>] [OPTIONS]
       crane-agent query --port <PORT> | --service <SERVICE> [OPTIONS]
       crane-agent query --node <IP> [OPTIONS]";

const QUERY_ANSWER: &str = "\
An answer is exact, or it has three parts: an estimate; the 90 % interval, in which
the true number is in nine of ten cases; and guaranteed bounds, which hold for any
traffic.";

/// `crane-agent top`
#[derive(Debug, Args)]
pub struct Top {
    /// Order: packets or bytes. Default: bytes, in JSON packets.
    #[arg(long, value_enum)]
    pub by: Option<By>,
    /// Begin with all interfaces in one view. Their packets are not added up.
    #[arg(short, long, conflicts_with = "interface")]
    pub all: bool,
    /// Print the lists once and exit. Default if the output is not a terminal.
    #[arg(long)]
    pub once: bool,
    /// Interval between updates.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub interval: Duration,
    #[command(flatten)]
    pub ask: Ask,
}

/// `crane-agent export`
#[derive(Debug, Args)]
pub struct Export {
    /// Address of the agent: host:port, a URL like https://host:port, or the path of its
    /// unix socket.
    #[arg(long, value_name = "WHERE", default_value = "127.0.0.1:9732")]
    pub agent: String,
    #[command(flatten)]
    pub credentials: Credentials,
    /// Only this interface.
    #[arg(short, long, value_name = "IFACE")]
    pub interface: Option<String>,
    /// Window. Default: the last complete one, or the current one if none is complete; the
    /// column `complete` says which.
    #[arg(long, value_enum)]
    pub window: Option<WindowName>,
    /// Output format.
    #[arg(long, value_enum, default_value_t = LineFormat::Jsonl)]
    pub format: LineFormat,
}

/// Flags of commands that ask a running agent.
#[derive(Debug, Args)]
pub struct Ask {
    /// Address of the agent: host:port, a URL like https://host:port, or the path of its
    /// unix socket.
    #[arg(long, value_name = "WHERE", default_value = "127.0.0.1:9732")]
    pub agent: String,
    #[command(flatten)]
    pub credentials: Credentials,
    /// Only this interface.
    #[arg(short, long, value_name = "IFACE")]
    pub interface: Option<String>,
    /// Window. Default: the last complete one, or the current one if none is complete; the
    /// current one if `top` is live.
    #[arg(long, value_enum)]
    pub window: Option<WindowName>,
    /// Output format.
    #[arg(long, value_enum, default_value_t = ReportFormat::Table)]
    pub format: ReportFormat,
    /// Show all digits in the table, not 12.3 k or 4.5 MiB.
    #[arg(long)]
    pub exact: bool,
}

/// Credentials for a protected agent. Its unix socket needs none.
#[derive(Debug, Default, Args)]
pub struct Credentials {
    /// User name. The password is read from the variable CRANE_PASSWORD or from a file.
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// File whose first line is the password.
    #[arg(long, value_name = "FILE", requires = "user")]
    pub password_file: Option<PathBuf>,
    /// CA file that verifies the agent. Default: the CAs of this machine.
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// Client certificate (mTLS).
    #[arg(long, value_name = "FILE", requires = "key")]
    pub cert: Option<PathBuf>,
    /// Key of the client certificate.
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub key: Option<PathBuf>,
}

/// Flags of commands that have a sketch.
#[derive(Debug, Default, Args)]
pub struct SketchArgs {
    /// Where the sketch runs: auto, cpu, cpu-tensor or cuda:N.
    #[arg(long)]
    pub device: Option<DeviceChoice>,
    /// Seed of all random numbers: the same seed gives the same results. Default: 1; `run`
    /// uses a random key of the operating system.
    #[arg(long)]
    pub seed: Option<u64>,
}

impl Query {
    /// Returns the services that the question is about. `None` for all.
    pub fn services(&self) -> Option<ServiceFilter> {
        let port = self.port.map(ServiceFilter::port);
        self.service.clone().or(port)
    }
}

impl SketchArgs {
    /// Returns the seed, with a fixed default for reproducible results.
    pub fn seed(&self) -> u64 {
        self.seed.unwrap_or(1)
    }
}

/// Output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// Text tables.
    Table,
    /// JSON for programs.
    Json,
    /// Comma-separated values: the columns of `crane-agent export`.
    Csv,
}

impl ReportFormat {
    /// The order of lists: as given, otherwise the default of the format.
    pub fn order(self, asked: Option<By>) -> By {
        asked.unwrap_or(match self {
            Self::Table => By::Bytes,
            Self::Json | Self::Csv => By::Packets,
        })
    }
}

/// Windows of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplayWindow {
    /// One window for the whole capture.
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
