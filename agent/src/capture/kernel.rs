//! The network of this machine: netlink lists interfaces and reports changes, libpcap
//! captures packets.

use std::thread;
use std::time::Duration;

use anyhow::Context;

use super::devices;
use super::libpcap::Libpcap;
use super::netlink::{self, Changes};
use super::network::{LinkState, Links, Network};
use super::settings::CaptureSettings;
use super::source::PacketSource;

pub struct Kernel {
    /// `None` if the kernel does not report changes.
    changes: Option<Changes>,
}

impl Kernel {
    /// Starts to listen for changes.
    pub fn new() -> Self {
        let changes = Changes::listen().inspect_err(|error| {
            tracing::warn!(%error, "the kernel does not report new interfaces; checking every second");
        });
        Self {
            changes: changes.ok(),
        }
    }
}

impl Network for Kernel {
    fn list(&self) -> anyhow::Result<Links> {
        let links = netlink::all().map_err(devices::explain);
        links.context("interfaces cannot be listed")
    }

    fn find(&self, name: &str) -> anyhow::Result<Option<LinkState>> {
        netlink::find(name).map_err(devices::explain)
    }

    fn wait_for_change(&self, time: Duration) -> bool {
        match &self.changes {
            Some(changes) => changes.wait(time),
            None => {
                thread::sleep(time);
                false
            }
        }
    }

    fn open(
        &self,
        name: &str,
        settings: &CaptureSettings,
    ) -> anyhow::Result<Box<dyn PacketSource>> {
        Ok(Box::new(Libpcap::open(name, settings)?))
    }
}
