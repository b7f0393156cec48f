//! crane-lab: compares Crane with other methods, and trains its weights.
//!
//! It is for development of the sketch; operators do not need it. The program calls
//! [`main`].
//!
//! | module | contents |
//! |---|---|
//! | [`cli`], `commands` | the command line and its commands |
//! | [`eval`] | every method on one edge stream, side by side |
//! | [`rivals`] | the other methods |
//! | [`ablation`] | the packed profile without some of its parts |
//! | [`train`] | training of both profiles, on synthetic streams |
//! | [`devices`] | store and query rates of both profiles on each device |
//!
//! Answers are scored by [`crane_agent::report::score`] and
//! [`crane_agent::report::intervals`], which `crane-agent replay --verify` uses as well.

pub mod ablation;
pub mod cli;
mod commands;
pub mod devices;
pub mod eval;
pub mod rivals;
pub mod train;

use std::io;
use std::process::ExitCode;

use clap::Parser;
use crane_agent::process::log;

use cli::{Cli, Command};

/// Runs the command that the arguments of the process select.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    log::start(cli.quiet, cli.verbose, cli.log_format);
    let mut out = io::stdout().lock();
    let done = match &cli.command {
        Command::Eval(args) => commands::eval::run(args, &mut out),
        Command::Train(args) => commands::train::run(args, &mut out),
        Command::Device(args) => commands::device::run(args, &mut out),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if log::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            log::fatal_of("crane-lab", &error);
            ExitCode::FAILURE
        }
    }
}
