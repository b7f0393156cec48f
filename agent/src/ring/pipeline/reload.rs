//! Replaces the configuration of a running pipeline.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::{Mode, Pipeline};
use crate::config::{self, Config};
use crate::ring::edge_ring::RingWriter;
use crate::ring::renewal::{Change, WorkerSettings};
use crate::ring::worker::Request;
use crate::saved::settings::Settings;
use crate::sketches::Blueprint;
use crate::sketches::budget::Budget;
use crate::sketches::weights;
use crate::traffic::batch::Cut;
use crate::traffic::tally::Tally;
use crate::window::windows::Renewal;

/// How much of an interface is replaced by a reload; each variant includes the ones before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RenewalScope {
    /// The buffers, if their share has changed.
    Share,
    /// The ring.
    Ring,
    /// The ring, with which a new window begins.
    Window,
    /// Ring, window, and sketches of another kind.
    Sketches,
}

/// A checked configuration: adopting it cannot fail.
pub struct PreparedPipeline {
    config: Config,
    rebuilt: Option<(Blueprint, Budget)>,
    /// Settings that windows are saved with, if they are saved.
    settings: Option<Arc<Settings>>,
    scope: RenewalScope,
}

impl Pipeline {
    /// Prepares another configuration for this number of interfaces, with all steps that can
    /// fail. Nothing changes yet.
    pub fn prepare(&self, config: &Config, interfaces: usize) -> anyhow::Result<PreparedPipeline> {
        let (before, after) = (&self.config, config);
        let mut rebuilt = None;
        let (profile, file) = (after.sketch.profile, after.sketch.weights.as_deref());
        // The file may have been replaced.
        let weights = weights::checksum_of(profile, file)?;
        if is_built_otherwise(&before.sketch, &after.sketch) || weights != self.blueprint.weights()
        {
            let blueprint = self.blueprint.rebuilt(&after.sketch)?;
            let least = blueprint.least();
            let budget = Budget::shared(&after.sketch, interfaces, self.windows, least)?;
            rebuilt = Some((blueprint, budget));
        }
        let secret = self.blueprint.secret();
        let settings = self.saved.as_ref();
        let settings = settings.map(|_| Arc::new(Settings::of(config, secret, &weights)));
        let window = before.window != after.window || before.capture.sample != after.capture.sample;
        let ring = before.sketch.batch != after.sketch.batch || settings != self.settings;
        let scope = match &rebuilt {
            Some(_) => RenewalScope::Sketches,
            None if window => RenewalScope::Window,
            None if ring => RenewalScope::Ring,
            None => RenewalScope::Share,
        };
        Ok(PreparedPipeline {
            config: config.clone(),
            rebuilt,
            settings,
            scope,
        })
    }

    /// Adopts a prepared configuration. Every interface has to be
    /// [handed over](Self::hand_over) with the returned scope.
    pub fn adopt(&mut self, prepared: PreparedPipeline) -> RenewalScope {
        let PreparedPipeline {
            config,
            rebuilt,
            settings,
            scope,
        } = prepared;
        if let Some((blueprint, budget)) = rebuilt {
            (self.blueprint, self.shared) = (Arc::new(blueprint), budget);
        }
        if let Mode::Live(_, length) = &mut self.mode {
            *length = config.window.length;
        }
        self.names = config.networks.clone();
        let databases = Arc::clone(&config.databases);
        self.lookup.adopt(databases, config.name_servers());
        if let (Some((folder, _)), Some(settings)) = (&mut self.saved, &settings) {
            folder.adopt(settings);
        }
        self.settings = settings;
        let worker_settings = WorkerSettings {
            cut: Cut::Linger(config.sketch.linger()),
            names: config.networks.clone(),
            save_interval: config.state.interval.0,
        };
        self.config = config;
        // A worker that has ended is noticed elsewhere.
        let _ = self
            .handle
            .send(Request::WorkerSettings(Box::new(worker_settings)));
        scope
    }

    /// Makes another ring for an interface, if the scope or its share requires one. The worker
    /// switches to it when the writer of the previous ring is dropped.
    pub fn hand_over(&self, name: &str, tally: &Tally, scope: RenewalScope) -> Option<RingWriter> {
        let slots = self.slots() as u64;
        if tally.ring_slots.swap(slots, Relaxed) == slots && scope == RenewalScope::Share {
            return None;
        }
        let (writer, reader) = self.ring();
        let change = (scope > RenewalScope::Share).then(|| Box::new(self.change(name, scope)));
        let request = Request::Ring(name.into(), reader, change);
        self.handle.send(request).ok().map(|()| writer)
    }

    fn change(&self, name: &str, scope: RenewalScope) -> Change {
        let mut settings = self.settings.clone();
        let length = match self.mode {
            Mode::Live(_, length) if scope >= RenewalScope::Window => length,
            _ => {
                let renewal = None;
                return Change { settings, renewal };
            }
        };
        let rebuilt = (scope == RenewalScope::Sketches).then(|| self.admit());
        let rebuilt = rebuilt.transpose().unwrap_or_else(|error| {
            tracing::warn!(
                interface = name,
                "its sketches stay as they were, and are not saved: {error:#}"
            );
            settings = None;
            None
        });
        let renewal = Some(Renewal {
            length,
            scale: u64::from(self.config.capture.sample),
            rebuilt: rebuilt.map(|budget| (Arc::clone(&self.blueprint), budget)),
        });
        Change { settings, renewal }
    }
}

/// Whether sketches differ in more than batching.
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
    use crate::saved::folder::Folder;
    use crate::saved::window::Head;
    use crate::sketches::key::Key;
    use crate::traffic::edge::{Edge, Pair};
    use crate::traffic::service::Service;
    use crate::traffic::slot::Slot;

    fn live(config: &Config) -> Pipeline {
        let mode = Mode::Live(1, config.window.length);
        Pipeline::start(config, mode, &Key::of_seed(1)).unwrap()
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

    /// Waits until a window with this many packets is saved. Returns its settings.
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
        let scope = pipeline.adopt(prepared);
        let mut after = pipeline.hand_over("eth0", &before.tally, scope).unwrap();
        // The previous ring is still being written to.
        push(&mut before.ring, 4);
        assert!(saved(&file, 7).contains("capture.sample=1\n"));
        push(&mut after, 2);
        drop(before.ring);
        assert!(saved(&file, 20).contains("capture.sample=10\n"));

        // The same for a setting that changes without a new window.
        config.capture.filter = Some("ip".into());
        let prepared = pipeline.prepare(&config, 1).unwrap();
        let scope = pipeline.adopt(prepared);
        let next = pipeline.hand_over("eth0", &before.tally, scope).unwrap();
        push(&mut after, 1);
        assert!(saved(&file, 30).contains("capture.filter=None\n"));
        drop(after);
        let mut next = next;
        push(&mut next, 1);
        assert!(saved(&file, 40).contains("capture.filter=Some(\"ip\")\n"));
        drop(next);
        pipeline.finish(None).unwrap();
    }

    /// The configured device does not exist and could not be opened.
    #[test]
    fn other_sketches_are_built_on_the_device_that_is_open() {
        let mut config = Config::default();
        config.sketch.device = DeviceChoice::Cpu;
        let mut pipeline = live(&config);
        config.sketch.device = DeviceChoice::Cuda(7);
        config.sketch.memory = Size(4 << 20);
        let prepared = pipeline.prepare(&config, 1).unwrap();
        assert_eq!(pipeline.adopt(prepared), RenewalScope::Sketches);
        assert_eq!(pipeline.device(), "cpu");
        pipeline.finish(None).unwrap();
    }
}
