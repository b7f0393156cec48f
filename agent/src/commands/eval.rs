//! `crane-agent eval`: accuracy and speed of every method on one stream.

use std::io::Write;
use std::sync::Arc;

use anyhow::bail;
use crane_model::{PackedWeights, Profile, Settings, paper};

use crate::cli::{CodeKind, Eval, ReportFormat};
use crate::eval::measure::{Setup, measure};
use crate::eval::methods::{self, CraneOptions};
use crate::eval::report::Report;
use crate::eval::stream;
use crate::eval::truth::Truth;

/// Measures all methods that were asked for.
pub fn run(args: &Eval, out: &mut impl Write) -> anyhow::Result<()> {
    let single = args.save_state.is_some() || args.load_state.is_some();
    if single && args.methods.len() != 1 {
        bail!("a state is that of one method: name it with --methods");
    }
    let arrivals = stream::read(&args.stream, args.edges.unwrap_or(usize::MAX))?;
    let device = args.sketch.device.unwrap_or_default();
    let carry = args.carry;
    let (packed, weights) = methods::load_weights(args.weights.as_deref(), &args.methods)?;
    let packed = match args.codes {
        CodeKind::Hashed => packed,
        CodeKind::Learned => Arc::new(PackedWeights {
            encoders: Some(Arc::new(weights.layers.clone())),
            decoder: packed.decoder.clone(),
        }),
    };
    let device = device.open()?;
    let crane = CraneOptions {
        settings: Settings {
            carry,
            ..Settings::of(&weights)
        },
        packed: Arc::new(Profile::packed_with(packed, &device, args.ablation())),
        start: args.start.map(|start| start.0 as usize),
        paper: paper::PaperProfile::new(weights, &device)?,
        batch: args.batch as usize,
    };
    let truth = Truth::of(arrivals, args.sketch.seed());
    let mut results = Vec::with_capacity(args.methods.len());
    let setup = Setup {
        bytes: args.memory.0 as usize,
        seed: args.sketch.seed(),
        crane: &crane,
        save_state: args.save_state.as_deref(),
        load_state: args.load_state.as_deref(),
    };
    for method in &args.methods {
        results.push(measure(*method, &setup, &truth)?);
    }
    let report = Report {
        stream: args.stream.display().to_string(),
        edges: truth.arrivals.len(),
        distinct: truth.edges.len(),
        memory_bytes: args.memory.0,
        seed: args.sketch.seed(),
        results,
    };
    match args.format {
        ReportFormat::Json => report.write_json(out)?,
        ReportFormat::Table => report.write_table(out)?,
    }
    Ok(out.flush()?)
}
