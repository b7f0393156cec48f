//! The service of a packet: its protocol and the port of the server.
//!
//! No field of a packet names the server. It is the end with the lower port, unless only
//! the higher port is registered ([`known`]), because clients use high ports without a
//! meaning.

pub mod filter;
mod known;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::traffic::protocol::Protocol;

/// A service: a protocol and, if it has ports, the server's port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "Parts", try_from = "Parts")]
pub struct Service(u32);

/// Set if there is a port.
const HAS_PORT: u32 = 1 << 16;
/// Bit offset of the protocol.
const PROTOCOL: u32 = 17;
/// Value used instead of a protocol for later fragments.
const FRAGMENT: u32 = Protocol::ALL.len() as u32;
const FRAGMENT_NAME: &str = "fragment";

/// Number of bits of a code.
pub const BITS: u32 = 21;

impl Service {
    /// A later fragment of a packet, which has no ports.
    pub const FRAGMENT: Self = Self(FRAGMENT << PROTOCOL);

    /// A protocol without ports, or a packet that was truncated before them.
    #[inline]
    pub fn of(protocol: Protocol) -> Self {
        Self((protocol as u32) << PROTOCOL)
    }

    /// Returns the service of a packet with these two ports.
    #[inline]
    pub fn between(protocol: Protocol, one: u16, other: u16) -> Self {
        let (low, high) = (one.min(other), one.max(other));
        let server = if !known::is_registered(low) && known::is_registered(high) {
            high
        } else {
            low
        };
        Self(Self::of(protocol).0 | HAS_PORT | u32::from(server))
    }

    /// Returns a code of [`BITS`] bits.
    #[inline]
    pub fn code(self) -> u32 {
        self.0
    }

    /// Returns the service of a valid code.
    #[inline]
    pub fn of_code(code: u32) -> Self {
        Self(code)
    }

    /// Whether the code is that of a service.
    pub fn is_possible(self) -> bool {
        self.0 >> PROTOCOL <= FRAGMENT
    }

    /// Name of the protocol, or of a fragment.
    pub fn protocol(self) -> &'static str {
        let protocol = Protocol::ALL.get((self.0 >> PROTOCOL) as usize);
        protocol.map_or(FRAGMENT_NAME, |protocol| protocol.name())
    }

    pub fn port(self) -> Option<u16> {
        (self.0 & HAS_PORT != 0).then_some(self.0 as u16)
    }
}

/// Formats a service like `tcp/443 https`.
impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.protocol())?;
        if let Some(port) = self.port() {
            write!(f, "/{port}")?;
            if let Some(name) = known::name(port) {
                write!(f, " {name}")?;
            }
        }
        Ok(())
    }
}

/// The form in JSON.
#[derive(Serialize, Deserialize)]
struct Parts {
    protocol: String,
    port: Option<u16>,
}

impl From<Service> for Parts {
    fn from(service: Service) -> Self {
        Self {
            protocol: service.protocol().into(),
            port: service.port(),
        }
    }
}

impl TryFrom<Parts> for Service {
    type Error = String;

    fn try_from(parts: Parts) -> Result<Self, String> {
        let known = Protocol::ALL
            .into_iter()
            .find(|one| one.name() == parts.protocol);
        let service = match known {
            Some(protocol) => Self::of(protocol),
            None if parts.protocol == FRAGMENT_NAME => Self::FRAGMENT,
            None => return Err(format!("no protocol is called {}", parts.protocol)),
        };
        let port = parts.port.map_or(0, |port| HAS_PORT | u32::from(port));
        Ok(Self(service.0 | port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_has_the_lower_port_unless_only_the_other_is_registered() {
        for (one, other, server) in [
            (443, 50_000, 443),
            (50_000, 443, 443),
            (1050, 3306, 3306),
            (3306, 1050, 3306),
            (1050, 1051, 1050),
            (5432, 3306, 3306),
            (22, 80, 22),
            (0, 65535, 0),
            (500, 4500, 500),
        ] {
            let service = Service::between(Protocol::Udp, one, other);
            assert_eq!(service.port(), Some(server), "{one} and {other}");
            assert_eq!(service.protocol(), "udp");
            assert_eq!(Service::of_code(service.code()), service);
            assert!(service.code() < 1 << BITS);
        }
        assert!(Service::FRAGMENT.code() < 1 << BITS);
    }

    #[test]
    fn services_are_formatted_as_text_and_json() {
        let https = Service::between(Protocol::Tcp, 50_000, 443);
        let unknown = Service::between(Protocol::Udp, 50_000, 50_001);
        for (service, shown, json) in [
            (https, "tcp/443 https", r#"{"protocol":"tcp","port":443}"#),
            (unknown, "udp/50000", r#"{"protocol":"udp","port":50000}"#),
            (
                Service::of(Protocol::Icmp),
                "icmp",
                r#"{"protocol":"icmp","port":null}"#,
            ),
            (
                Service::FRAGMENT,
                "fragment",
                r#"{"protocol":"fragment","port":null}"#,
            ),
        ] {
            assert_eq!(service.to_string(), shown);
            assert_eq!(serde_json::to_string(&service).unwrap(), json);
            assert_eq!(serde_json::from_str::<Service>(json).unwrap(), service);
        }
        assert!(serde_json::from_str::<Service>(r#"{"protocol":"nonsense"}"#).is_err());
    }
}
