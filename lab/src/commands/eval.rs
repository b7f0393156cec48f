//! `crane-lab eval`: accuracy and speed of every method on one stream.

use std::io::Write;
use std::sync::Arc;

use anyhow::bail;
use crane_model::{HierarchySettings, paper};

use crate::ablation::Ablation;
use crate::cli::{CodeKind, Eval, ReportFormat};
use crate::eval::measure::{Setup, measure};
use crate::eval::methods::{self, CraneOptions};
use crate::eval::report::Report;
use crate::eval::stream;
use crate::eval::truth::Truth;

/// Measures the selected methods.
pub fn run(args: &Eval, out: &mut impl Write) -> anyhow::Result<()> {
    let single = args.save_state.is_some() || args.load_state.is_some();
    if single && args.methods.len() != 1 {
        bail!("a state is that of one method: name it with --methods");
    }
    let arrivals = stream::read(&args.stream, args.edges.unwrap_or(usize::MAX))?;
    let (packed, weights) = methods::load_weights(args.weights.as_deref(), &args.methods)?;
    let encoders = match args.codes {
        CodeKind::Hashed => None,
        CodeKind::Learned => Some(Arc::clone(&weights)),
    };
    let device = args.device.open()?;
    let ablation = Ablation::of(&args.without);
    let crane = CraneOptions {
        settings: HierarchySettings {
            carry: args.carry,
            ..HierarchySettings::of(&weights)
        },
        packed: Arc::new(ablation.profile(packed, encoders, &device)),
        start: args.start.map(|start| start.0 as usize),
        paper: paper::PaperProfile::new(weights, &device)?,
        batch: args.batch as usize,
    };
    let truth = Truth::of(arrivals, args.seed);
    let mut results = Vec::with_capacity(args.methods.len());
    let setup = Setup {
        bytes: args.memory.0 as usize,
        seed: args.seed,
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
        seed: args.seed,
        results,
    };
    match args.format {
        ReportFormat::Json => report.write_json(out)?,
        ReportFormat::Table => report.write_table(out)?,
    }
    Ok(out.flush()?)
}
