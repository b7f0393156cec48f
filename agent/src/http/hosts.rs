//! Host names that requests over loopback may use for the agent.
//!
//! A web page may let its own host name resolve to 127.0.0.1 (DNS rebinding). Then the browser
//! takes the agent's answers for those of that page, which may read them. The request contains the
//! name, so a name that does not belong to this machine is refused. Over other addresses any name
//! is allowed, because an attacker who reaches these needs no browser.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::Path;

use axum::Json;
use axum::http::header::HOST;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use parking_lot::Mutex;

use super::answers::ErrorAnswer;
use crate::config::size::Size;
use crate::config::small_file;
use crate::process::host;
use crate::process::log::RateLimit;
use crate::text::plain;

/// Names that are always accepted: that of loopback, and the one that our client sends.
const ALWAYS: [&str; 2] = ["localhost", "crane-agent"];
/// File with the names of this machine.
const KNOWN_HOSTS: &str = "/etc/hosts";
/// Largest size of that file.
const MOST: Size = Size(1 << 20);

/// Accepted host names.
pub struct Hosts {
    allowed: BTreeSet<String>,
    log_limit: Mutex<RateLimit>,
}

impl Hosts {
    /// The configured names, and those of this machine.
    pub fn new(configured: &[String]) -> Self {
        let known = small_file::read(Path::new(KNOWN_HOSTS), MOST).unwrap_or_default();
        let own = own_names(&host::name(), &String::from_utf8_lossy(&known));
        let configured = configured.iter().map(|name| plain_name(name));
        let always = ALWAYS.into_iter().map(str::to_owned);
        Self {
            allowed: always.chain(configured).chain(own).collect(),
            log_limit: Mutex::default(),
        }
    }

    /// Returns the refusal of a request over loopback; `None` if it may be answered.
    pub fn refuse(&self, uri: &Uri, headers: &HeaderMap) -> Option<Response> {
        let named = headers.get_all(HOST).iter();
        let named = named.map(|host| String::from_utf8_lossy(host.as_bytes()));
        let asked = uri.authority().map(|authority| authority.as_str().into());
        // A request without a name is answered: browsers always send one.
        let refused = named.chain(asked).find(|name| !self.is_allowed(name))?;
        let refused: String = plain::text(&refused).chars().take(100).collect();
        let error = format!(
            "{refused:?} is no name of this agent, and a web page may have chosen it; use an IP \
             address, localhost or the name of the host, or add the name to export.hosts"
        );
        if self.log_limit.lock().allows() {
            tracing::warn!("a request was refused: {error}");
        }
        let status = StatusCode::MISDIRECTED_REQUEST;
        Some((status, Json(ErrorAnswer { error })).into_response())
    }

    fn is_allowed(&self, named: &str) -> bool {
        // Browsers send no user name in `Host`.
        let authority = named.parse::<Authority>();
        let Some(authority) = authority.ok().filter(|_| !named.contains('@')) else {
            return false;
        };
        let host = authority.host();
        let within = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
        let is_literal = match within {
            Some(v6) => v6.parse::<Ipv6Addr>().is_ok(),
            None => host.parse::<IpAddr>().is_ok(),
        };
        let name = plain_name(host);
        is_literal || self.allowed.contains(&name) || plain_name(&host::name()) == name
    }
}

/// Whether both ends of a connection are loopback addresses.
pub fn is_loopback(peer: SocketAddr, own: SocketAddr) -> bool {
    let ends = [peer, own].map(|end| end.ip().to_canonical());
    ends.iter().all(IpAddr::is_loopback)
}

/// Converts a name to lower case, without the dot that ends a full name.
fn plain_name(name: &str) -> String {
    let name = name.strip_suffix('.').unwrap_or(name);
    name.to_ascii_lowercase()
}

/// The names of a machine called `node`: its name with and without the domain, and the names beside
/// these in `/etc/hosts`, where the full name usually is.
fn own_names(node: &str, known: &str) -> BTreeSet<String> {
    let node = plain_name(node);
    let short = node.split('.').next().unwrap_or_default().to_owned();
    let mut own = BTreeSet::from([node, short]);
    own.remove("");
    let called = own.clone();
    for line in known.lines() {
        let line = line.split('#').next().unwrap_or_default();
        let names = line.split_whitespace().skip(1).map(plain_name);
        let names: Vec<String> = names.collect();
        if names.iter().any(|name| called.contains(name)) {
            own.extend(names);
        }
    }
    own
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_beside_the_host_name_in_etc_hosts_are_accepted() {
        let known = "127.0.0.1 localhost\n# 1.2.3.4 web1 evil\n\
                     127.0.1.1\tWeb1.Example.org web1 # all\n10.0.0.1 other.example.org\n";
        let own = |node| own_names(node, known).into_iter().collect::<Vec<_>>();
        assert_eq!(own("web1"), ["web1", "web1.example.org"]);
        assert_eq!(own("web1.example.org"), ["web1", "web1.example.org"]);
        assert_eq!(own("db"), ["db"]);
        assert_eq!(own(""), [""; 0]);
    }

    #[test]
    fn addresses_and_own_names_are_accepted_with_any_port() {
        let hosts = Hosts::new(&["Agent.example.org".into()]);
        let node = host::name();
        for name in [
            "127.0.0.1",
            "127.0.0.1:9732",
            "192.0.2.1:1",
            "[::1]",
            "[::1]:9732",
            "localhost",
            "LOCALHOST:80",
            "localhost.",
            "crane-agent",
            "agent.Example.org:443",
            &node,
        ] {
            assert!(hosts.is_allowed(name), "{name}");
        }
        for name in [
            "",
            "evil.example",
            "evil.example:9732",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "127.0.0.1@evil.example",
            "evil@127.0.0.1",
            "[evil]",
            "example.org",
            "x agent.example.org",
        ] {
            assert!(!hosts.is_allowed(name), "{name}");
        }
    }

    #[test]
    fn both_ends_of_a_loopback_connection_are_checked() {
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        let here = at("127.0.0.1:1");
        assert!(is_loopback(here, at("127.8.0.1:2")));
        assert!(is_loopback(at("[::1]:1"), at("[::1]:2")));
        assert!(is_loopback(at("[::ffff:127.0.0.1]:1"), here));
        assert!(!is_loopback(here, at("10.0.0.1:1")));
        assert!(!is_loopback(at("10.0.0.1:1"), here));
    }
}
