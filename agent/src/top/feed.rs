//! Requests to the agent. A separate thread sends them, so that keys work while an agent is slow
//! or does not answer.

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

/// Rows of a list that an agent returns at once, over all interfaces together.
pub const MOST: usize = 500;

/// What to request from the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    pub interfaces: Chosen,
    pub window: WindowName,
    pub order: Order,
    /// Number of rows of each list, limited to what an agent returns at once.
    pub rows: usize,
    /// An address or a service to request instead of lists.
    pub opened: Option<Opened>,
    /// A filter text that matches no row, to ask the agent about.
    pub missing: Option<String>,
}

/// The interfaces that are shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Chosen {
    /// The interface with the most packets.
    Busiest,
    /// This interface, or the busiest if there is none of this name.
    One(String),
    All,
}

/// The answers of the agent to one request.
#[derive(Debug)]
pub struct Update {
    pub request: Request,
    pub interfaces: Interfaces,
    /// The interface that is shown. `None` if all are shown, or if there is none.
    pub interface: Option<String>,
    /// The lists of each chosen interface that has the window. Empty if something is opened,
    /// because all numbers on a screen are from one answer.
    pub hitters: Vec<InterfaceHitters>,
    /// The answer about what is opened, or the reason why there is none.
    pub details: Option<Result<Details, String>>,
    /// The answer about the filter text that matches no row.
    pub found: Option<Found>,
}

/// The channels to and from the thread.
pub struct Feed {
    request: Sender<Request>,
    update: Receiver<anyhow::Result<Update>>,
}

impl Feed {
    /// Starts the thread. It sends a request every `interval`, and at once if the request changes.
    pub fn start(agent: Agent, first: Request, interval: Duration) -> anyhow::Result<Self> {
        let (request, changes) = mpsc::channel();
        let (answers, update) = mpsc::channel();
        let ask_repeatedly = move || {
            let mut request = first;
            loop {
                // Only the latest change counts. After a timeout the same request is sent again.
                match changes.recv_timeout(interval) {
                    Ok(change) => request = changes.try_iter().last().unwrap_or(change),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return,
                }
                let answer = ask(&agent, &request);
                if let Err(SendError(_)) = answers.send(answer) {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("top".into());
        thread
            .spawn(ask_repeatedly)
            .context("no thread can be started")?;
        Ok(Self { request, update })
    }

    /// Changes the request.
    pub fn request(&self, request: Request) {
        // If the thread has ended, the next call of `update` returns the error.
        let _ = self.request.send(request);
    }

    /// The next answer, if there is one. An error if the thread has ended.
    pub fn update(&self) -> anyhow::Result<Option<anyhow::Result<Update>>> {
        match self.update.try_recv() {
            Ok(update) => Ok(Some(update)),
            Err(mpsc::TryRecvError::Empty) => Ok(None),
            Err(mpsc::TryRecvError::Disconnected) => {
                anyhow::bail!("a fault in the thread that asks the agent")
            }
        }
    }
}

/// Sends one request to an agent.
pub fn ask(agent: &Agent, request: &Request) -> anyhow::Result<Update> {
    let interfaces: Interfaces = client::get(agent, answers::INTERFACES, &[])?;
    let chosen = choose(&interfaces, &request.interfaces).map(str::to_owned);
    let mut common = vec![("window", request.window.name().to_owned())];
    common.extend(chosen.clone().map(|name| ("interface", name)));
    let mut update = Update {
        request: request.clone(),
        interface: chosen.clone(),
        interfaces,
        hitters: Vec::new(),
        details: None,
        found: None,
    };
    match &request.opened {
        Some(opened) => {
            let details = opened.ask(agent, request.order.by(), &common);
            update.details = Some(details.map_err(|error| format!("{error:#}")));
        }
        None if chosen.is_some() || request.interfaces == Chosen::All => {
            let mut parameters = common.clone();
            parameters.push(("by", request.order.name().into()));
            parameters.push(("rates", "true".into()));
            let interfaces = match chosen {
                Some(_) => 1,
                None => update.interfaces.interfaces.len().max(1),
            };
            let rows = request.rows.min(MOST / interfaces);
            // With very many interfaces the agent chooses the number of rows.
            if rows > 0 {
                parameters.push(("top", rows.to_string()));
            }
            let hitters: HeavyHitters = client::get(agent, answers::HEAVY_HITTERS, &parameters)?;
            update.hitters = hitters.interfaces;
        }
        None => {}
    }
    if let Some(text) = &request.missing {
        update.found = found::ask(agent, text, &common);
    }
    Ok(update)
}

/// The requested interface, or else the busiest. `None` if all are requested.
fn choose<'a>(all: &'a Interfaces, request: &Chosen) -> Option<&'a str> {
    let request = match request {
        Chosen::All => return None,
        Chosen::Busiest => None,
        Chosen::One(name) => Some(name.as_str()),
    };
    let mut names = all.interfaces.iter().map(|one| one.interface.as_str());
    names.find(|name| Some(*name) == request).or_else(|| {
        // Of several equally busy interfaces the first.
        let interfaces = all.interfaces.iter().rev();
        let busiest = interfaces.max_by_key(|one| {
            let last = one.last.as_ref().map_or(0, |last| last.packets);
            last + one.current.packets
        });
        busiest.map(|one| one.interface.as_str())
    })
}
