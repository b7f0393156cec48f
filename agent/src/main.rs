//! The program `crane-agent`. Its code is in the library of this package.

use std::process::ExitCode;

fn main() -> ExitCode {
    crane_agent::main()
}
