//! `crane-agent man`: a manual page for the program and one for each command. Synopsis and options
//! are those of the command line; the rest is in [`pages`](super::pages).

use std::io::{self, Write};
use std::path::Path;

use anyhow::Context;
use clap::CommandFactory;
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, roman};

use super::pages;
use crate::cli::Cli;

/// Writes the page of a command, or of the program.
pub fn write(command: Option<&str>, out: &mut impl Write) -> anyhow::Result<()> {
    let wanted = command.map_or_else(
        || "crane-agent".into(),
        |name| format!("crane-agent-{name}"),
    );
    let all = all()?;
    let known: Vec<&str> = all.iter().skip(1).map(|(name, _)| short(name)).collect();
    let (_, page) = all
        .iter()
        .find(|(name, _)| *name == wanted)
        .with_context(|| {
            let wanted = short(&wanted);
            format!("no command {wanted:?}: there are {}", known.join(", "))
        })?;
    Ok(out.write_all(page)?)
}

/// Writes all pages to a directory, which is created if necessary.
pub fn write_all(folder: &Path) -> anyhow::Result<()> {
    let fault = |path: &Path| format!("cannot write {}", path.display());
    std::fs::create_dir_all(folder).with_context(|| fault(folder))?;
    for (name, page) in all()? {
        let path = folder.join(format!("{name}.1"));
        std::fs::write(&path, page).with_context(|| fault(&path))?;
    }
    Ok(())
}

/// The command line, with the examples of the manual at the end of each help text.
pub fn command() -> clap::Command {
    let with_examples = |command: clap::Command| {
        let help = help(&command);
        command.after_help(help)
    };
    with_examples(Cli::command()).mut_subcommands(with_examples)
}

/// The examples, and the text that the command line has after its options.
fn help(command: &clap::Command) -> String {
    let examples = pages::entries(command.get_name(), pages::EXAMPLES).into_iter();
    let examples = examples.map(|(example, meaning)| format!("  {example}\n      {meaning}\n"));
    let rest = command.get_after_help();
    let rest = rest.map_or_else(String::new, |rest| format!("\n{rest}"));
    format!("Examples:\n{}{rest}", examples.collect::<String>())
}

fn short(name: &str) -> &str {
    name.strip_prefix("crane-agent-").unwrap_or(name)
}

/// All pages by name, that of the program first.
fn all() -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut program = Cli::command().disable_help_subcommand(true);
    program.build();
    let commands = program.get_subcommands();
    let commands = std::iter::once(&program).chain(commands);
    commands.map(page).collect()
}

fn page(command: &clap::Command) -> io::Result<(String, Vec<u8>)> {
    let name = command.get_display_name().unwrap_or(command.get_name());
    let mut text = Vec::new();
    let (title, version) = (name.to_uppercase(), env!("CARGO_PKG_VERSION"));
    // `Man` omits an empty date, and the following fields would take its place.
    writeln!(
        text,
        ".TH {title} 1 \"\" \"crane-agent {version}\" \"crane-agent\""
    )?;
    let man = Man::new(command.clone());
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    man.render_options_section(&mut text)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut text)?;
    }
    let mut roff = Roff::new();
    write_rest(&mut roff, short(name));
    roff.to_writer(&mut text)?;
    Ok((name.to_owned(), text))
}

/// Writes the sections that are not generated from the command line.
fn write_rest(roff: &mut Roff, command: &str) {
    for section in pages::SECTIONS {
        roff.control("SH", [section]);
        for (term, text) in pages::entries(command, section) {
            match term {
                "" => roff.control("PP", []),
                term => roff.control("TP", []).text([bold(term)]),
            };
            roff.text([roman(text)]);
        }
    }
    roff.control("SH", [pages::SEE_ALSO]);
    let mut others: Vec<Inline> = Vec::new();
    for other in pages::names(command, pages::SEE_ALSO) {
        if !others.is_empty() {
            others.push(roman(", "));
        }
        others.push(bold(other));
    }
    roff.text(others);
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn every_example_is_a_valid_command_line() {
        for (name, _) in all().unwrap() {
            let examples = pages::entries(short(&name), pages::EXAMPLES);
            assert!(!examples.is_empty(), "{name}");
            for (example, _) in examples {
                let line = example.split(" | ").next().unwrap();
                let line = line.split(" > ").next().unwrap();
                let mut words = Vec::new();
                for (at, part) in line.split('\'').enumerate() {
                    match at % 2 {
                        0 => words.extend(part.split_whitespace()),
                        _ => words.push(part),
                    }
                }
                let command = short(&name);
                assert!(command == "crane-agent" || words[1] == command, "{example}");
                let parsed = Cli::try_parse_from(words);
                assert!(parsed.is_ok(), "{example}: {}", parsed.unwrap_err());
            }
        }
    }
}
