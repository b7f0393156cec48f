//! `crane-agent completions`: scripts that complete the command line in a shell.

use std::io::Write;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::cli::Cli;

pub fn write(shell: Shell, out: &mut impl Write) -> anyhow::Result<()> {
    // Written to memory first, because the generator panics if writing fails.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "crane-agent", &mut script);
    let script = String::from_utf8(script)?;
    let script = match shell {
        // The generator replaces the hyphen in the name of the program in one half of the script
        // and not in the other, so that nothing is completed after a subcommand
        // (clap-rs/clap#6421).
        Shell::Bash => script.replace("crane__subcmd__agent", "crane__agent"),
        _ => script,
    };
    Ok(out.write_all(script.as_bytes())?)
}
