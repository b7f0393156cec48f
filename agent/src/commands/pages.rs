//! The text of manual pages except synopsis and options, from `manual.txt`.

const MANUAL: &str = include_str!("manual.txt");

/// The sections of a page, in their order.
pub const SECTIONS: [&str; 4] = ["EXIT STATUS", "FILES", "ENVIRONMENT", EXAMPLES];
/// The section of command lines with explanations.
pub const EXAMPLES: &str = "EXAMPLES";
/// The section of names of other pages.
pub const SEE_ALSO: &str = "SEE ALSO";

/// A term and its text. A sentence has an empty term.
pub type Entry = (&'static str, String);

/// The entries of a section of the page of a command.
pub fn entries(command: &str, section: &str) -> Vec<Entry> {
    collect(lines(command, section))
}

/// The names in a section of the page of a command.
pub fn names(command: &str, section: &str) -> Vec<&'static str> {
    lines(command, section)
        .flat_map(|line| line.split(", "))
        .collect()
}

fn lines(command: &str, section: &str) -> impl Iterator<Item = &'static str> {
    between(between(MANUAL.lines(), "# ", command), "## ", section)
}

/// The lines after the heading `title`, up to the next heading of the same level.
fn between(
    lines: impl Iterator<Item = &'static str>,
    heading: &'static str,
    title: &str,
) -> impl Iterator<Item = &'static str> {
    let lines = lines.skip_while(move |line| line.strip_prefix(heading) != Some(title));
    let lines = lines.skip(1);
    lines
        .take_while(move |line| !line.starts_with(heading))
        .filter(|line| !line.is_empty())
}

fn collect(lines: impl Iterator<Item = &'static str>) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    for line in lines {
        if let Some(part) = line.strip_prefix("include ") {
            entries.extend(collect(between(MANUAL.lines(), "# ", part)));
        } else if let Some(text) = line.strip_prefix("    ") {
            match entries.last_mut() {
                Some((_, before)) if before.is_empty() => before.push_str(text),
                Some((_, before)) => *before += &format!(" {text}"),
                None => entries.push(("", text.to_owned())),
            }
        } else {
            entries.push((line, String::new()));
        }
    }
    entries
}
