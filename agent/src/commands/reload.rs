//! Replaces the configuration of a running agent, completely or not at all.
//!
//! Everything that can fail is done first: files are read and checked, sketches prepared, ports
//! bound. Then all parts adopt the new configuration, which cannot fail. Parts that are not
//! affected continue with their windows, counters and connections.

use std::sync::Arc;

use super::configure::configure_run;
use crate::capture::interfaces::Interfaces;
use crate::cli::Run;
use crate::config::Config;
use crate::export::agent;
use crate::http::Server;
use crate::lines::sink::LinesSink;
use crate::process::systemd;
use crate::ring::pipeline::{Pipeline, RenewalScope};
use crate::text::plain;
use crate::window::view::{CurrentView, View};

/// The parts of a running agent that depend on the configuration.
pub struct Agent {
    /// The configuration in force.
    pub config: Config,
    pub interfaces: Interfaces,
    pub pipeline: Pipeline,
    pub server: Server,
    pub shown: Arc<CurrentView>,
    /// Where the lines of windows are written.
    pub lines: LinesSink,
}

impl Agent {
    /// Reads the configuration again. If it has an error, nothing changes.
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
        let (mut changed, at_start) = config.replace(&self.config);
        self.interfaces.check(&config.capture, &self.pipeline)?;
        let interfaces = self.interfaces.count();
        let prepared = self.pipeline.prepare(&config, interfaces)?;
        // Without a change, the key is kept: another key would give other pseudonyms.
        let view = match config.export.anonymise == self.config.export.anonymise {
            true => self.shown.view().with(&config.export),
            false => View::new(&config.export)?,
        };
        let lines = self.lines.prepare(&config.export)?;
        // The last step, because it binds ports.
        let server = self.server.prepare(&config.export)?;

        // The first step, so that nothing shows addresses as before the reload.
        self.shown.adopt(view);
        self.lines.adopt(lines);
        self.server.adopt(server);
        let scope = self.pipeline.adopt(prepared);
        self.interfaces.adopt(&config, &mut self.pipeline, scope);
        let listens = config.export.listen != self.config.export.listen
            || config.export.web_config != self.config.export.web_config;
        self.config = config;

        if scope == RenewalScope::Sketches && !changed.iter().any(|key| key.starts_with("sketch."))
        {
            // The content of the file has changed.
            changed.push("sketch.weights");
        }
        match changed.is_empty() {
            true => tracing::info!("configuration reloaded: nothing has changed"),
            false => tracing::info!("configuration reloaded: {}", changed.join(", ")),
        }
        if scope >= RenewalScope::Window {
            tracing::info!("the current windows ended early, and new windows began");
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
