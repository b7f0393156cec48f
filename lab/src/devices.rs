//! Store and query rates of both profiles on each device, on one thread and in batches.
//! Folding equal edges is included.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crane_agent::text::columns::Columns;
use crane_model::{DeviceChoice, Edge, HierarchySettings, Profile, Weighted, paper};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Serialize;

use crate::eval::methods::{self, CraneOptions, Method};

/// The parameters of a measurement.
pub struct Setup {
    /// Largest memory of a sketch.
    pub bytes: usize,
    /// Arrivals in a stored batch, and edges in a query.
    pub batch: usize,
    /// Random seed.
    pub seed: u64,
    /// Duration of each measurement.
    pub time: Duration,
}

/// The rates of both profiles on some devices.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Largest memory of a sketch.
    pub memory_bytes: usize,
    /// Arrivals in a stored batch, and edges in a query.
    pub batch: usize,
    /// Random seed.
    pub seed: u64,
    /// The device that `auto` opens.
    pub auto: String,
    /// One row for each device and profile.
    pub results: Vec<Rates>,
}

/// The rates of one profile on one device.
#[derive(Debug, Default, Serialize)]
pub struct Rates {
    /// Name of the device as on the command line.
    pub device: String,
    /// `packed` or `paper`.
    pub profile: &'static str,
    /// Memory of the sketch at the end.
    pub memory_bytes: usize,
    /// Arrivals stored per second.
    pub store_per_second: Option<f64>,
    /// Edges queried per second.
    pub query_per_second: Option<f64>,
    /// Why there are no figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// GPUs with a higher number are not searched for.
const MOST_GPUS: usize = 16;

/// Length of the stream, which is repeated.
const ARRIVALS: usize = 500_000;

/// All devices that this build can use on this machine.
pub fn available() -> Vec<DeviceChoice> {
    let gpus = (0..MOST_GPUS).map(DeviceChoice::Cuda);
    let gpus = gpus.take_while(|gpu| gpu.open().is_ok());
    [DeviceChoice::Cpu, DeviceChoice::CpuTensor]
        .into_iter()
        .chain(gpus)
        .collect()
}

/// Edges between 20,000 nodes, some of which are much more frequent than others.
pub fn skewed_edges(count: usize, seed: u64) -> Vec<Weighted> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let node = |rng: &mut Xoshiro256PlusPlus| {
        let rank = (20_000.0 * rng.random::<f64>().powi(3)) as u32;
        rank.wrapping_mul(0x9e37_79b9)
    };
    (0..count)
        .map(|_| Weighted::new(Edge::new(node(&mut rng), node(&mut rng)), 1))
        .collect()
}

/// Measures both profiles on these devices. If a device cannot be used, its rows contain
/// the reason.
pub fn measure(choices: &[DeviceChoice], setup: &Setup) -> anyhow::Result<Report> {
    let arrivals = skewed_edges(ARRIVALS, setup.seed);
    let mut results = Vec::with_capacity(2 * choices.len());
    for choice in choices {
        for (profile, method) in [
            ("packed", Method::CranePacked),
            ("paper", Method::CranePaper),
        ] {
            let rates = rates(*choice, method, setup, &arrivals);
            let rates = rates.unwrap_or_else(|error| Rates {
                error: Some(format!("{error:#}")),
                ..Rates::default()
            });
            results.push(Rates {
                device: choice.to_string(),
                profile,
                ..rates
            });
        }
    }
    Ok(Report {
        memory_bytes: setup.bytes,
        batch: setup.batch,
        seed: setup.seed,
        auto: DeviceChoice::Auto.open()?.name().into(),
        results,
    })
}

/// Measures one profile on one device.
fn rates(
    choice: DeviceChoice,
    method: Method,
    setup: &Setup,
    arrivals: &[Weighted],
) -> anyhow::Result<Rates> {
    let device = choice.open()?;
    let (packed, paper) = methods::load_weights(None, &[method])?;
    let crane = CraneOptions {
        settings: HierarchySettings::of(&paper),
        packed: Arc::new(Profile::packed(packed, &device)),
        start: None,
        paper: paper::PaperProfile::new(paper, &device)?,
        batch: setup.batch,
    };
    let mut sketch = methods::make(method, setup.bytes, setup.seed, &crane)?.swap_remove(0);
    let batches: Vec<&[Weighted]> = arrivals.chunks(setup.batch).collect();
    let store = per_second(setup.time, &batches, |batch| sketch.store(batch))?;
    let asked: Vec<Edge> = arrivals.iter().map(|arrival| arrival.edge).collect();
    let batches: Vec<&[Edge]> = asked.chunks(setup.batch).collect();
    let query = per_second(setup.time, &batches, |batch| sketch.query(batch).map(drop))?;
    Ok(Rates {
        memory_bytes: sketch.memory_bytes(),
        store_per_second: Some(store),
        query_per_second: Some(query),
        ..Rates::default()
    })
}

/// Items per second, measured for at least this duration. The first batch, which may wait
/// for the device, is not counted.
fn per_second<T>(
    time: Duration,
    batches: &[&[T]],
    mut each: impl FnMut(&[T]) -> crane_model::Result<()>,
) -> crane_model::Result<f64> {
    let mut batches = batches.iter().cycle();
    if let Some(first) = batches.next() {
        each(first)?;
    }
    let (start, mut items) = (Instant::now(), 0);
    for batch in batches {
        each(batch)?;
        items += batch.len();
        if start.elapsed() >= time {
            break;
        }
    }
    Ok(items as f64 / start.elapsed().as_secs_f64())
}

impl Report {
    /// Writes the report as one JSON object.
    pub fn write_json(&self, out: &mut impl Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *out, self)?;
        writeln!(out)
    }

    /// Writes the rates as a table, followed by the errors.
    pub fn write_table(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(
            out,
            "batches of {}, {} bytes at most; auto is {}\n",
            self.batch, self.memory_bytes, self.auto
        )?;
        let mut table = Columns::new(
            &["device", "profile"],
            &["KiB", "M stores/s", "M queries/s"],
        );
        let million = |rate: Option<f64>| match rate {
            Some(rate) => format!("{:.3}", rate / 1e6),
            None => "–".to_owned(),
        };
        for rates in &self.results {
            table.push(vec![
                rates.device.clone(),
                rates.profile.to_owned(),
                (rates.memory_bytes >> 10).to_string(),
                million(rates.store_per_second),
                million(rates.query_per_second),
            ]);
        }
        table.write(out)?;
        for rates in &self.results {
            if let Some(error) = &rates.error {
                writeln!(out, "  {} {}: {error}", rates.device, rates.profile)?;
            }
        }
        Ok(())
    }
}
