//! The devices of libpcap, and why one cannot be captured.

use std::path::Path;

use anyhow::Context;
use pcap::Device;

use super::netlink;
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

/// Network interfaces of this machine, without libpcap's pseudo devices.
pub fn list() -> anyhow::Result<Vec<Device>> {
    let failed = "interfaces cannot be listed";
    let mut devices = Device::list().map_err(explain).context(failed)?;
    let known = netlink::all().map_err(explain).context(failed)?;
    devices.retain(|device| known.iter().any(|(name, _)| *name == device.name));
    Ok(devices)
}
