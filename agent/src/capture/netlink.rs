//! Queries network interfaces of the kernel through a netlink socket.
//!
//! `/sys` may show the interfaces of another network namespace, for example after `nsenter
//! --net` without a new mount of `/sys`. The older ioctl makes the kernel load a driver for
//! each unknown name.

use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use super::network::{LinkState, Links};

/// Message types of rtnetlink: error, end of a list, interface, request for interfaces,
/// address, request for addresses.
const ERROR: u16 = 2;
const DONE: u16 = 3;
const LINK: u16 = 16;
const GET_LINK: u16 = 18;
const ADDRESS: u16 = 20;
const GET_ADDRESS: u16 = 22;
/// Flag of a request.
const REQUEST: u16 = 1;
/// Flag of a request for a complete list.
const ALL: u16 = 0x300;
/// Interface flags: administratively up, loopback.
const UP: u32 = 1;
const LOOPBACK: u32 = 8;
/// Attribute with the interface name.
const NAME: u16 = 3;
/// Attributes of an address message: the local address, or on a point-to-point link that of
/// the peer; and the local address on such a link.
const OWN_OR_PEER: u16 = 1;
const OWN: u16 = 2;
/// Longest name of an interface.
const MAX_NAME: usize = 15;
/// Bytes before the attributes of an interface: the message header, and the fixed part.
const HEAD: usize = 16;
const ATTRIBUTES: usize = HEAD + 16;
/// The same for an address.
const ADDRESS_ATTRIBUTES: usize = HEAD + 8;
/// Multicast group for changes of interfaces.
const GROUP: u32 = 1;
/// More than the kernel writes in one message.
const BUFFER: usize = 64 << 10;

/// The socket is kept open, because later there may be no free file descriptor.
static SOCKET: Mutex<Option<OwnedFd>> = Mutex::new(None);

/// Reads the fixed part of a message about an interface.
fn link_state(message: &[u8]) -> Option<LinkState> {
    let flags = u32_at(message, HEAD + 8)?;
    Some(LinkState {
        index: u32_at(message, HEAD + 4)?,
        up: flags & UP != 0,
        loopback: flags & LOOPBACK != 0,
    })
}

/// Looks up an interface by name. Returns `None` if it does not exist.
pub fn find(name: &str) -> rustix::io::Result<Option<LinkState>> {
    if name.len() > MAX_NAME {
        return Ok(None);
    }
    with_socket(|socket| {
        rustix::net::send(socket, &request(GET_LINK, Some(name)), SendFlags::empty())?;
        // The kernel answers before `send` returns. The buffer has only room for the fixed
        // part; the rest of the answer is discarded.
        let mut answer = [0; ATTRIBUTES];
        receive(socket, &mut answer)?;
        match kind(&answer) {
            Some(LINK) => link_state(&answer).map(Some).ok_or(Errno::PROTO),
            Some(ERROR) => match error(&answer) {
                Errno::NODEV => Ok(None),
                error => Err(error),
            },
            _ => Err(Errno::PROTO),
        }
    })
}

/// Lists all interfaces.
pub fn all() -> rustix::io::Result<Links> {
    let mut links = Links::default();
    list(GET_LINK, |message| {
        if let (Some(name), Some(link_state)) = (name(message), link_state(message)) {
            match std::str::from_utf8(name) {
                Ok(name) => links.named.push((name.into(), link_state)),
                Err(_) => {
                    let name = name.escape_ascii().to_string();
                    links.unreadable.push((name, link_state));
                }
            }
        }
    })?;
    for links in [&mut links.named, &mut links.unreadable] {
        links.sort_by_key(|(_, link_state)| link_state.index);
    }
    Ok(links)
}

/// Lists all addresses of this machine, each with the index of its interface.
pub fn addresses() -> rustix::io::Result<Vec<(u32, IpAddr)>> {
    let mut addresses = Vec::new();
    list(GET_ADDRESS, |message| {
        addresses.extend(u32_at(message, HEAD + 4).zip(address(message)));
    })?;
    Ok(addresses)
}

/// Requests a list and passes each message of the answer to the function.
fn list(what: u16, mut handle: impl FnMut(&[u8])) -> rustix::io::Result<()> {
    with_socket(|socket| {
        rustix::net::send(socket, &request(what, None), SendFlags::empty())?;
        let mut buffer = vec![0; BUFFER];
        loop {
            let length = receive(socket, &mut buffer)?;
            let mut rest = buffer.get(..length).ok_or(Errno::MSGSIZE)?;
            while let Some((message, behind)) = split(rest) {
                match kind(message) {
                    Some(DONE) => return Ok(()),
                    Some(ERROR) => return Err(error(message)),
                    Some(LINK | ADDRESS) => handle(message),
                    _ => {}
                }
                rest = behind;
            }
        }
    })
}

/// Runs `work` with the socket. If it fails, the socket is replaced, because unread answers
/// may be left in it.
fn with_socket<T>(work: impl FnOnce(&OwnedFd) -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    let mut kept = SOCKET.lock().unwrap_or_else(PoisonError::into_inner);
    let socket = match kept.take() {
        Some(socket) => socket,
        None => open(SocketFlags::CLOEXEC)?,
    };
    let result = work(&socket)?;
    *kept = Some(socket);
    Ok(result)
}

fn open(flags: SocketFlags) -> rustix::io::Result<OwnedFd> {
    let routing = None;
    rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, routing)
}

/// Receives a message. Returns its full length, which may exceed the buffer.
fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> rustix::io::Result<usize> {
    let receive = || rustix::net::recv(socket, &mut *buffer, RecvFlags::TRUNC);
    let (_, length) = rustix::io::retry_on_intr(receive)?;
    Ok(length)
}

/// Builds a request for the interface `name`, or for a complete list.
fn request(what: u16, name: Option<&str>) -> Vec<u8> {
    let mut message = Vec::with_capacity(64);
    let attribute = name.map_or(0, |name| 4 + name.len() + 1);
    let length = ATTRIBUTES + attribute.next_multiple_of(4);
    let flags = if name.is_some() {
        REQUEST
    } else {
        REQUEST | ALL
    };
    message.extend((length as u32).to_ne_bytes());
    message.extend(what.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    // No sequence number and no sender; any family, type and index.
    message.extend([0; 8 + 16]);
    if let Some(name) = name {
        message.extend((attribute as u16).to_ne_bytes());
        message.extend(NAME.to_ne_bytes());
        message.extend(name.as_bytes());
    }
    message.resize(length, 0);
    message
}

/// Splits off the first message.
fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = u32_at(bytes, 0)? as usize;
    let message = bytes.get(..length).filter(|_| length >= HEAD)?;
    let behind = bytes.get(length.next_multiple_of(4)..);
    Some((message, behind.unwrap_or_default()))
}

/// Returns the message type.
fn kind(message: &[u8]) -> Option<u16> {
    u16_at(message, 4)
}

/// Returns the error code of an error message.
fn error(message: &[u8]) -> Errno {
    let code = u32_at(message, HEAD).unwrap_or_default() as i32;
    Errno::from_raw_os_error(code.wrapping_neg())
}

/// The name of the interface a message is about.
fn name(message: &[u8]) -> Option<&[u8]> {
    let name = attribute(message.get(ATTRIBUTES..)?, NAME)?;
    name.split(|byte| *byte == 0).next()
}

/// The address a message is about.
fn address(message: &[u8]) -> Option<IpAddr> {
    let attributes = message.get(ADDRESS_ATTRIBUTES..)?;
    let bytes = attribute(attributes, OWN).or_else(|| attribute(attributes, OWN_OR_PEER))?;
    match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
        _ => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
    }
}

/// Returns the content of the first attribute of this type.
fn attribute(attributes: &[u8], kind: u16) -> Option<&[u8]> {
    let mut rest = attributes;
    loop {
        let length = usize::from(u16_at(rest, 0)?);
        let attribute = rest.get(..length)?;
        if u16_at(rest, 2)? == kind {
            return attribute.get(4..);
        }
        rest = rest.get(length.max(4).next_multiple_of(4)..)?;
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..at + 2)?;
    bytes.try_into().ok().map(u16::from_ne_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?;
    bytes.try_into().ok().map(u32::from_ne_bytes)
}

/// Listens for changes of interfaces. A change only means that all interfaces should be
/// listed again, so a lost message does no harm.
pub struct Changes(OwnedFd);

impl Changes {
    pub fn listen() -> rustix::io::Result<Self> {
        let socket = open(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?;
        rustix::net::bind(&socket, &SocketAddrNetlink::new(0, GROUP))?;
        Ok(Self(socket))
    }

    /// Waits for at most `time`. Returns whether anything has changed.
    pub fn wait(&self, time: Duration) -> bool {
        let time = Timespec {
            tv_sec: time.as_secs() as i64,
            tv_nsec: time.subsec_nanos().into(),
        };
        // The result is not needed: reading the socket shows whether there are messages.
        let _ = poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&time));
        let (mut changed, mut head) = (false, [0; HEAD]);
        loop {
            match rustix::net::recv(&self.0, &mut head, RecvFlags::TRUNC) {
                // If messages did not fit the socket buffer, the kernel reports that once.
                Ok(_) | Err(Errno::NOBUFS) => changed = true,
                Err(Errno::INTR) => {}
                Err(_) => return changed,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_is_found_only_by_its_exact_name() {
        let index = |name| find(name).unwrap().map(|link_state| link_state.index);
        assert_eq!(index("lo"), Some(1));
        for none in ["", "nope0", "../lo", "lo/", "a name that is far too long"] {
            assert_eq!(index(none), None, "{none}");
        }
        // The previous answers were read completely.
        assert_eq!(index("lo"), Some(1));
    }

    #[test]
    fn the_list_agrees_with_lookups_by_name() {
        let all = all().unwrap().named;
        assert!(
            all.iter()
                .any(|(name, link_state)| name == "lo" && link_state.loopback)
        );
        for (name, link_state) in all {
            assert_eq!(
                find(&name).unwrap().map(|link_state| link_state.index),
                Some(link_state.index)
            );
        }
        let loopback = IpAddr::from([127, 0, 0, 1]);
        assert!(addresses().unwrap().contains(&(1, loopback)));
    }

    #[test]
    fn truncated_messages_are_rejected() {
        let whole = request(GET_LINK, Some("lo"));
        assert_eq!(name(&whole), Some(&b"lo"[..]));
        for length in 0..whole.len() {
            assert!(split(&whole[..length]).is_none());
            assert!(length > 38 || name(&whole[..length]).is_none());
        }
        // A length of 0 would cause an endless loop.
        assert!(split(&[0; 64]).is_none());
        let mut endless = whole.clone();
        endless[ATTRIBUTES..].fill(0);
        assert_eq!(name(&endless), None);
    }
}
