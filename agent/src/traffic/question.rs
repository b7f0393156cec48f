//! Queries: which window, in which order, about which addresses.

use std::net::IpAddr;
use std::str::FromStr;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::traffic::endpoint::{Between, Endpoint};
use crate::traffic::service::filter::ServiceFilter;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum WindowName {
    /// The window that is being filled.
    Current,
    /// The last complete window.
    Last,
}

impl By {
    pub fn name(self) -> &'static str {
        match self {
            Self::Packets => "packets",
            Self::Bytes => "bytes",
        }
    }
}

impl WindowName {
    /// Returns the window to use, depending on whether there is a last complete one. `None`
    /// if the requested window does not exist.
    pub fn resolve(asked: Option<Self>, has_last: bool) -> Option<Self> {
        match asked {
            Some(Self::Last) | None if has_last => Some(Self::Last),
            Some(Self::Last) => None,
            Some(Self::Current) | None => Some(Self::Current),
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Current => "current",
            Self::Last => "last",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum By {
    /// Most packets first.
    #[default]
    Packets,
    /// Most bytes first.
    Bytes,
}

#[derive(Debug, Clone)]
pub enum Question {
    /// Traffic from one end to another.
    Flow {
        ends: Between,
        /// Whether to include the other direction.
        both: bool,
        /// Only the traffic of these services.
        service: Option<ServiceFilter>,
    },
    /// Traffic that an address sends and receives, and its peers.
    Node(IpAddr),
}

impl FromStr for Question {
    type Err = String;

    /// Parses two ends, and optionally a service, separated by commas; or one address.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let Some((src, dst)) = text.split_once(',') else {
            return text.trim().parse().map(Self::Node).map_err(|_| {
                format!(
                    "`{text}` is no address: write one like 2001:db8::1, a pair like \
                     10.0.0.1,10.0.0.2, networks like '10.0.0.0/8,*', or a service of them like \
                     '10.0.0.0/8,*,443'"
                )
            });
        };
        let (dst, service) = match dst.split_once(',') {
            Some((dst, service)) => (dst, Some(service.parse()?)),
            None => (dst, None),
        };
        let ends = Between::new(src.parse::<Endpoint>()?, dst.parse()?);
        let ends = ends.ok_or("no packet goes from an IPv4 to an IPv6 address or back")?;
        Ok(Self::Flow {
            ends,
            both: false,
            service,
        })
    }
}
