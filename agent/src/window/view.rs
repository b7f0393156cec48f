//! How windows are shown: the length of lists, the watch list, and whether addresses are hidden.

use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::config::{self, Anonymise};
use crate::sketches::key::Key;
use crate::traffic::anonymise::Anonymiser;
use crate::traffic::edge::Pair;

/// The view in use. A reload may replace it.
pub struct CurrentView {
    view: ArcSwap<View>,
}

#[derive(Clone)]
pub struct View {
    /// Rows of a list.
    pub top: usize,
    /// Pairs of which estimates are exported, without duplicates.
    pub watch: Vec<Pair>,
    /// Replaces addresses, if that is configured. A reload keeps it, and so the key of pseudonyms.
    pub anonymiser: Option<Arc<Anonymiser>>,
}

impl View {
    /// The view of this configuration, with a new key for pseudonyms.
    pub fn new(config: &config::Export) -> anyhow::Result<Self> {
        let anonymiser = match config.anonymise {
            Anonymise::None => None,
            Anonymise::Prefix => Some(Anonymiser::Prefix),
            Anonymise::Keyed => Some(Anonymiser::Keyed(Key::random()?.secret)),
        };
        let view = Self {
            top: 0,
            watch: Vec::new(),
            anonymiser: anonymiser.map(Arc::new),
        };
        Ok(view.with(config))
    }

    /// The same view with other lists; addresses are replaced as before.
    pub fn with(&self, config: &config::Export) -> Self {
        let mut watch: Vec<Pair> = Vec::new();
        // The same addresses may be written in several ways.
        for pair in config.watch.iter().map(|watched| watched.0) {
            if !watch.contains(&pair) {
                watch.push(pair);
            }
        }
        Self {
            top: config.top,
            watch,
            anonymiser: self.anonymiser.clone(),
        }
    }

    pub fn anonymiser(&self) -> Option<&Anonymiser> {
        self.anonymiser.as_deref()
    }

    /// Returns the real address for one that is shown. `None` if it cannot be reversed.
    pub fn real(&self, asked: IpAddr) -> Option<IpAddr> {
        match &self.anonymiser {
            None => Some(asked),
            Some(anonymiser) => anonymiser.real(asked),
        }
    }
}

impl CurrentView {
    pub fn new(view: View) -> Self {
        Self {
            view: ArcSwap::from_pointee(view),
        }
    }

    pub fn adopt(&self, view: View) {
        self.view.store(Arc::new(view));
    }

    pub fn view(&self) -> Arc<View> {
        self.view.load_full()
    }
}
