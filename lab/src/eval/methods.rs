//! The methods by name, and how each is made for a budget.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use clap::ValueEnum;
use crane_agent::sketches::weights;
use crane_model::name::Narrow;
use crane_model::packed;
use crane_model::weights::profile;
use crane_model::{
    Allowance, Amount, Carry, Crane, Edge, Flow, HierarchySettings, PackedWeights, PaperWeights,
    Profile, Secret, Sketch, Weighted, fold, paper,
};

use crate::rivals::{
    Rival, auxo::Auxo, count_min::CountMin, exact::Exact, gss::Gss, one::One, tcm::Tcm,
};

/// The methods, in the order of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Method {
    /// Crane with narrow cells.
    CranePacked,
    /// Crane as in the paper.
    CranePaper,
    /// TCM: a graph sketch of plain matrices.
    Tcm,
    /// GSS: a matrix with fingerprints.
    Gss,
    /// Auxo: a tree of such matrices.
    Auxo,
    /// Count-Min.
    Cms,
    /// Count-Min with conservative update.
    Cu,
    /// An exact map, whose memory is not limited.
    Exact,
    /// The constant 1.
    One,
}

impl Method {
    /// The name on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::CranePacked => "crane-packed",
            Self::CranePaper => "crane-paper",
            Self::Tcm => "tcm",
            Self::Gss => "gss",
            Self::Auxo => "auxo",
            Self::Cms => "cms",
            Self::Cu => "cu",
            Self::Exact => "exact",
            Self::One => "one",
        }
    }
}

/// The options of Crane.
pub struct CraneOptions {
    /// The packed profile, or a variant of it.
    pub packed: Arc<Profile>,
    /// Bytes that the packed profile starts with as a table. `None` gives it layers from
    /// the start.
    pub start: Option<usize>,
    /// The paper profile.
    pub paper: paper::PaperProfile,
    /// Settings of the paper profile. The number of layers is limited by the budget.
    pub settings: HierarchySettings,
    /// Arrivals in a batch.
    pub batch: usize,
}

/// Makes a method for a budget and a seed. Returns several variants if the method has a
/// parameter whose best value is reported.
pub fn make(
    method: Method,
    bytes: usize,
    seed: u64,
    crane: &CraneOptions,
) -> crane_model::Result<Vec<Box<dyn Rival>>> {
    let count_min = |conservative: bool| {
        let rows = [1, 2, 3].into_iter();
        rows.map(|rows| boxed(CountMin::new(bytes, rows, conservative, seed)))
            .collect()
    };
    match method {
        Method::CranePacked => Ok(vec![boxed(PackedCrane::new(bytes, seed, crane))?]),
        Method::CranePaper => Ok(vec![boxed(PaperCrane::new(bytes, crane))?]),
        Method::Tcm => {
            let matrices = [1, 2, 4].into_iter();
            matrices.map(|n| boxed(Tcm::new(bytes, n, seed))).collect()
        }
        Method::Gss => Ok(vec![boxed(Gss::new(bytes, seed))?]),
        Method::Auxo => Ok(vec![boxed(Auxo::new(bytes, seed))?]),
        Method::Cms => count_min(false),
        Method::Cu => count_min(true),
        Method::Exact => Ok(vec![Box::new(Exact::default())]),
        Method::One => Ok(vec![Box::new(One)]),
    }
}

fn boxed(rival: crane_model::Result<impl Rival + 'static>) -> crane_model::Result<Box<dyn Rival>> {
    Ok(Box::new(rival?))
}

/// Weights from a file for one profile and the built-in weights for the other. If only
/// one profile is measured, the file must be for that one.
pub fn load_weights(
    file: Option<&Path>,
    methods: &[Method],
) -> anyhow::Result<(Arc<PackedWeights>, Arc<PaperWeights>)> {
    let built_in = || PackedWeights::built_in().context("the weights in this program");
    let bytes = file.map(weights::read).transpose()?;
    let name = || file.unwrap_or(Path::new("")).display().to_string();
    let is_packed = |bytes: &&Vec<u8>| match (
        methods.contains(&Method::CranePacked),
        methods.contains(&Method::CranePaper),
    ) {
        (true, false) => true,
        (false, true) => false,
        _ => profile(bytes).as_deref() == Some(packed::weights::PROFILE),
    };
    match bytes.as_ref().filter(is_packed) {
        Some(bytes) => {
            let packed = PackedWeights::load(bytes).with_context(name)?;
            Ok((Arc::new(packed), Arc::new(weights::load(None)?)))
        }
        None => Ok((Arc::new(built_in()?), Arc::new(weights::load(file)?))),
    }
}

/// The packed profile within the budget.
struct PackedCrane {
    sketch: Crane,
    secret: Secret,
    batch: usize,
}

impl PackedCrane {
    fn new(bytes: usize, seed: u64, options: &CraneOptions) -> crane_model::Result<Self> {
        let (profile, secret) = (&options.packed, Secret::from_seed(seed));
        let sketch = match options.start {
            None => Crane::layered(profile, secret, 0, Allowance::alone(bytes, bytes))?,
            Some(start) => {
                let allowance = Allowance::alone(start.min(bytes), bytes);
                Crane::new(profile, secret, 0, allowance)?
            }
        };
        Ok(Self {
            sketch,
            secret,
            batch: options.batch,
        })
    }

    fn flows(&self, edges: &[Edge]) -> crane_model::Result<Vec<Flow<Narrow>>> {
        let flows = edges.chunks(4096).map(|edges| {
            let names: Vec<Narrow> = edges.iter().map(|edge| edge.name()).collect();
            self.sketch.flows(&names)
        });
        Ok(flows.collect::<crane_model::Result<Vec<_>>>()?.concat())
    }
}

impl Rival for PackedCrane {
    fn store(&mut self, batch: &[Weighted]) -> crane_model::Result<()> {
        for batch in batch.chunks(self.batch) {
            let folded = fold::arrivals(&self.secret, batch);
            self.sketch.store(folded.arrivals())?;
        }
        Ok(())
    }

    fn query(&self, edges: &[Edge]) -> crane_model::Result<Vec<f64>> {
        let flows = self.flows(edges)?;
        Ok(flows
            .iter()
            .map(|flow| flow.packets.estimate as f64)
            .collect())
    }

    fn amounts(&self, edges: &[Edge]) -> crane_model::Result<Option<Vec<Amount>>> {
        let flows = self.flows(edges)?;
        Ok(Some(flows.iter().map(|flow| flow.packets).collect()))
    }

    fn named(&self) -> Option<Vec<(Edge, Amount)>> {
        let named = self.sketch.named::<Narrow>();
        Some(
            named
                .map(|flow| (Edge::of_name(flow.key), flow.packets))
                .collect(),
        )
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

/// The sketch of the paper: up to four layers, no crown.
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
                allowed: format!("{LAYER} bytes or more, for a layer"),
            });
        }
        let max_layers = options.settings.max_layers.min(fits);
        let start_layers = options.settings.start_layers.min(max_layers);
        let settings = HierarchySettings {
            max_layers,
            start_layers,
            ..options.settings.clone()
        };
        let sketch = options.paper.layers(settings)?;
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
