//! Information about addresses that packets do not contain: AS and country, from database
//! files, and host names, from name servers.
//!
//! | module | holds |
//! |---|---|
//! | [`database`] | AS numbers and countries; [`record`] reads both layouts, [`ranges`] finds an address |
//! | [`resolver`] | host names: queue, threads, cache |
//! | [`dns`], [`server`], [`hosts`] | messages, a name server, files of the system |
//!
//! The whole agent shares one [`Lookup`]. A reload replaces its sources at once for all
//! windows.

pub mod database;
#[cfg(test)]
mod database_tests;
mod dns;
mod hosts;
mod ranges;
mod record;
mod resolver;
mod server;
#[cfg(test)]
pub mod testing;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use serde::{Deserialize, Serialize};

use crate::text::plain;
use database::Databases;
pub use record::parse_asn;
use resolver::Resolver;

/// Looks up addresses in sources that a reload may replace.
pub struct Lookup {
    sources: ArcSwap<Sources>,
}

/// The databases and the resolver in use.
#[derive(Default)]
pub struct Sources {
    databases: Arc<Databases>,
    resolver: Option<Arc<Resolver>>,
}

/// What is known of an address. All fields are `None` if no look-ups are configured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressInfo {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asn: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub as_name: Option<String>,
    /// Two letters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub country: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

impl Lookup {
    /// Looks up addresses in these databases, and their host names at these name servers: an
    /// empty list for those of the system, `None` for no host names.
    pub fn new(databases: Arc<Databases>, servers: Option<Vec<SocketAddr>>) -> Arc<Self> {
        let lookup = Self {
            sources: ArcSwap::default(),
        };
        lookup.adopt(databases, servers);
        Arc::new(lookup)
    }

    /// Looks up nothing.
    pub fn none() -> Arc<Self> {
        Self::new(Arc::default(), None)
    }

    /// Replaces the sources. Known host names are kept if the name servers are the same.
    pub fn adopt(&self, databases: Arc<Databases>, servers: Option<Vec<SocketAddr>>) {
        let before = self.sources.load();
        if before.databases != databases {
            databases.log();
        }
        let resolver = servers.and_then(|servers| {
            let same = before.resolver.as_ref();
            let same = same.filter(|resolver| resolver.servers() == servers);
            match same {
                Some(same) => Some(Arc::clone(same)),
                None => start(servers),
            }
        });
        self.sources.store(Arc::new(Sources {
            databases,
            resolver,
        }));
    }

    /// The sources in use.
    pub fn sources(&self) -> Arc<Sources> {
        self.sources.load_full()
    }
}

fn start(servers: Vec<SocketAddr>) -> Option<Arc<Resolver>> {
    let started = Resolver::start(servers);
    let started = started.inspect_err(|error| {
        tracing::warn!("lookup.resolve: no host names, its threads cannot start: {error}");
    });
    started.ok().map(Arc::new)
}

impl Sources {
    pub fn databases(&self) -> &Databases {
        &self.databases
    }

    /// Returns the AS and the country of an address.
    pub fn place(&self, address: IpAddr) -> AddressInfo {
        let databases = self.databases();
        let asn = databases.asns.as_ref();
        let number = asn.and_then(|asns| asns.number(address));
        let country = databases.countries.as_ref();
        let country = country.and_then(|countries| countries.code(address));
        AddressInfo {
            country: country.map(|code| code.to_string()),
            ..number.map_or_else(AddressInfo::default, |number| self.asn(number))
        }
    }

    /// Returns what is known of an AS.
    pub fn asn(&self, asn: u32) -> AddressInfo {
        let asns = self.databases.asns.as_ref();
        let name = asns.and_then(|asns| asns.name(asn));
        AddressInfo {
            asn: Some(asn),
            as_name: name.map(|name| name.to_string()),
            ..AddressInfo::default()
        }
    }

    /// Returns all that is known of an address. Its host name is looked up in the background.
    pub fn info(&self, address: IpAddr) -> AddressInfo {
        let host = self.resolver.as_ref();
        let host = host.and_then(|resolver| resolver.name(address));
        AddressInfo {
            host: host.map(|name| name.to_string()),
            ..self.place(address)
        }
    }

    /// Waits until all requested host names are looked up, for `timeout` at most. Returns at
    /// once if host names are not looked up.
    pub fn wait(&self, timeout: Duration) {
        if let Some(resolver) = &self.resolver {
            resolver.wait(timeout);
        }
    }

    /// Whether host names are looked up.
    pub fn resolves(&self) -> bool {
        self.resolver.is_some()
    }
}

impl AddressInfo {
    /// Formats an address with the name of its network, if it has one, and with what is known
    /// of it.
    pub fn show(&self, address: impl std::fmt::Display, name: Option<&str>) -> String {
        let (host, asn) = (self.host.as_deref(), self.asn_text());
        let parts = [name, host, asn.as_deref(), self.country.as_deref()];
        let parts: Vec<_> = parts.into_iter().flatten().map(plain::text).collect();
        match parts.is_empty() {
            true => address.to_string(),
            false => format!("{address} ({})", parts.join(", ")),
        }
    }

    /// Formats the AS: `AS64496 Example`.
    pub fn asn_text(&self) -> Option<String> {
        let name = self.as_name.as_ref();
        let name = name.map_or_else(String::new, |name| format!(" {name}"));
        self.asn.map(|asn| format!("AS{asn}{name}"))
    }
}
