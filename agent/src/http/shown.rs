//! What readers may see of snapshots: all of it, or addresses in disguise.
//!
//! Metrics and answers are made from what this gives out and from nothing else,
//! so that no list can forget to hide its addresses. Whoever adds a field to a
//! view has to say here what is shown of it: it does not compile otherwise.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::{ArcSwap, ArcSwapOption};
use crane_model::fan::Peers;
use crane_model::{Amount, Flow};
use ipnet::IpNet;

use super::anonymise::Anonymiser;
use crate::config::Anonymise;
use crate::edge::Pair;
use crate::export::fans::{FanList, FanLists, NodePeers, Notable};
use crate::export::hitters::Hitters;
use crate::export::snapshot::{Exported, InterfaceView, Snapshot, WindowView};
use crate::names::{MOST_NAMES, Names, OTHER, Prefixes};
use crate::service::Service;
use crate::sketch::key::Key;

/// Snapshots as they are shown.
pub struct Shown {
    snapshot: Arc<ArcSwap<Snapshot>>,
    disguise: ArcSwapOption<Disguise>,
}

impl Shown {
    /// Shows these snapshots.
    pub fn new(snapshot: Arc<ArcSwap<Snapshot>>, anonymise: Anonymise) -> anyhow::Result<Self> {
        Ok(Self {
            snapshot,
            disguise: ArcSwapOption::from(Disguise::draw(anonymise)?),
        })
    }

    /// Shows addresses in another disguise from now on.
    pub fn disguise(&self, disguise: Option<Arc<Disguise>>) {
        self.disguise.store(disguise);
    }

    /// What may be seen now.
    pub fn load(&self) -> Arc<Snapshot> {
        let real = self.snapshot.load_full();
        match &*self.disguise.load() {
            None => real,
            Some(disguise) => disguise.shown(real),
        }
    }

    /// What may be seen of a window that was asked for, and the names of what is seen.
    pub fn window(&self, window: WindowView) -> (WindowView, Option<Arc<Names>>) {
        let names = self.names();
        let disguise = self.disguise.load();
        let Some(disguise) = &*disguise else {
            return (window, names);
        };
        let names = names.map(|names| match disguise.anonymiser {
            Anonymiser::Keyed(_) => disguise.names(&names, std::iter::once(&window)),
            Anonymiser::Prefix => names,
        });
        (disguise.window(&window), names)
    }

    /// The address that a question is about; none if that cannot be told.
    pub fn real(&self, asked: IpAddr) -> Option<IpAddr> {
        match &*self.disguise.load() {
            None => Some(asked),
            Some(disguise) => disguise.anonymiser.real(asked),
        }
    }

    /// Whether several addresses may become one.
    pub fn adds_up(&self) -> bool {
        let disguise = self.disguise.load();
        let disguise = disguise.as_ref();
        disguise.is_some_and(|one| matches!(one.anonymiser, Anonymiser::Prefix))
    }

    /// Names of real addresses.
    pub fn names(&self) -> Option<Arc<Names>> {
        self.snapshot.load().names.clone()
    }
}

/// A way to hide addresses, and what it showed last.
pub struct Disguise {
    anonymiser: Anonymiser,
    /// The snapshot that was asked for last, and what was shown of it.
    last: Mutex<Option<[Arc<Snapshot>; 2]>>,
}

impl Disguise {
    /// What the configuration asks for; the key of pseudonyms lives as long as this.
    pub fn draw(anonymise: Anonymise) -> anyhow::Result<Option<Arc<Self>>> {
        let anonymiser = match anonymise {
            Anonymise::None => return Ok(None),
            Anonymise::Prefix => Anonymiser::Prefix,
            Anonymise::Keyed => Anonymiser::Keyed(Key::draw()?.secret),
        };
        Ok(Some(Arc::new(Self {
            anonymiser,
            last: Mutex::default(),
        })))
    }

    fn shown(&self, real: Arc<Snapshot>) -> Arc<Snapshot> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some([before, shown]) = &*last
            && Arc::ptr_eq(before, &real)
        {
            return Arc::clone(shown);
        }
        let shown = Arc::new(self.snapshot(&real));
        *last = Some([real, Arc::clone(&shown)]);
        shown
    }

    fn snapshot(&self, snapshot: &Snapshot) -> Snapshot {
        let Snapshot {
            interfaces,
            names,
            published,
        } = snapshot;
        let names = match (&self.anonymiser, names) {
            (Anonymiser::Keyed(_), Some(names)) => {
                let windows = interfaces.iter().flat_map(|view| {
                    let last = view.last.as_deref().into_iter();
                    last.chain([&view.current])
                });
                Some(self.names(names, windows))
            }
            // A network has the name of its first address.
            (_, names) => names.clone(),
        };
        let view = |view: &Arc<InterfaceView>| Arc::new(self.interface(view));
        Snapshot {
            interfaces: interfaces.iter().map(view).collect(),
            names,
            published: *published,
        }
    }

    fn interface(&self, view: &InterfaceView) -> InterfaceView {
        InterfaceView {
            name: view.name.clone(),
            tally: Arc::clone(&view.tally),
            ended: view.ended,
            loads: view.loads.clone(),
            expansions: view.expansions,
            memory_bytes: view.memory_bytes,
            saturated: view.saturated,
            groups: view.groups.clone(),
            current: self.window(&view.current),
            last: view.last.as_deref().map(|last| Arc::new(self.window(last))),
            exported: Exported {
                pairs: self.pairs(&view.exported.pairs),
                sources: self.nodes(&view.exported.sources),
                destinations: self.nodes(&view.exported.destinations),
                services: view.exported.services.clone(),
                fans: self.fans(&view.exported.fans),
                watched: self.flows(&view.exported.watched),
            },
        }
    }

    fn window(&self, window: &WindowView) -> WindowView {
        WindowView {
            start: window.start,
            end: window.end,
            until: window.until,
            latest: window.latest,
            unseen: window.unseen,
            packets: window.packets,
            bytes: window.bytes,
            distinct: window.distinct,
            exact: window.exact,
            pairs: self.pairs(&window.pairs),
            sources: self.nodes(&window.sources),
            destinations: self.nodes(&window.destinations),
            services: window.services.clone(),
            main_services: self.main_services(&window.main_services),
            fans: self.fans(&window.fans),
        }
    }

    fn pairs(&self, hitters: &Hitters<Pair>) -> Hitters<Pair> {
        merge(hitters, |pair| self.pair(pair))
    }

    fn nodes(&self, hitters: &Hitters<IpAddr>) -> Hitters<IpAddr> {
        merge(hitters, |node| self.anonymiser.show(node))
    }

    /// Of those that become one, the largest: how many others they have together
    /// nobody knows.
    fn fans(&self, fans: &FanLists) -> FanLists {
        // Under `prefix` a row is of the largest address of a network.
        let is_one = matches!(self.anonymiser, Anonymiser::Keyed(_));
        let show = |NodePeers { ip, peers }| NodePeers {
            ip: self.anonymiser.show(ip),
            peers: Peers {
                exact: peers.exact && is_one,
                ..peers
            },
        };
        let [out, into] = [&fans.out, &fans.into].map(|list| {
            let mut nodes: Vec<NodePeers> = Vec::new();
            // The largest first.
            for node in list.nodes.iter().copied().map(show) {
                if !nodes.iter().any(|seen| seen.ip == node.ip) {
                    nodes.push(node);
                }
            }
            FanList {
                nodes,
                others_at_most: list.others_at_most.filter(|_| is_one),
            }
        });
        let mut notable: Vec<Notable> = Vec::new();
        for Notable { kind, node } in fans.notable.iter().copied() {
            let node = show(node);
            if !notable
                .iter()
                .any(|seen| (seen.kind, seen.node.ip) == (kind, node.ip))
            {
                notable.push(Notable { kind, node });
            }
        }
        FanLists { out, into, notable }
    }

    /// None of pairs that become one and talk about different things.
    fn main_services(&self, services: &BTreeMap<Pair, Service>) -> BTreeMap<Pair, Service> {
        let mut shown: BTreeMap<Pair, Option<Service>> = BTreeMap::new();
        for (pair, service) in services {
            let same = shown.entry(self.pair(*pair)).or_insert(Some(*service));
            *same = same.filter(|same| same == service);
        }
        let known = shown.into_iter();
        known
            .filter_map(|(pair, service)| Some((pair, service?)))
            .collect()
    }

    fn flows(&self, flows: &[Flow<Pair>]) -> Vec<Flow<Pair>> {
        let (mut keys, sums) = sums(flows.iter(), |pair| self.pair(pair));
        keys.drain(..)
            .filter_map(|key| sums.get(&key).copied())
            .collect()
    }

    fn pair(&self, pair: Pair) -> Pair {
        let (src, dst) = (
            self.anonymiser.show(pair.src()),
            self.anonymiser.show(pair.dst()),
        );
        // Both stay of their kind.
        Pair::between(src, dst).unwrap_or(pair)
    }

    /// Names of all pseudonyms that are shown.
    fn names<'a>(
        &self,
        names: &Names,
        windows: impl Iterator<Item = &'a WindowView>,
    ) -> Arc<Names> {
        let mut prefixes = Prefixes::new(MOST_NAMES);
        let mut give = |real: IpAddr| {
            let name = names.of(real);
            if name != OTHER {
                // No two addresses have one pseudonym, so there is no clash.
                let _ = prefixes.give(IpNet::from(self.anonymiser.show(real)), name, 0);
            }
        };
        for window in windows {
            for pair in window.pairs.union() {
                give(pair.key.src());
                give(pair.key.dst());
            }
            let nodes = window.sources.union().chain(window.destinations.union());
            nodes.for_each(|node| give(node.key));
            let fans = window.fans.out.nodes.iter().chain(&window.fans.into.nodes);
            fans.for_each(|node| give(node.ip));
        }
        Arc::new(prefixes.finish())
    }
}

/// Lists under other keys. Those whose keys become the same are added up, in both
/// lists together: a series has one value.
fn merge<K: Copy + Eq + Hash + Ord>(hitters: &Hitters<K>, show: impl Fn(K) -> K) -> Hitters<K> {
    let (_, sums) = sums(hitters.union(), &show);
    let list = |flows: &[Flow<K>], size: fn(&Flow<K>) -> u64| {
        let mut keys: Vec<K> = flows.iter().map(|flow| show(flow.key)).collect();
        keys.sort_unstable();
        keys.dedup();
        let flows = keys.iter().filter_map(|key| sums.get(key).copied());
        let mut flows: Vec<Flow<K>> = flows.collect();
        // Stable: equal sizes stay in the order of their keys.
        flows.sort_by_key(|flow| std::cmp::Reverse(size(flow)));
        flows
    };
    Hitters {
        by_packets: list(&hitters.by_packets, |flow| flow.packets.estimate),
        by_bytes: list(&hitters.by_bytes, |flow| flow.bytes.estimate),
    }
}

/// The sums of flows by what is shown of their keys, and these keys in order.
fn sums<'a, K: Copy + Eq + Hash + 'a>(
    flows: impl Iterator<Item = &'a Flow<K>>,
    show: impl Fn(K) -> K,
) -> (Vec<K>, HashMap<K, Flow<K>>) {
    let (mut keys, mut sums) = (Vec::new(), HashMap::<K, Flow<K>>::new());
    for flow in flows {
        let key = show(flow.key);
        let before = sums.get(&key);
        if before.is_none() {
            keys.push(key);
        }
        let sum = Flow {
            key,
            packets: add(before.map(|before| before.packets), flow.packets),
            bytes: add(before.map(|before| before.bytes), flow.bytes),
        };
        sums.insert(key, sum);
    }
    (keys, sums)
}

/// What is likely of each is likely of the sum, what is certain is certain.
fn add(a: Option<Amount>, b: Amount) -> Amount {
    let Some(a) = a else {
        return b;
    };
    let both = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_add(b?));
    Amount {
        estimate: a.estimate.saturating_add(b.estimate),
        low: a.low.saturating_add(b.low),
        high: a.high.saturating_add(b.high),
        at_least: both(a.at_least, b.at_least),
        at_most: both(a.at_most, b.at_most),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_becomes_one_is_added_up_over_both_lists() {
        let flow = |key: u32, packets, bytes| Flow {
            key,
            packets: Amount::exact(packets),
            bytes: Amount::exact(bytes),
        };
        let (a, b, c) = (flow(10, 5, 50), flow(11, 3, 900), flow(20, 4, 40));
        let hitters = Hitters {
            by_packets: vec![a, c],
            by_bytes: vec![b, a],
        };
        let merged = merge(&hitters, |key| key / 10 * 10);
        let sum = flow(10, 8, 950);
        assert_eq!(merged.by_packets, [sum, c], "11 is only heavy by bytes");
        assert_eq!(merged.by_bytes, [sum]);
        let keys: Vec<u32> = merged.union().map(|flow| flow.key).collect();
        assert_eq!(keys, [10, 20]);
        assert_eq!(merged.by_packets[0].packets.at_most, Some(8));
    }
}
