//! The methods by name, each made for a budget.

use std::path::Path;
use std::sync::Arc;

use crane_model::rivals::{
    Rival, auxo::Auxo, count_min::CountMin, exact::Exact, gss::Gss, one::One, tcm::Tcm,
};
use crane_model::{Carry, DeviceChoice, Edge, Settings, Sketch, Weighted, Weights};

use crate::weights;

/// Every method that can be asked for, in the order of the table.
pub const NAMES: [&str; 8] = [
    "crane-paper",
    "tcm",
    "gss",
    "auxo",
    "cms",
    "cu",
    "exact",
    "one",
];

/// What may be chosen about Crane.
pub struct CraneOptions {
    pub weights: Arc<Weights>,
    pub device: DeviceChoice,
    pub settings: Settings,
    pub batch: usize,
}

/// A method that is ready to store.
pub type Method = Box<dyn Rival>;

/// Makes a method for a budget and a seed; several ways to make it where the
/// best of them counts.
pub fn make(
    name: &str,
    bytes: usize,
    seed: u64,
    crane: &CraneOptions,
) -> crane_model::Result<Vec<Method>> {
    let boxed = |method: crane_model::Result<Method>| method.map(|method| vec![method]);
    match name {
        "crane-paper" => {
            boxed(PaperCrane::new(bytes, crane).map(|crane| Box::new(crane) as Method))
        }
        "tcm" => [1, 2, 4]
            .iter()
            .map(|n| Ok(Box::new(Tcm::new(bytes, *n, seed)?) as Method))
            .collect(),
        "gss" => boxed(Gss::new(bytes, seed).map(|gss| Box::new(gss) as Method)),
        "auxo" => boxed(Auxo::new(bytes, seed).map(|auxo| Box::new(auxo) as Method)),
        "cms" | "cu" => [1, 2, 3]
            .iter()
            .map(|rows| Ok(Box::new(CountMin::new(bytes, *rows, name == "cu", seed)?) as Method))
            .collect(),
        "exact" => Ok(vec![Box::new(Exact::default())]),
        _ => Ok(vec![Box::new(One)]),
    }
}

/// The weights and settings that `eval` runs Crane with.
pub fn crane(
    file: Option<&Path>,
    device: DeviceChoice,
    overrides: impl FnOnce(&mut Settings),
    batch: usize,
) -> anyhow::Result<CraneOptions> {
    let weights = Arc::new(weights::load(file)?);
    let mut settings = Settings::of(&weights);
    overrides(&mut settings);
    Ok(CraneOptions {
        weights,
        device,
        settings,
        batch,
    })
}

/// The paper's sketch: up to four layers, no crown.
struct PaperCrane {
    sketch: Box<dyn Sketch>,
    batch: usize,
}

/// Bytes of a dense layer.
const LAYER: usize = 64 * 64 * 4;

impl PaperCrane {
    fn new(bytes: usize, options: &CraneOptions) -> crane_model::Result<Self> {
        let fits = bytes / LAYER;
        if fits == 0 {
            return Err(crane_model::Error::Setting {
                name: "memory",
                value: format!("{bytes} bytes"),
                allowed: format!("a layer needs {LAYER}"),
            });
        }
        let max_layers = options.settings.max_layers.min(fits);
        let start_layers = options.settings.start_layers.min(max_layers);
        let settings = Settings {
            max_layers,
            start_layers,
            ..options.settings.clone()
        };
        let sketch = options
            .device
            .open(Arc::clone(&options.weights), settings)?;
        let batch = if options.settings.carry == Carry::Sequential {
            4096
        } else {
            options.batch
        };
        Ok(Self { sketch, batch })
    }
}

impl Rival for PaperCrane {
    fn store(&mut self, batch: &[Weighted]) -> crane_model::Result<()> {
        batch
            .chunks(self.batch)
            .try_for_each(|batch| self.sketch.store(batch))
    }

    fn query(&self, edges: &[Edge]) -> crane_model::Result<Vec<f64>> {
        let answers = edges.chunks(4096).map(|edges| self.sketch.query(edges));
        Ok(answers.collect::<crane_model::Result<Vec<_>>>()?.concat())
    }

    fn memory_bytes(&self) -> usize {
        self.sketch.memory_bytes()
    }

    fn save(&self) -> crane_model::Result<Vec<u8>> {
        self.sketch.save_state()
    }

    fn load(&mut self, state: &[u8]) -> crane_model::Result<()> {
        self.sketch.load_state(state)
    }
}
