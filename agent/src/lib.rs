//! crane-agent: captures packets, stores pairs of addresses in sketches, and exports the heaviest.
//! The program `crane-agent` is [`main`]; `crane-lab`, which measures the sketch, uses the public
//! modules.
//!
//! A packet goes from [`capture`], or from a [file](mod@file) by [`replay`], through [`decode`] and
//! [`ring`] into the [`sketches`] of a [`window`]. `export`, `lines`, `http`, `report` and `top`
//! produce output from windows. [`saved`] keeps windows over a restart. All folders use [`config`]
//! and the types of [`traffic`]; `commands` combines them. `tests/rooms.rs` checks which folder may
//! use which.
#![allow(missing_docs)]

pub mod capture;
mod cli;
mod commands;
pub mod config;
pub mod decode;
mod export;
pub mod file;
pub mod filter;
mod http;
mod lines;
pub mod lookup;
pub mod process;
pub mod replay;
pub mod report;
pub mod ring;
pub mod saved;
pub mod sketches;
pub mod text;
mod top;
pub mod traffic;
pub mod window;

use std::process::ExitCode;

use clap::FromArgMatches;

use process::log;

/// Exit code of a bad configuration, as in sysexits.h.
const BAD_CONFIG: u8 = 78;

/// Runs the command in the arguments of the process.
pub fn main() -> ExitCode {
    // By default, clap uses colours whenever CI is set.
    let colour = match text::terminal::has_colours(true) {
        true => clap::ColorChoice::Auto,
        false => clap::ColorChoice::Never,
    };
    let matches = commands::command().color(colour).get_matches();
    let cli = cli::Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    log::start(cli.quiet, cli.verbose, cli.log_format);
    match commands::run(cli.command) {
        Ok(code) => code,
        Err(error) if log::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            log::fatal(&error);
            let config = error.downcast_ref::<config::ConfigError>().is_some();
            ExitCode::from(if config { BAD_CONFIG } else { 1 })
        }
    }
}
