//! crane-agent: captures packets, sketches who talks to whom, exports the
//! heavy hitters.
//!
//! The way of a packet: [`capture`] → [`decode`] → [`ring`] → [`worker`] →
//! [`snapshot`] → [`metrics`] and [`http`].

mod batch;
mod budget;
mod capture;
mod cli;
mod commands;
mod config;
mod decode;
mod edge;
mod eval;
mod hitters;
mod http;
mod lane;
mod log;
mod metrics;
mod pipeline;
mod plain;
mod process;
mod question;
mod report;
mod ring;
mod sample;
mod size;
mod sketches;
mod small_file;
mod snapshot;
mod span;
mod stop;
mod tally;
mod weights;
mod window_clock;
mod worker;

use std::process::ExitCode;

use clap::Parser;

/// Exit code of a bad configuration, as in sysexits.h.
const BAD_CONFIG: u8 = 78;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    log::start(&cli);
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
