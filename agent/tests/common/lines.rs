//! Reads exported lines.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::stderr;

pub fn parsed(lines: &str) -> Vec<Value> {
    let parse = |line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
    lines.lines().map(parse).collect()
}

/// The output of jq for the lines of a file.
pub fn jq(filter: &str, file: &Path) -> String {
    let output = Command::new("jq").args(["-r", filter]).arg(file).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}
