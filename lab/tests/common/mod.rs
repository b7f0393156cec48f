//! Helpers of the tests of the whole program.
#![allow(dead_code, clippy::unwrap_used)]

use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// Runs `crane-lab` and waits for its end.
pub fn lab(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_crane-lab"))
        .args(args)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", stderr(output)))
}
