//! What the view knows of the agent: asked for by a thread of its own, so that
//! keys are heard while an agent is slow or gone.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SendError, Sender};
use std::thread;
use std::time::Duration;

use anyhow::Context;

use super::found::{self, Found};
use super::opened::{Details, Opened};
use crate::http::answers::{self, HeavyHitters, InterfaceHitters, Interfaces};
use crate::http::client::{self, Agent};
use crate::traffic::question::WindowName;
use crate::window::rates::Order;

/// Rows of all lists together that an agent gives at once.
pub const MOST: usize = 500;

/// What is to be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    pub interfaces: Chosen,
    /// Of this window.
    pub window: WindowName,
    /// The first by this.
    pub order: Order,
    /// So many of them, as far as an agent gives so many.
    pub rows: usize,
    /// All about this instead.
    pub opened: Option<Opened>,
    /// What no row has: about this the agent is asked.
    pub missing: Option<String>,
}

/// Of which interfaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Chosen {
    /// Of the one with the most packets.
    Busiest,
    /// Of this one; of the busiest if it is none that there is.
    One(String),
    /// Of each of them.
    All,
}

/// What the agent answers.
#[derive(Debug)]
pub struct News {
    /// What was asked.
    pub wanted: Wanted,
    /// All interfaces.
    pub interfaces: Interfaces,
    /// The one that is shown; none if all are, or there is none.
    pub interface: Option<String>,
    /// The heaviest of each that is meant; none before they have the window, or where
    /// something is opened: a screen is of one moment, and so of one answer.
    pub hitters: Vec<InterfaceHitters>,
    /// What is known of what is opened, or why nothing is.
    pub details: Option<Result<Details, String>>,
    /// What is known of what no row has.
    pub found: Option<Found>,
}

/// The thread and what it says.
pub struct Feed {
    wanted: Sender<Wanted>,
    news: Receiver<anyhow::Result<News>>,
}

impl Feed {
    /// Asks every `interval`, and at once when something else is wanted.
    pub fn start(agent: Agent, first: Wanted, interval: Duration) -> anyhow::Result<Self> {
        let (wanted, changes) = mpsc::channel();
        let (answers, news) = mpsc::channel();
        let ask_on = move || {
            let mut wanted = first;
            loop {
                // Only the latest wish counts; none for a while is the same wish again.
                match changes.recv_timeout(interval) {
                    Ok(change) => wanted = changes.try_iter().last().unwrap_or(change),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return,
                }
                let answer = ask(&agent, &wanted);
                if let Err(SendError(_)) = answers.send(answer) {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("top".into());
        thread.spawn(ask_on).context("no thread can be started")?;
        Ok(Self { wanted, news })
    }

    /// Wants something else.
    pub fn want(&self, wanted: Wanted) {
        // A thread that is gone is noticed by whom it tells nothing.
        let _ = self.wanted.send(wanted);
    }

    /// What has come; an error if nothing will come any more.
    pub fn news(&self) -> anyhow::Result<Option<anyhow::Result<News>>> {
        match self.news.try_recv() {
            Ok(news) => Ok(Some(news)),
            Err(mpsc::TryRecvError::Empty) => Ok(None),
            Err(mpsc::TryRecvError::Disconnected) => {
                anyhow::bail!("a fault in the thread that asks the agent")
            }
        }
    }
}

/// Asks an agent all that is wanted.
pub fn ask(agent: &Agent, wanted: &Wanted) -> anyhow::Result<News> {
    let interfaces: Interfaces = client::get(agent, answers::INTERFACES, &[])?;
    let chosen = choose(&interfaces, &wanted.interfaces).map(str::to_owned);
    let mut common = vec![("window", wanted.window.name().to_owned())];
    common.extend(chosen.clone().map(|name| ("interface", name)));
    let mut news = News {
        wanted: wanted.clone(),
        interface: chosen.clone(),
        interfaces,
        hitters: Vec::new(),
        details: None,
        found: None,
    };
    match &wanted.opened {
        Some(opened) => {
            let details = opened.ask(agent, wanted.order.by(), &common);
            news.details = Some(details.map_err(|error| format!("{error:#}")));
        }
        None if chosen.is_some() || wanted.interfaces == Chosen::All => {
            let mut parameters = common.clone();
            parameters.push(("by", wanted.order.name().into()));
            parameters.push(("rates", "true".into()));
            let interfaces = match chosen {
                Some(_) => 1,
                None => news.interfaces.interfaces.len().max(1),
            };
            let rows = wanted.rows.min(MOST / interfaces);
            // Of very many interfaces each has a few.
            if rows > 0 {
                parameters.push(("top", rows.to_string()));
            }
            let hitters: HeavyHitters = client::get(agent, answers::HEAVY_HITTERS, &parameters)?;
            news.hitters = hitters.interfaces;
        }
        None => {}
    }
    if let Some(text) = &wanted.missing {
        news.found = found::ask(agent, text, &common);
    }
    Ok(news)
}

/// The interface that is wanted, or else the busiest; none where all are.
fn choose<'a>(all: &'a Interfaces, wanted: &Chosen) -> Option<&'a str> {
    let wanted = match wanted {
        Chosen::All => return None,
        Chosen::Busiest => None,
        Chosen::One(name) => Some(name.as_str()),
    };
    let mut names = all.interfaces.iter().map(|one| one.interface.as_str());
    names.find(|name| Some(*name) == wanted).or_else(|| {
        // The first of the busiest.
        let interfaces = all.interfaces.iter().rev();
        let busiest = interfaces.max_by_key(|one| {
            let last = one.last.as_ref().map_or(0, |last| last.packets);
            last + one.current.packets
        });
        busiest.map(|one| one.interface.as_str())
    })
}
