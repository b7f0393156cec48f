//! A fake network whose interfaces appear, vanish, fail and receive packets on demand. Like
//! the kernel it delivers every packet to every open capture of its interface whose filter
//! accepts it.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};

use crate::capture::network::{LinkState, Links, Network};
use crate::capture::settings::CaptureSettings;
use crate::capture::sink::PacketSink;
use crate::capture::source::{Losses, PacketSource, Stamps, Taken};
use crate::filter::FileFilter;
use crate::process::clock::wall_clock;
use crate::traffic::packet::{Link, Packet};

/// A fake network. Clones share the same state.
#[derive(Clone, Default)]
pub struct FakeNetwork {
    state: Arc<Mutex<NetworkState>>,
    changed: Arc<Condvar>,
}

/// All state is under one lock, so a packet reaches all captures at once.
#[derive(Default)]
pub struct NetworkState {
    links: BTreeMap<String, FakeLink>,
    /// Open captures by number.
    pub captures: BTreeMap<u64, FakeCapture>,
    /// Number of interfaces and captures created so far.
    begun: u64,
    changed: bool,
}

struct FakeLink {
    link_state: LinkState,
    /// Error that opening it returns.
    refusal: Option<&'static str>,
    /// Number of attempts to open it.
    attempts: usize,
    opening_time: Duration,
    speed: ReadSpeed,
}

/// How fast packets can be taken from a capture.
#[derive(Clone, Copy)]
pub struct ReadSpeed {
    /// Most packets per read.
    pub at_once: usize,
    /// Duration of a read.
    pub pause: Duration,
}

/// State of an open capture.
pub struct FakeCapture {
    index: u32,
    settings: CaptureSettings,
    filter: Option<FileFilter>,
    /// Packets that are ready, with their timestamps.
    pub packets: VecDeque<(i64, Arc<[u8]>)>,
    /// Losses since the last call of `losses`.
    pub losses: Losses,
    /// Error that is returned after the last packet.
    pub error: Option<&'static str>,
    /// Readable while there are packets.
    pub ready: Arc<OwnedFd>,
    pub speed: ReadSpeed,
}

/// All packets of these tests are Ethernet.
pub const ETHERNET: Link = Link(1);

impl FakeNetwork {
    /// A network with these interfaces, all of them up.
    pub fn of(names: &[&str]) -> Self {
        let network = Self::default();
        names.iter().for_each(|name| network.add(name));
        network
    }

    pub fn lock(&self) -> MutexGuard<'_, NetworkState> {
        self.state.lock().unwrap()
    }

    /// Changes interfaces and reports that as the kernel does.
    fn change(&self, change: impl FnOnce(&mut NetworkState)) {
        let mut state = self.lock();
        change(&mut state);
        state.changed = true;
        self.changed.notify_all();
    }

    /// Adds an interface that is up.
    pub fn add(&self, name: &str) {
        self.change(|state| {
            state.begun += 1;
            let link_state = LinkState {
                index: state.begun as u32,
                up: true,
                loopback: false,
            };
            let link = FakeLink {
                link_state,
                refusal: None,
                attempts: 0,
                opening_time: Duration::ZERO,
                speed: ReadSpeed {
                    at_once: 4096,
                    pause: Duration::ZERO,
                },
            };
            state.links.insert(name.into(), link);
        });
    }

    /// Removes an interface. Its open captures get no error and no more packets.
    pub fn remove(&self, name: &str) {
        self.change(|state| {
            state.links.remove(name).unwrap();
        });
    }

    /// Sets an interface up or down.
    pub fn set_up(&self, name: &str, up: bool) {
        self.change(|state| state.link(name).link_state.up = up);
    }

    /// Sets or clears the error that opening an interface returns.
    pub fn refuse(&self, name: &str, refusal: Option<&'static str>) {
        self.lock().link(name).refusal = refusal;
    }

    /// Returns how often the interface was opened or failed to open.
    pub fn attempts(&self, name: &str) -> usize {
        self.lock().link(name).attempts
    }

    /// Sets the speed of captures that are opened from now on.
    pub fn set_speed(&self, name: &str, speed: ReadSpeed) {
        self.lock().link(name).speed = speed;
    }

    /// Sets how long opening a capture takes. It already receives packets during that time.
    pub fn set_opening_time(&self, name: &str, time: Duration) {
        self.lock().link(name).opening_time = time;
    }

    /// Makes open captures of an interface fail with this error after their last packet.
    pub fn fail(&self, name: &str, error: &'static str) {
        self.lock().on(name).for_each(|capture| {
            capture.error = Some(error);
            capture.signal();
        });
    }

    /// Adds losses to the open captures of an interface.
    pub fn add_losses(&self, name: &str, losses: Losses) {
        let mut state = self.lock();
        state.on(name).for_each(|capture| {
            capture.losses.kernel += losses.kernel;
            capture.losses.interface += losses.interface;
        });
    }

    /// Delivers packets on an interface, stamped with the current time.
    pub fn send(&self, name: &str, packets: &[Vec<u8>]) {
        let mut state = self.lock();
        // Read under the lock, so that no capture that is opened later sees an earlier
        // timestamp.
        let stamp = (wall_clock() / 1000) as i64;
        for packet in packets {
            let packet: Arc<[u8]> = packet.as_slice().into();
            for capture in state.on(name) {
                if capture.passes(&packet) {
                    capture.packets.push_back((stamp, Arc::clone(&packet)));
                }
            }
        }
        state.on(name).for_each(|capture| capture.signal());
    }

    /// Returns the settings of the open captures of an interface, oldest first.
    pub fn open_settings(&self, name: &str) -> Vec<CaptureSettings> {
        let mut state = self.lock();
        state.on(name).map(|open| open.settings.clone()).collect()
    }

    /// Returns how many packets of all captures have not been read.
    pub fn waiting_packets(&self) -> usize {
        let state = self.lock();
        state.captures.values().map(|open| open.packets.len()).sum()
    }
}

impl NetworkState {
    fn link(&mut self, name: &str) -> &mut FakeLink {
        self.links.get_mut(name).unwrap()
    }

    /// Open captures of an interface, without those of a removed interface of the same
    /// name.
    fn on(&mut self, name: &str) -> impl Iterator<Item = &mut FakeCapture> {
        let index = self.link(name).link_state.index;
        let captures = self.captures.values_mut();
        captures.filter(move |capture| capture.index == index)
    }
}

impl FakeCapture {
    fn passes(&mut self, packet: &[u8]) -> bool {
        let Some(filter) = &mut self.filter else {
            return true;
        };
        let packet = Packet {
            data: packet,
            wire_len: packet.len() as u32,
            time: 0,
            link: ETHERNET,
            interface: 0,
        };
        filter.accepts(&packet).unwrap()
    }

    /// Makes the descriptor readable.
    fn signal(&self) {
        rustix::io::write(&self.ready, &1u64.to_ne_bytes()).unwrap();
    }
}

impl Network for FakeNetwork {
    fn list(&self) -> anyhow::Result<Links> {
        let state = self.lock();
        let links = state.links.iter();
        let mut named: Vec<_> = links
            .map(|(name, link)| (name.clone(), link.link_state))
            .collect();
        named.sort_by_key(|(_, link_state)| link_state.index);
        Ok(Links {
            named,
            unreadable: Vec::new(),
        })
    }

    fn find(&self, name: &str) -> anyhow::Result<Option<LinkState>> {
        Ok(self.lock().links.get(name).map(|link| link.link_state))
    }

    fn wait_for_change(&self, time: Duration) -> bool {
        let quiet = |state: &mut NetworkState| !state.changed;
        let waited = self.changed.wait_timeout_while(self.lock(), time, quiet);
        let (mut state, _) = waited.unwrap();
        std::mem::take(&mut state.changed)
    }

    fn open(
        &self,
        name: &str,
        settings: &CaptureSettings,
    ) -> anyhow::Result<Box<dyn PacketSource>> {
        let mut state = self.lock();
        anyhow::ensure!(state.links.contains_key(name), "no such interface");
        let link = state.link(name);
        link.attempts += 1;
        if let Some(refusal) = link.refusal {
            anyhow::bail!(refusal);
        }
        let (index, speed) = (link.link_state.index, link.speed);
        let opening_time = link.opening_time;
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let ready = Arc::new(eventfd(0, flags)?);
        let capture = FakeCapture {
            index,
            settings: settings.clone(),
            filter: settings.filter.clone().map(FileFilter::new),
            packets: VecDeque::new(),
            losses: Losses::default(),
            error: None,
            ready: Arc::clone(&ready),
            speed,
        };
        state.begun += 1;
        let number = state.begun;
        state.captures.insert(number, capture);
        drop(state);
        thread::sleep(opening_time);
        Ok(Box::new(FakeSource::new(self.clone(), number, ready)))
    }
}

/// An open capture. Its state is kept by the network.
pub struct FakeSource {
    network: FakeNetwork,
    number: u64,
    ready: Arc<OwnedFd>,
}

impl FakeSource {
    pub fn new(network: FakeNetwork, number: u64, ready: Arc<OwnedFd>) -> Self {
        Self {
            network,
            number,
            ready,
        }
    }
}

impl PacketSource for FakeSource {
    fn take(&mut self, sink: &mut PacketSink, stamps: Stamps) -> anyhow::Result<Taken> {
        let mut state = self.network.lock();
        let capture = state.captures.get_mut(&self.number).unwrap();
        let (speed, error) = (capture.speed, capture.error);
        let count = capture.packets.len().min(speed.at_once);
        let packets: Vec<_> = capture.packets.drain(..count).collect();
        if capture.packets.is_empty() && (error.is_none() || packets.is_empty()) {
            // The descriptor may not be readable.
            let _ = rustix::io::read(&self.ready, &mut [0; 8]);
        }
        drop(state);
        if let Some(error) = error.filter(|_| packets.is_empty()) {
            anyhow::bail!(error);
        }
        let mut skipped = 0;
        for (stamp, packet) in &packets {
            if !stamps.contains(*stamp) {
                skipped += 1;
                continue;
            }
            sink.offer(&Packet {
                data: packet,
                wire_len: packet.len() as u32,
                time: 0,
                link: ETHERNET,
                interface: 0,
            });
        }
        let packets = packets.len();
        if packets > 0 {
            thread::sleep(speed.pause);
        }
        Ok(Taken { packets, skipped })
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.ready.as_fd()
    }

    fn losses(&mut self) -> Losses {
        let mut state = self.network.lock();
        let capture = state.captures.get_mut(&self.number).unwrap();
        std::mem::take(&mut capture.losses)
    }
}

impl Drop for FakeSource {
    fn drop(&mut self) {
        self.network.lock().captures.remove(&self.number);
    }
}
