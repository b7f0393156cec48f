//! The program `crane-lab`. Everything it does is in the library of this package.

use std::process::ExitCode;

fn main() -> ExitCode {
    crane_lab::main()
}
