//! Runs the example.
#![allow(clippy::unwrap_used)]

#[path = "../examples/quickstart.rs"]
mod quickstart;

#[test]
fn the_quickstart_runs() {
    quickstart::main().unwrap();
}
