//! `crane-agent completions`: what a shell needs to complete the command line.

use std::io::Write;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::cli::Cli;

/// Writes the script of a shell.
pub fn write(shell: Shell, out: &mut impl Write) -> anyhow::Result<()> {
    // Into memory first: the generator panics where it cannot write.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "crane-agent", &mut script);
    let script = String::from_utf8(script)?;
    let script = match shell {
        // The generator takes the hyphen of the name for a subcommand in one half of
        // the script and not in the other, so that nothing is completed after any
        // subcommand (clap-rs/clap#6421).
        Shell::Bash => script.replace("crane__subcmd__agent", "crane__agent"),
        _ => script,
    };
    Ok(out.write_all(script.as_bytes())?)
}
