//! Another configuration for a running agent: all of it, or nothing.
//!
//! Whatever can fail is done first and beside what runs: files are read and checked,
//! sketches prepared, ports taken. Then everybody adopts what is new, which cannot
//! fail. What has not changed goes on, with its windows, counters and connections.

use std::sync::Arc;

use super::configure::configure_run;
use crate::capture::interfaces::Interfaces;
use crate::cli::Run;
use crate::config::Config;
use crate::export::agent;
use crate::http::{Disguise, Server, Shown};
use crate::sketch::pipeline::{Extent, Pipeline};
use crate::{plain, systemd};

/// All of a running agent that a configuration changes.
pub struct Agent {
    /// The configuration in force.
    pub config: Config,
    /// What is captured.
    pub interfaces: Interfaces,
    /// What becomes of it.
    pub pipeline: Pipeline,
    /// Where it is asked for.
    pub server: Server,
    /// What is shown of addresses.
    pub shown: Arc<Shown>,
}

impl Agent {
    /// Reads the configuration again. One that is not in order changes nothing.
    pub fn reload(&mut self, args: &Run) {
        systemd::reloading();
        let reloaded = self.try_reload(args);
        if let Err(error) = &reloaded {
            let file = args.config.as_ref();
            let file = file.map_or_else(String::new, |file| format!(" {}", plain::path(file)));
            tracing::error!("configuration{file} not reloaded, the old one stays: {error:#}");
        }
        agent::config_was_read(reloaded.is_ok());
        systemd::ready();
    }

    fn try_reload(&mut self, args: &Run) -> anyhow::Result<()> {
        let mut config = configure_run(args)?;
        let (mut changed, at_start) = config.succeed(&self.config);
        self.interfaces.check(&config.capture, &self.pipeline)?;
        let interfaces = self.interfaces.count();
        let prepared = self.pipeline.prepare(&config, interfaces)?;
        // A key that is drawn again would be another.
        let disguise = match config.export.anonymise == self.config.export.anonymise {
            true => None,
            false => Some(Disguise::draw(config.export.anonymise)?),
        };
        // Last: it takes ports.
        let server = self.server.prepare(&config.export)?;

        // Before anything else is shown to anyone.
        if let Some(disguise) = disguise {
            self.shown.disguise(disguise);
        }
        self.server.adopt(server);
        let extent = self.pipeline.adopt(prepared);
        self.interfaces.adopt(&config, &mut self.pipeline, extent);
        let listens = config.export.listen != self.config.export.listen
            || config.export.web_config != self.config.export.web_config;
        self.config = config;

        if extent == Extent::Sketches && !changed.iter().any(|key| key.starts_with("sketch.")) {
            // The same file with others in it.
            changed.push("sketch.weights");
        }
        match changed.is_empty() {
            true => tracing::info!("configuration reloaded: nothing has changed"),
            false => tracing::info!("configuration reloaded: {}", changed.join(", ")),
        }
        if extent >= Extent::Window {
            tracing::info!("windows that had begun ended early, and others began");
        }
        if !at_start.is_empty() {
            tracing::warn!("needs a restart: {}", at_start.join(", "));
        }
        if listens {
            for address in self.server.addresses() {
                tracing::info!("the page is at {address}/, metrics are at {address}/metrics");
            }
        }
        Ok(())
    }
}
