//! A filter of services, for queries about ports and protocols.

use std::fmt;
use std::str::FromStr;

use super::{FRAGMENT, FRAGMENT_NAME, HAS_PORT, PROTOCOL, Service, known};
use crate::traffic::protocol::Protocol;

/// Most services that a filter lists.
const FEW: usize = 64;

/// Services that a query is about: a port, a protocol or both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceFilter {
    /// `None` for any protocol.
    protocol: Option<u32>,
    ports: Ports,
    /// Number of services that match; `u64::MAX` if they are not listed.
    count: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Ports {
    /// Any port, and packets without ports.
    All,
    /// No port, because packets were truncated before their ports or have none.
    Missing,
    /// These ports, and the name they were given by.
    These(Vec<u16>, Option<String>),
}

impl ServiceFilter {
    fn new(protocol: Option<u32>, ports: Ports) -> Self {
        let mut filter = Self {
            protocol,
            ports,
            count: 0,
        };
        let services = filter.services();
        filter.count = services.map_or(u64::MAX, |all| all.len() as u64);
        filter
    }

    /// A port of any protocol.
    pub fn port(port: u16) -> Self {
        Self::new(None, Ports::These(vec![port], None))
    }

    /// One service.
    pub fn one(service: Service) -> Self {
        let ports = match service.port() {
            Some(port) => Ports::These(vec![port], None),
            None => Ports::Missing,
        };
        Self::new(Some(service.0 >> PROTOCOL), ports)
    }

    /// Parses the service of a row of a list, in which a protocol alone stands for packets
    /// without ports.
    pub fn of_row(text: &str) -> Option<Self> {
        let filter: Self = text.parse().ok()?;
        let protocol = filter.protocol.filter(|one| has_ports(*one));
        Some(match (&filter.ports, protocol) {
            (Ports::All, Some(protocol)) => Self::new(Some(protocol), Ports::Missing),
            _ => filter,
        })
    }

    pub fn matches(&self, service: Service) -> bool {
        let is_protocol = self.protocol.is_none_or(|one| one == service.0 >> PROTOCOL);
        let is_port = match &self.ports {
            Ports::All => true,
            Ports::Missing => service.port().is_none(),
            Ports::These(ports, _) => service.port().is_some_and(|port| ports.contains(&port)),
        };
        is_protocol && is_port
    }

    /// All services that match. `None` if they are more than [`FEW`].
    pub fn services(&self) -> Option<Vec<Service>> {
        let protocols =
            || (0..=FRAGMENT).filter(|one| self.protocol.is_none_or(|only| only == *one));
        let services: Vec<Service> = match &self.ports {
            Ports::All if protocols().any(has_ports) => return None,
            Ports::All | Ports::Missing => {
                protocols().map(|one| Service(one << PROTOCOL)).collect()
            }
            Ports::These(ports, _) => {
                let with_ports = protocols().filter(|one| has_ports(*one));
                let service =
                    |one: u32, port: &u16| Service(one << PROTOCOL | HAS_PORT | u32::from(*port));
                with_ports
                    .flat_map(|one| ports.iter().map(move |port| service(one, port)))
                    .collect()
            }
        };
        (services.len() <= FEW).then_some(services)
    }

    /// The protocol. `None` for any.
    pub fn protocol(&self) -> Option<&'static str> {
        Some(Service(self.protocol? << PROTOCOL).protocol())
    }

    /// The port, if it is only one.
    pub fn only_port(&self) -> Option<u16> {
        match &self.ports {
            Ports::These(ports, _) if ports.len() == 1 => ports.first().copied(),
            Ports::All | Ports::Missing | Ports::These(..) => None,
        }
    }

    /// Number of services that match; `u64::MAX` if they are more than [`FEW`].
    pub fn count(&self) -> u64 {
        self.count
    }
}

fn has_ports(protocol: u32) -> bool {
    Protocol::ALL
        .get(protocol as usize)
        .is_some_and(|one| one.has_ports())
}

fn protocol_named(name: &str) -> Option<u32> {
    let at = Protocol::ALL.iter().position(|one| one.name() == name);
    let fragment = (name == FRAGMENT_NAME).then_some(FRAGMENT);
    at.map(|at| at as u32).or(fragment)
}

impl FromStr for ServiceFilter {
    type Err = String;

    /// Parses a port, a protocol, the name of a service, or a protocol with one of the others.
    /// Text after a blank is ignored: there lists show the name of the service.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let fault = || {
            format!(
                "`{text}` is no service: write a port like 443, a name like https, a protocol \
                 like icmp, or both like tcp/443"
            )
        };
        let wanted = text
            .split_whitespace()
            .next()
            .unwrap_or_default()
            .to_ascii_lowercase();
        let (protocol, port) = match wanted.split_once('/') {
            Some((protocol, port)) => (
                Some(protocol_named(protocol).ok_or_else(fault)?),
                Some(port),
            ),
            None => match protocol_named(&wanted) {
                Some(protocol) => (Some(protocol), None),
                None => (None, Some(&*wanted)),
            },
        };
        if protocol.is_some_and(|one| !has_ports(one)) && port.is_some() {
            return Err(format!(
                "`{text}` is no service: this protocol has no ports"
            ));
        }
        let ports = match port {
            None => Ports::All,
            Some("none") if protocol.is_some() => Ports::Missing,
            Some(port) => match port.parse() {
                Ok(port) => Ports::These(vec![port], None),
                Err(_) => {
                    let ports: Vec<u16> = known::ports(port).collect();
                    if ports.is_empty() {
                        return Err(fault());
                    }
                    Ports::These(ports, Some(port.to_owned()))
                }
            },
        };
        Ok(Self::new(protocol, ports))
    }
}

/// Formats it in a form that can be parsed again.
impl fmt::Display for ServiceFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(protocol) = self.protocol {
            f.write_str(Service(protocol << PROTOCOL).protocol())?;
        }
        match &self.ports {
            Ports::All => return Ok(()),
            Ports::Missing if self.protocol.is_some_and(has_ports) => return f.write_str("/none"),
            Ports::Missing => return Ok(()),
            Ports::These(..) if self.protocol.is_some() => f.write_str("/")?,
            Ports::These(..) => {}
        }
        match &self.ports {
            Ports::These(_, Some(name)) => f.write_str(name),
            Ports::These(ports, None) => ports.iter().try_for_each(|port| write!(f, "{port}")),
            Ports::All | Ports::Missing => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(text: &str) -> Service {
        let (protocol, port) = text.split_once('/').unwrap_or((text, ""));
        let code = protocol_named(protocol).unwrap() << PROTOCOL;
        port.parse::<u32>()
            .map_or(Service(code), |port| Service(code | HAS_PORT | port))
    }

    #[test]
    fn a_filter_matches_its_services_and_no_others() {
        for (text, shown, count, matched, others) in [
            (
                "443",
                "443",
                3,
                "tcp/443 udp/443 sctp/443",
                "tcp/444 tcp icmp fragment",
            ),
            ("tcp/443", "tcp/443", 1, "tcp/443", "udp/443 tcp/80 tcp"),
            ("TCP/443 https", "tcp/443", 1, "tcp/443", "udp/443"),
            ("https", "https", 3, "tcp/443 udp/443", "tcp/80"),
            ("udp/dhcp", "udp/dhcp", 2, "udp/67 udp/68", "tcp/67 udp/69"),
            (
                "tcp",
                "tcp",
                u64::MAX,
                "tcp/1 tcp/65535 tcp",
                "udp/1 udp fragment",
            ),
            ("tcp/none", "tcp/none", 1, "tcp", "tcp/1 udp"),
            ("icmp", "icmp", 1, "icmp", "icmpv6 tcp"),
            ("fragment", "fragment", 1, "fragment", "tcp other"),
            ("0", "0", 3, "tcp/0", "tcp"),
        ] {
            let filter: ServiceFilter = text.parse().unwrap();
            assert_eq!(
                (filter.to_string(), filter.count()),
                (shown.to_owned(), count)
            );
            assert_eq!(shown.parse::<ServiceFilter>().unwrap(), filter);
            for one in matched.split(' ') {
                assert!(filter.matches(service(one)), "{text} and {one}");
            }
            for one in others.split(' ') {
                assert!(!filter.matches(service(one)), "{text} and {one}");
            }
            let all = filter.services().unwrap_or_default();
            assert!(all.iter().all(|one| filter.matches(*one)));
        }
        for one in ["tcp/443", "udp/53", "icmp", "fragment", "tcp"] {
            let one = ServiceFilter::one(service(one));
            assert_eq!(one.services().unwrap().len(), 1);
            let shown = one.services().unwrap()[0].to_string();
            assert_eq!(
                ServiceFilter::of_row(&shown).unwrap().services(),
                one.services()
            );
            assert_eq!(
                one.to_string().parse::<ServiceFilter>().unwrap().services(),
                one.services()
            );
        }
        for wrong in [
            "",
            "65536",
            "tcp/65536",
            "nonsense",
            "tcp/nonsense",
            "icmp/80",
            "x/80",
            "-1",
            "tcp/",
        ] {
            let error = wrong.parse::<ServiceFilter>().unwrap_err();
            assert!(error.contains("is no service"), "{error}");
        }
    }
}
