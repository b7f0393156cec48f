//! Lists the network interfaces of this machine, and explains why one cannot be captured.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::Path;

use anyhow::Context;

use super::netlink;
use super::network::LinkState;
use crate::config::size::Size;
use crate::config::small_file;

/// The process has no free file descriptor. This affects all interfaces.
#[derive(Debug)]
pub struct NoDescriptors;

impl std::fmt::Display for NoDescriptors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(
            "too many open files: raise LimitNOFILE= in the unit, or `ulimit -n` before the start",
        )
    }
}

impl std::error::Error for NoDescriptors {}

/// Converts an error of libpcap or the kernel; one that means a lack of file descriptors
/// becomes [`NoDescriptors`].
pub fn explain(error: impl Into<anyhow::Error>) -> anyhow::Error {
    let error = error.into();
    match format!("{error:#}").contains("Too many open files") {
        true => NoDescriptors.into(),
        false => error,
    }
}

/// Explains why an interface cannot be captured. A lack of permission gets a hint how to
/// grant it.
pub fn cannot_capture(name: &str, error: pcap::Error) -> anyhow::Error {
    let text = error.to_string();
    if text.contains("permi") || text.contains("CAP_NET_RAW") {
        let program = std::env::current_exe()
            .map_or_else(|_| "crane-agent".into(), |p| p.display().to_string());
        let demo = match has_demo(Path::new("Makefile")) {
            true => ", or try the agent without it: `make demo`",
            false => "",
        };
        return anyhow::anyhow!(
            "no permission to capture on {name}: run as root, or grant CAP_NET_RAW with \
             `sudo setcap cap_net_raw+ep {program}`{demo}"
        );
    }
    explain(error).context(format!("cannot capture on {name}"))
}

/// Whether this is the Makefile of the agent's source tree, which has the target `demo`.
fn has_demo(makefile: &Path) -> bool {
    let text = small_file::read(makefile, Size(1 << 20)).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    text.contains("\ndemo:") && text.contains("crane-agent")
}

/// Why an interface is left out if its name is not UTF-8.
pub const UNREADABLE: &str =
    "its name is not UTF-8, which libpcap does not accept; rename it with `ip link set … name …`";

pub struct Device {
    /// Bytes that are not ASCII are escaped.
    pub name: String,
    pub up: bool,
    pub addresses: Vec<IpAddr>,
    /// Why it can never be captured, or `None`.
    pub fault: Option<&'static str>,
}

/// Lists the network interfaces of this machine: those that are up first, loopback after
/// the others.
pub fn list() -> anyhow::Result<Vec<Device>> {
    let failed = "interfaces cannot be listed";
    let links = netlink::all().map_err(explain).context(failed)?;
    let mut addresses: HashMap<u32, Vec<IpAddr>> = HashMap::new();
    for (index, address) in netlink::addresses().map_err(explain).context(failed)? {
        addresses.entry(index).or_default().push(address);
    }
    let named = links.named.into_iter().map(|link| (link, None));
    let unreadable = links.unreadable.into_iter();
    let unreadable = unreadable.map(|link| (link, Some(UNREADABLE)));
    let mut all: Vec<_> = named.chain(unreadable).collect();
    all.sort_by_key(|((_, link_state), _)| (!link_state.up, link_state.loopback, link_state.index));
    let device = |((name, link_state), fault): ((String, LinkState), _)| Device {
        name,
        up: link_state.up,
        addresses: addresses.remove(&link_state.index).unwrap_or_default(),
        fault,
    };
    Ok(all.into_iter().map(device).collect())
}
