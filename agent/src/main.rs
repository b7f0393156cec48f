//! crane-agent: captures packets, sketches who talks to whom, exports the
//! heavy hitters.
//!
//! The way of a packet: [`capture`] → [`decode`] → [`sketch`] → [`export`] →
//! [`http`]. A room calls only those further on; [`http`] also asks back, at the
//! [`sketch`]. All know [`config`] and the words [`packet`], [`edge`], [`endpoint`],
//! [`names`], [`protocol`], [`service`], [`batches`] and [`tally`]. [`eval`] measures,
//! [`report`] tells of a replay, [`top`] shows a running agent, and [`commands`] put it all together. `tests/rooms.rs`
//! holds these arrows.

mod batches;
mod capture;
mod cli;
mod columns;
mod commands;
mod config;
mod decode;
mod edge;
mod endpoint;
mod eval;
mod export;
mod http;
mod log;
mod names;
mod packet;
mod panics;
mod plain;
mod privileges;
mod protocol;
mod report;
mod service;
mod sketch;
mod stop;
mod systemd;
mod tally;
mod terminal;
mod top;
mod units;

use std::process::ExitCode;

use clap::FromArgMatches;

/// Exit code of a bad configuration, as in sysexits.h.
const BAD_CONFIG: u8 = 78;

fn main() -> ExitCode {
    // clap alone would have colours wherever CI is set.
    let colour = match terminal::has_colours(true) {
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
