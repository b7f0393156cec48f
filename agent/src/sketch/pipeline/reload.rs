//! Another configuration for a pipeline at work.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::{Mode, Pipeline, lists};
use crate::config::{self, Config};
use crate::sketch::batch::Cut;
use crate::sketch::budget::Budget;
use crate::sketch::renewal::{Change, Renewal, Rules};
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
    settings: Option<Arc<Settings>>,
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
            let blueprint = self.blueprint.rebuilt(&after.sketch)?;
            let least = blueprint.least();
            let budget = Budget::new(&after.sketch, interfaces, self.windows, least)?;
            rebuilt = Some((blueprint, budget));
        }
        let secret = self.blueprint.secret();
        let settings = self.saved.as_ref();
        let settings = settings.map(|_| Arc::new(Settings::of(config, secret, &weights)));
        let window = before.window != after.window || before.capture.sample != after.capture.sample;
        let ring = before.sketch.batch != after.sketch.batch || settings != self.settings;
        let extent = match &rebuilt {
            Some(_) => Extent::Sketches,
            None if window => Extent::Window,
            None if ring => Extent::Ring,
            None => Extent::Share,
        };
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
            (self.blueprint, self.shared) = (Arc::new(blueprint), budget);
        }
        if let Mode::Live(_, length) = &mut self.mode {
            *length = config.window.length;
        }
        self.names = config.networks.clone();
        if let (Some((folder, _)), Some(settings)) = (&mut self.saved, &settings) {
            folder.adopt(settings);
        }
        self.settings = settings;
        let rules = Rules {
            cut: Cut::Linger(config.sketch.linger()),
            lists: lists(&config, config.export.top),
            names: config.networks.clone(),
            save_interval: config.state.interval.0,
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
        let change = (extent > Extent::Share).then(|| Box::new(self.change(name, extent)));
        let request = Request::Ring(name.into(), reader, change);
        self.handle.send(request).ok().map(|()| writer)
    }

    fn change(&self, name: &str, extent: Extent) -> Change {
        let mut settings = self.settings.clone();
        let length = match self.mode {
            Mode::Live(_, length) if extent >= Extent::Window => length,
            _ => {
                let renewal = None;
                return Change { settings, renewal };
            }
        };
        let rebuilt = (extent == Extent::Sketches).then(|| self.admit());
        let rebuilt = rebuilt.transpose().unwrap_or_else(|error| {
            tracing::warn!(
                interface = name,
                "its sketches stay as they were, and are not saved: {error:#}"
            );
            settings = None;
            None
        });
        let renewal = Some(Renewal {
            origin: self.origin,
            length,
            scale: u64::from(self.config.capture.sample),
            rebuilt: rebuilt.map(|budget| (Arc::clone(&self.blueprint), budget)),
        });
        Change { settings, renewal }
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::thread;
    use std::time::{Duration, Instant};

    use crane_model::DeviceChoice;

    use super::*;
    use crate::config::length::WindowLength;
    use crate::config::size::Size;
    use crate::edge::{Edge, Pair};
    use crate::service::Service;
    use crate::sketch::key::Key;
    use crate::sketch::saved::folder::Folder;
    use crate::sketch::saved::window::Head;
    use crate::sketch::slot::Slot;

    fn live(config: &Config) -> Pipeline {
        let mode = Mode::Live(1, config.window.length);
        Pipeline::start(config, mode, 10, &Key::of_seed(1)).unwrap()
    }

    fn push(ring: &mut RingWriter, packets: usize) {
        let edge = Edge {
            name: Pair::V4([10, 0, 0, 1].into(), [10, 0, 0, 2].into()).name(),
            service: Service::FRAGMENT,
            bytes: 100,
            time: 0,
        };
        let mut slots = Vec::new();
        (0..packets).for_each(|_| Slot::write(&edge, &mut slots));
        ring.push(&mut slots);
        assert!(slots.is_empty());
    }

    /// Waits until a window with so many packets is saved; what it is saved with.
    fn saved(file: &Path, packets: u64) -> String {
        let start = Instant::now();
        loop {
            if let Ok(bytes) = fs::read(file) {
                let head = Head::read(&bytes).unwrap();
                if head.window.packets == packets {
                    return head.settings;
                }
            }
            assert!(start.elapsed() < Duration::from_secs(15));
            thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn a_window_is_saved_with_the_settings_its_packets_were_stored_under() {
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config::default();
        config.state.interval = WindowLength(Duration::from_millis(10));
        config.window.length = WindowLength::seconds(3600);
        let mut pipeline = live(&config);
        let state = Folder::open(folder.path()).unwrap();
        pipeline.keep_windows(state, &Key::of_seed(1)).unwrap();
        let mut before = pipeline.add("eth0").unwrap();
        push(&mut before.ring, 3);
        let file = folder.path().join("eth0.window");
        assert!(saved(&file, 3).contains("capture.sample=1\n"));

        config.capture.sample = 10;
        let prepared = pipeline.prepare(&config, 1).unwrap();
        let extent = pipeline.adopt(prepared);
        let mut after = pipeline.hand_over("eth0", &before.tally, extent).unwrap();
        // The ring before is still being written to.
        push(&mut before.ring, 4);
        assert!(saved(&file, 7).contains("capture.sample=1\n"));
        push(&mut after, 2);
        drop(before.ring);
        assert!(saved(&file, 20).contains("capture.sample=10\n"));

        // The same of what changes without another window.
        config.capture.filter = Some("ip".into());
        let prepared = pipeline.prepare(&config, 1).unwrap();
        let extent = pipeline.adopt(prepared);
        let next = pipeline.hand_over("eth0", &before.tally, extent).unwrap();
        push(&mut after, 1);
        assert!(saved(&file, 30).contains("capture.filter=None\n"));
        drop(after);
        let mut next = next;
        push(&mut next, 1);
        assert!(saved(&file, 40).contains("capture.filter=Some(\"ip\")\n"));
        drop(next);
        pipeline.finish(None).unwrap();
    }

    /// One that does not exist cannot be opened.
    #[test]
    fn other_sketches_are_built_on_the_device_that_is_open() {
        let mut config = Config::default();
        config.sketch.device = DeviceChoice::Cpu;
        let mut pipeline = live(&config);
        config.sketch.device = DeviceChoice::Cuda(7);
        config.sketch.memory = Size(4 << 20);
        let prepared = pipeline.prepare(&config, 1).unwrap();
        assert_eq!(pipeline.adopt(prepared), Extent::Sketches);
        assert_eq!(pipeline.device(), "cpu");
        pipeline.finish(None).unwrap();
    }
}
