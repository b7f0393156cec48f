//! What the view knows of the agent: asked for by a thread of its own, so that
//! keys are heard while an agent is slow or gone.

use std::net::IpAddr;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SendError, Sender};
use std::thread;
use std::time::Duration;

use anyhow::Context;

use crate::http::answers::{
    self, HeavyHitters, HeavyPair, InterfaceHitters, Interfaces, NodeAnswer,
};
use crate::http::client::{self, Agent};
use crate::sketch::answer::{By, WindowName};
use crate::sketch::estimate::{Estimate, PeerEstimate};

/// Pairs of a node that are asked for.
const PAIRS: usize = 100;

/// What is to be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Of this interface; of the busiest if it is none that there is.
    pub interface: Option<String>,
    /// Of this window.
    pub window: WindowName,
    /// The heaviest by this.
    pub by: By,
    /// And all about this node.
    pub node: Option<IpAddr>,
}

/// What the agent answers.
#[derive(Debug)]
pub struct News {
    /// What was asked.
    pub wanted: Wanted,
    /// All interfaces.
    pub interfaces: Interfaces,
    /// The heaviest of one of them; none before it has the window.
    pub hitters: Option<InterfaceHitters>,
    /// What is known of the node, or why nothing is.
    pub node: Option<Result<Node, String>>,
}

/// A node.
#[derive(Debug)]
pub struct Node {
    /// Its address.
    pub ip: IpAddr,
    /// Name of its network.
    pub name: Option<String>,
    /// What it sent.
    pub sent: Estimate,
    /// What it received.
    pub received: Estimate,
    /// To how many it sent.
    pub fan_out: PeerEstimate,
    /// From how many it received.
    pub fan_in: PeerEstimate,
    /// With whom it talked, of those that are known by name.
    pub peers: Vec<Peer>,
}

/// One with whom a node talked.
#[derive(Debug)]
pub struct Peer {
    /// Its address.
    pub ip: IpAddr,
    /// Name of its network.
    pub name: Option<String>,
    /// What the node sent to it; none if it is not among the heaviest.
    pub sent: Option<Estimate>,
    /// What the node received from it.
    pub received: Option<Estimate>,
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
    let chosen = choose(&interfaces, wanted.interface.as_deref());
    let mut common = vec![("window", wanted.window.name().to_owned())];
    common.extend(chosen.map(|name| ("interface", name.to_owned())));
    let by = match wanted.by {
        By::Packets => "packets",
        By::Bytes => "bytes",
    };
    let parameters = [&common[..], &[("by", by.to_owned())]].concat();
    let mut hitters: HeavyHitters = client::get(agent, answers::HEAVY_HITTERS, &parameters)?;
    let hitters = match chosen {
        Some(_) => hitters.interfaces.pop(),
        None => None,
    };
    let node = wanted
        .node
        .map(|ip| node(agent, ip, &parameters).map_err(|error| format!("{error:#}")));
    Ok(News {
        wanted: wanted.clone(),
        interfaces,
        hitters,
        node,
    })
}

/// The interface that is wanted, or else the busiest.
fn choose<'a>(all: &'a Interfaces, wanted: Option<&str>) -> Option<&'a str> {
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

fn node(agent: &Agent, ip: IpAddr, common: &[(&'static str, String)]) -> anyhow::Result<Node> {
    let asked = [("ip", ip.to_string()), ("top", PAIRS.to_string())];
    let answer: NodeAnswer = client::get(agent, answers::NODE, &[common, &asked].concat())?;
    let mut known = answer.interfaces.into_iter();
    let of = known.next().context("no window is complete yet")?;
    Ok(Node {
        ip,
        name: answer.name,
        sent: of.sent,
        received: of.received,
        fan_out: of.fan_out,
        fan_in: of.fan_in,
        peers: peers(ip, of.pairs.unwrap_or_default()),
    })
}

/// With whom a node talked, the heaviest first, from pairs of which it is one end.
fn peers(ip: IpAddr, pairs: Vec<HeavyPair>) -> Vec<Peer> {
    let mut peers: Vec<Peer> = Vec::new();
    for pair in pairs {
        let (other, name, sent) = match pair.src == ip {
            true => (pair.dst, pair.names.dst_name, true),
            false => (pair.src, pair.names.src_name, false),
        };
        let at = peers.iter().position(|peer| peer.ip == other);
        let at = at.unwrap_or_else(|| {
            peers.push(Peer {
                ip: other,
                name,
                sent: None,
                received: None,
            });
            peers.len() - 1
        });
        match sent {
            true => peers[at].sent = Some(pair.estimate),
            false => peers[at].received = Some(pair.estimate),
        }
    }
    peers
}
