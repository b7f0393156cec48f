//! One module for each command that needs more than a few lines.

mod ask;
mod completions;
mod configure;
mod manual;
mod pages;
mod reload;
mod replay;
mod run;

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use crate::capture::devices;
use crate::cli::{Command, SketchArgs};
use crate::replay::synthetic;
use crate::text::plain;

pub use manual::command;

/// Runs a command and returns its exit code.
pub fn run(command: Command) -> anyhow::Result<ExitCode> {
    let mut out = io::stdout();
    match command {
        Command::Run(args) => run::run(&args)?,
        // A line of a report is not worth a system call.
        Command::Replay(args) => return replay::run(&args, &mut BufWriter::new(out)),
        Command::Query(args) => ask::query(&args, &mut out)?,
        Command::Top(args) => ask::top(&args, &mut out)?,
        Command::Export(args) => ask::export(&args, &mut out)?,
        Command::Interfaces => {
            for device in devices::list()? {
                let state = if device.up { "up" } else { "down" };
                let addresses = device.addresses.iter().map(ToString::to_string);
                let fault = device.fault.map(|fault| format!("(not captured: {fault})"));
                let rest: Vec<String> = addresses.chain(fault).collect();
                let (name, rest) = (plain::text(&device.name), rest.join(" "));
                let line = format!("{name:<16} {state:<5} {rest}");
                // Without a title line, because scripts read the first word of each line.
                writeln!(out, "{}", line.trim_end())?;
            }
        }
        Command::CheckConfig { file } => {
            let loaded = configure::configure(Some(&file), &SketchArgs::default())?;
            configure::check(&loaded.config, &loaded.locations)?;
            writeln!(out, "{}: ok", plain::path(&file))?;
        }
        Command::Sample {
            file,
            kind,
            packets,
            seed,
        } => {
            synthetic::write(&file, kind, packets, seed)?;
            writeln!(out, "{}: {packets} packets", plain::path(&file))?;
        }
        Command::Man { dir: Some(dir), .. } => manual::write_all(&dir)?,
        Command::Man { command, dir: None } => manual::write(command.as_deref(), &mut out)?,
        Command::Completions { shell } => completions::write(shell, &mut out)?,
    }
    Ok(ExitCode::SUCCESS)
}
