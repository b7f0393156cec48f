//! `crane-lab device`: store and query rates of both profiles on each device.

use std::io::Write;

use crate::cli::{Device, ReportFormat};
use crate::devices::{self, Setup};

/// Measures the selected devices, or all that are available.
pub fn run(args: &Device, out: &mut impl Write) -> anyhow::Result<()> {
    let setup = Setup {
        bytes: args.memory.0 as usize,
        batch: args.batch as usize,
        seed: args.seed,
        time: args.time.0,
    };
    let choices = match &args.device[..] {
        [] => devices::available(),
        chosen => chosen.to_vec(),
    };
    let report = devices::measure(&choices, &setup)?;
    match args.format {
        ReportFormat::Json => report.write_json(out)?,
        ReportFormat::Table => report.write_table(out)?,
    }
    Ok(out.flush()?)
}
