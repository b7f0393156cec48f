//! The network interfaces of this machine, and why one cannot be captured.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::Path;

use anyhow::Context;

use super::netlink::{self, Known};
use crate::config::size::Size;
use crate::config::small_file;

/// All file descriptors are taken, which is no fault of any interface.
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

/// An error of libpcap or the kernel, told apart from a want of descriptors.
pub fn explain(error: impl Into<anyhow::Error>) -> anyhow::Error {
    let error = error.into();
    match format!("{error:#}").contains("Too many open files") {
        true => NoDescriptors.into(),
        false => error,
    }
}

/// Why an interface cannot be captured, in the words of this agent.
pub fn cannot_capture(name: &str, error: pcap::Error) -> anyhow::Error {
    let text = error.to_string();
    if text.contains("permi") || text.contains("CAP_NET_RAW") {
        let program = std::env::current_exe()
            .map_or_else(|_| "crane-agent".into(), |p| p.display().to_string());
        let demo = match has_demo(Path::new("Makefile")) {
            true => ", or see the agent at work without it: `make demo`",
            false => "",
        };
        return anyhow::anyhow!(
            "no permission to capture on {name}: run as root, or grant CAP_NET_RAW with \
             `sudo setcap cap_net_raw+ep {program}`{demo}"
        );
    }
    explain(error).context(format!("cannot capture on {name}"))
}

/// Whether this is the Makefile that comes with the agent.
fn has_demo(makefile: &Path) -> bool {
    let text = small_file::read(makefile, Size(1 << 20)).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    text.contains("\ndemo:") && text.contains("crane-agent")
}

/// Why an interface whose name is not UTF-8 is left out, and what to do.
pub const UNREADABLE: &str =
    "its name is not UTF-8, which libpcap cannot be told; rename it with `ip link set … name …`";

/// A network interface of this machine.
pub struct Device {
    /// Its name, in which bytes that are no text are written out.
    pub name: String,
    /// Whether it is up.
    pub up: bool,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// Why it cannot be captured, if that is certain.
    pub fault: Option<&'static str>,
}

/// Network interfaces of this machine: first those that are up, and loopback behind others.
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
    all.sort_by_key(|((_, known), _)| (!known.up, known.loopback, known.index));
    let device = |((name, known), fault): ((String, Known), _)| Device {
        name,
        up: known.up,
        addresses: addresses.remove(&known.index).unwrap_or_default(),
        fault,
    };
    Ok(all.into_iter().map(device).collect())
}
