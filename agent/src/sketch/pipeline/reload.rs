//! Another configuration for a pipeline at work.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::{Mode, Pipeline, lists};
use crate::config::{self, Config};
use crate::export::agent;
use crate::sketch::batch::Cut;
use crate::sketch::budget::Budget;
use crate::sketch::renewal::{Renewal, Rules};
use crate::sketch::ring::RingWriter;
use crate::sketch::saved::settings::Settings;
use crate::sketch::sketches::Blueprint;
use crate::sketch::weights;
use crate::sketch::worker::Request;
use crate::tally::Tally;

/// How much of an interface is made anew; each is more than the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Extent {
    /// Its buffers, if its share of them is another.
    Share,
    /// Its ring.
    Ring,
    /// Its ring, and a window begins with that.
    Window,
    /// The same, and sketches are built in another way.
    Sketches,
}

/// A configuration that can be had: nothing about it can fail any more.
pub struct Prepared {
    config: Config,
    rebuilt: Option<(Blueprint, Budget)>,
    /// What windows are saved with, if they are.
    settings: Option<Settings>,
    extent: Extent,
}

impl Pipeline {
    /// Makes ready for another configuration, with so many live interfaces; nothing
    /// changes yet.
    pub fn prepare(&self, config: &Config, interfaces: usize) -> anyhow::Result<Prepared> {
        let (before, after) = (&self.config, config);
        let mut rebuilt = None;
        let (profile, file) = (after.sketch.profile, after.sketch.weights.as_deref());
        // The same file may hold others by now.
        let weights = weights::checksum_of(profile, file)?;
        if is_built_otherwise(&before.sketch, &after.sketch) || weights != self.blueprint.weights()
        {
            let blueprint = Blueprint::new(&after.sketch, *self.blueprint.secret())?;
            let least = blueprint.least();
            let budget = Budget::new(&after.sketch, interfaces, self.windows, least)?;
            rebuilt = Some((blueprint, budget));
        }
        let window = before.window != after.window || before.capture.sample != after.capture.sample;
        let extent = match &rebuilt {
            Some(_) => Extent::Sketches,
            None if window => Extent::Window,
            None if before.sketch.batch != after.sketch.batch => Extent::Ring,
            None => Extent::Share,
        };
        let secret = self.blueprint.secret();
        let settings = self.saved.as_ref();
        let settings = settings.map(|_| Settings::of(config, secret, &weights));
        Ok(Prepared {
            config: config.clone(),
            rebuilt,
            settings,
            extent,
        })
    }

    /// Goes by another configuration from now on. Every interface is to be
    /// [handed over](Self::hand_over) to this extent.
    pub fn adopt(&mut self, prepared: Prepared) -> Extent {
        let Prepared {
            config,
            rebuilt,
            settings,
            extent,
        } = prepared;
        if let Some((blueprint, budget)) = rebuilt {
            agent::device_changed(self.device(), blueprint.device_name());
            (self.blueprint, self.shared) = (Arc::new(blueprint), budget);
        }
        if let Mode::Live(_, length) = &mut self.mode {
            *length = config.window.length;
        }
        self.names = config.networks.clone();
        if let (Some((folder, _)), Some(settings)) = (&mut self.saved, &settings) {
            folder.adopt(settings.clone());
        }
        let rules = Rules {
            cut: Cut::Linger(config.sketch.linger()),
            lists: lists(&config, config.export.top),
            names: config.networks.clone(),
            saving: settings.map(|settings| (settings, config.state.interval.0)),
        };
        self.config = config;
        // A worker that is gone is noticed elsewhere.
        let _ = self.handle.send(Request::Rules(Box::new(rules)));
        extent
    }

    /// Another ring for an interface, if its share has changed or more than that. The
    /// worker reads it, and begins what is new, when the writer of the one before is
    /// dropped.
    pub fn hand_over(&self, name: &str, tally: &Tally, extent: Extent) -> Option<RingWriter> {
        let slots = self.slots() as u64;
        if tally.ring_slots.swap(slots, Relaxed) == slots && extent == Extent::Share {
            return None;
        }
        let (writer, reader) = self.ring();
        let renewal = (extent >= Extent::Window).then(|| self.renewal(name, extent));
        let renewal = renewal.flatten().map(Box::new);
        let request = Request::Ring(name.into(), reader, renewal);
        self.handle.send(request).ok().map(|()| writer)
    }

    fn renewal(&self, name: &str, extent: Extent) -> Option<Renewal> {
        let Mode::Live(_, length) = self.mode else {
            return None;
        };
        let rebuilt = (extent == Extent::Sketches).then(|| self.admit());
        let rebuilt = rebuilt.transpose().unwrap_or_else(|error| {
            tracing::warn!(
                interface = name,
                "its sketches stay as they were: {error:#}"
            );
            None
        });
        Some(Renewal {
            origin: self.origin,
            length,
            scale: u64::from(self.config.capture.sample),
            rebuilt: rebuilt.map(|budget| (Arc::clone(&self.blueprint), budget)),
        })
    }
}

/// Whether sketches are, apart from how packets come to them.
fn is_built_otherwise(before: &config::Sketch, after: &config::Sketch) -> bool {
    let alike = config::Sketch {
        batch: before.batch,
        linger_ms: before.linger_ms,
        ..after.clone()
    };
    alike != *before
}
