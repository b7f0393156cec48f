//! The network interfaces of this machine: which there are, which are meant.
//!
//! The kernel is asked by socket. `/sys` shows those of another network
//! namespace to whoever entered one without mounting it anew, as `nsenter
//! --net` does; and the older way, an ioctl, makes the kernel look for a
//! driver whenever it does not know the name.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, bail};
use pcap::Device;
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use crate::config::pattern::Pattern;
use crate::config::size::Size;
use crate::config::small_file;

/// Messages of rtnetlink: an error, an interface, the question for one.
const ERROR: u16 = 2;
const LINK: u16 = 16;
const GET_LINK: u16 = 18;
/// It is a request.
const REQUEST: u16 = 1;
/// The flag of an interface that is administratively up.
const UP: u32 = 1;
/// The attribute that holds the name.
const NAME: u16 = 3;
/// Longer names no interface has.
const LONGEST_NAME: usize = 15;

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
pub fn explain(error: impl std::error::Error + Send + Sync + 'static) -> anyhow::Error {
    match error.to_string().contains("Too many open files") {
        true => NoDescriptors.into(),
        false => error.into(),
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

/// The interfaces that are meant. When none are named: all that are up,
/// without loopback; loopback alone if there is nothing else.
pub fn choose(include: &[Pattern], exclude: &[Pattern]) -> anyhow::Result<Vec<String>> {
    let devices = list()?;
    let known = || {
        let names: Vec<&str> = devices.iter().map(|device| device.name.as_str()).collect();
        names.join(", ")
    };
    let mut chosen: Vec<String> = Vec::new();
    for pattern in include {
        for device in devices
            .iter()
            .filter(|device| pattern.matches(&device.name))
        {
            // A pattern means what can be captured; a name is taken at its word.
            if (pattern.is_name() || device.flags.is_up()) && !chosen.contains(&device.name) {
                chosen.push(device.name.clone());
            }
        }
        if !devices.iter().any(|device| pattern.matches(&device.name)) {
            let none = match pattern.is_name() {
                true => "no such interface:",
                false => "no interface matches",
            };
            bail!("{none} {pattern} (this machine has {})", known());
        }
    }
    if include.is_empty() {
        let up = |loopback: bool| {
            let up = devices.iter().filter(|device| device.flags.is_up());
            let of_kind = up.filter(move |device| device.flags.is_loopback() == loopback);
            of_kind
                .map(|device| device.name.clone())
                .collect::<Vec<_>>()
        };
        chosen = up(false);
        if chosen.is_empty() {
            chosen = up(true);
        }
    }
    chosen.retain(|name| !exclude.iter().any(|pattern| pattern.matches(name)));
    if chosen.is_empty() {
        bail!(
            "no interface is left to capture: this machine has {}",
            known()
        );
    }
    Ok(chosen)
}

/// Network interfaces of this machine, without libpcap's pseudo devices.
pub fn list() -> anyhow::Result<Vec<Device>> {
    let failed = "interfaces cannot be listed";
    let mut devices = Vec::new();
    for device in Device::list().map_err(explain).context(failed)? {
        if ask(&device.name)
            .map_err(explain)
            .context(failed)?
            .is_some()
        {
            devices.push(device);
        }
    }
    Ok(devices)
}

/// What the kernel says of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// Its number: one that is made anew has another.
    pub index: u32,
    /// Whether somebody wants it up, whatever the cable says.
    pub up: bool,
}

/// Asks the kernel for an interface. None if there is no such one.
pub fn ask(name: &str) -> rustix::io::Result<Option<Known>> {
    /// Kept: later there may be no descriptor left to ask with.
    static SOCKET: Mutex<Option<OwnedFd>> = Mutex::new(None);
    if name.len() > LONGEST_NAME {
        return Ok(None);
    }
    let mut kept = SOCKET.lock().unwrap_or_else(PoisonError::into_inner);
    let socket = match &mut *kept {
        Some(socket) => socket,
        none => none.insert(rustix::net::socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            None, // the routing one
        )?),
    };
    rustix::net::send(&*socket, &question(name), SendFlags::empty())?;
    // The kernel answers before `send` returns. All but the head is cut off.
    let mut answer = [0; 28];
    let (_, length) =
        rustix::io::retry_on_intr(|| rustix::net::recv(&*socket, &mut answer, RecvFlags::TRUNC))?;
    let number = |at: usize| u32::from_ne_bytes([0, 1, 2, 3].map(|n| answer[at + n]));
    match (u16::from_ne_bytes([answer[4], answer[5]]), length) {
        (LINK, 28..) => Ok(Some(Known {
            index: number(20),
            up: number(24) & UP != 0,
        })),
        (ERROR, 20..) => match Errno::from_raw_os_error((number(16) as i32).wrapping_neg()) {
            Errno::NODEV => Ok(None),
            error => Err(error),
        },
        _ => Err(Errno::PROTO),
    }
}

/// The request for the interface `name`.
fn question(name: &str) -> Vec<u8> {
    let mut message = Vec::with_capacity(64);
    let attribute = 4 + name.len() + 1;
    let length = 16 + 16 + attribute.next_multiple_of(4);
    message.extend((length as u32).to_ne_bytes());
    message.extend(GET_LINK.to_ne_bytes());
    message.extend(REQUEST.to_ne_bytes());
    // No number of our own, no sender; of any family, type and index.
    message.extend([0; 8 + 16]);
    message.extend((attribute as u16).to_ne_bytes());
    message.extend(NAME.to_ne_bytes());
    message.extend(name.as_bytes());
    message.resize(length, 0);
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_knows_loopback_and_nothing_else_by_that_name() {
        let index = |name| ask(name).unwrap().map(|known| known.index);
        assert_eq!(index("lo"), Some(1));
        for none in ["", "nope0", "../lo", "lo/", "a name that is far too long"] {
            assert_eq!(index(none), None, "{none}");
        }
        // Answers are not mixed up.
        assert_eq!(index("lo"), Some(1));
    }
}
