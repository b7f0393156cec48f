//! What the kernel says of network interfaces, asked by socket.
//!
//! `/sys` shows those of another network namespace to whoever entered one
//! without mounting it anew, as `nsenter --net` does; and the older way, an
//! ioctl, makes the kernel look for a driver whenever it does not know the name.

use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

/// Messages of rtnetlink: an error, the end of a list, an interface, the
/// question for one, an address, the question for one.
const ERROR: u16 = 2;
const DONE: u16 = 3;
const LINK: u16 = 16;
const GET_LINK: u16 = 18;
const ADDRESS: u16 = 20;
const GET_ADDRESS: u16 = 22;
/// It is a request.
const REQUEST: u16 = 1;
/// It asks for all there are.
const ALL: u16 = 0x300;
/// The flags of an interface that is administratively up, and of loopback.
const UP: u32 = 1;
const LOOPBACK: u32 = 8;
/// The attribute that holds the name.
const NAME: u16 = 3;
/// Attributes of an address: it, or that of the other end where there is one; and then it.
const OWN_OR_PEER: u16 = 1;
const OWN: u16 = 2;
/// Longer names no interface has.
const LONGEST_NAME: usize = 15;
/// Bytes before the attributes of an interface: the head of a message, and what
/// is known of every interface.
const HEAD: usize = 16;
const ATTRIBUTES: usize = HEAD + 16;
/// The same of an address.
const ADDRESS_ATTRIBUTES: usize = HEAD + 8;
/// Those who want to hear of interfaces.
const GROUP: u32 = 1;
/// More than the kernel writes at once.
const BUFFER: usize = 64 << 10;

/// Kept: later there may be no descriptor left to ask with.
static SOCKET: Mutex<Option<OwnedFd>> = Mutex::new(None);

/// What the kernel says of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// Its number: one that is made anew has another.
    pub index: u32,
    /// Whether somebody wants it up, whatever the cable says.
    pub up: bool,
    /// Whether it only leads back here.
    pub loopback: bool,
}

impl Known {
    /// What a message says behind its head.
    fn read(message: &[u8]) -> Option<Self> {
        let flags = number(message, HEAD + 8)?;
        Some(Self {
            index: number(message, HEAD + 4)?,
            up: flags & UP != 0,
            loopback: flags & LOOPBACK != 0,
        })
    }
}

/// Asks the kernel for an interface. None if there is no such one.
pub fn ask(name: &str) -> rustix::io::Result<Option<Known>> {
    if name.len() > LONGEST_NAME {
        return Ok(None);
    }
    with_socket(|socket| {
        rustix::net::send(socket, &question(GET_LINK, Some(name)), SendFlags::empty())?;
        // The kernel answers before `send` returns. All but the head is cut off.
        let mut answer = [0; ATTRIBUTES];
        receive(socket, &mut answer)?;
        match kind(&answer) {
            Some(LINK) => Known::read(&answer).map(Some).ok_or(Errno::PROTO),
            Some(ERROR) => match error(&answer) {
                Errno::NODEV => Ok(None),
                error => Err(error),
            },
            _ => Err(Errno::PROTO),
        }
    })
}

/// All interfaces there are, in the order of their numbers.
#[derive(Default)]
pub struct Links {
    /// Those that can be captured.
    pub named: Vec<(String, Known)>,
    /// Those whose names are not UTF-8, which libpcap cannot be told. Bytes that are no
    /// ASCII are written out: `v\xff`.
    pub unreadable: Vec<(String, Known)>,
}

/// Asks the kernel for all interfaces.
pub fn all() -> rustix::io::Result<Links> {
    let mut links = Links::default();
    list(GET_LINK, |message| {
        if let (Some(name), Some(known)) = (name(message), Known::read(message)) {
            match std::str::from_utf8(name) {
                Ok(name) => links.named.push((name.into(), known)),
                Err(_) => {
                    let name = name.escape_ascii().to_string();
                    links.unreadable.push((name, known));
                }
            }
        }
    })?;
    for links in [&mut links.named, &mut links.unreadable] {
        links.sort_by_key(|(_, known)| known.index);
    }
    Ok(links)
}

/// All addresses of this machine, with the numbers of their interfaces.
pub fn addresses() -> rustix::io::Result<Vec<(u32, IpAddr)>> {
    let mut addresses = Vec::new();
    list(GET_ADDRESS, |message| {
        addresses.extend(number(message, HEAD + 4).zip(address(message)));
    })?;
    Ok(addresses)
}

/// Asks for all of a kind, and has each message of the answer looked at.
fn list(what: u16, mut look_at: impl FnMut(&[u8])) -> rustix::io::Result<()> {
    with_socket(|socket| {
        rustix::net::send(socket, &question(what, None), SendFlags::empty())?;
        let mut buffer = vec![0; BUFFER];
        loop {
            let length = receive(socket, &mut buffer)?;
            let mut rest = buffer.get(..length).ok_or(Errno::MSGSIZE)?;
            while let Some((message, behind)) = split(rest) {
                match kind(message) {
                    Some(DONE) => return Ok(()),
                    Some(ERROR) => return Err(error(message)),
                    Some(LINK | ADDRESS) => look_at(message),
                    _ => {}
                }
                rest = behind;
            }
        }
    })
}

/// Does something with the socket; one that fails is replaced, as answers may
/// be left in it.
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

/// Receives a message; how long it is, whether or not it fits.
fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> rustix::io::Result<usize> {
    let receive = || rustix::net::recv(socket, &mut *buffer, RecvFlags::TRUNC);
    let (_, length) = rustix::io::retry_on_intr(receive)?;
    Ok(length)
}

/// The request for the interface `name`, or for all of a kind.
fn question(what: u16, name: Option<&str>) -> Vec<u8> {
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
    // No number of our own, no sender; of any family, type and index.
    message.extend([0; 8 + 16]);
    if let Some(name) = name {
        message.extend((attribute as u16).to_ne_bytes());
        message.extend(NAME.to_ne_bytes());
        message.extend(name.as_bytes());
    }
    message.resize(length, 0);
    message
}

/// The first message, and what is behind it.
fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = number(bytes, 0)? as usize;
    let message = bytes.get(..length).filter(|_| length >= HEAD)?;
    let behind = bytes.get(length.next_multiple_of(4)..);
    Some((message, behind.unwrap_or_default()))
}

/// What is said in a message.
fn kind(message: &[u8]) -> Option<u16> {
    half(message, 4)
}

/// Why a request failed.
fn error(message: &[u8]) -> Errno {
    let code = number(message, HEAD).unwrap_or_default() as i32;
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

/// What is in the first attribute of a kind.
fn attribute(attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    let mut rest = attributes;
    loop {
        let length = usize::from(half(rest, 0)?);
        let attribute = rest.get(..length)?;
        if half(rest, 2)? == wanted {
            return attribute.get(4..);
        }
        rest = rest.get(length.max(4).next_multiple_of(4)..)?;
    }
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..at + 2)?;
    bytes.try_into().ok().map(u16::from_ne_bytes)
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?;
    bytes.try_into().ok().map(u32::from_ne_bytes)
}

/// Hears when interfaces come, go or change. What it hears is only that all
/// should be looked at again, so a message that is lost is lost with no harm.
pub struct Changes(OwnedFd);

impl Changes {
    /// Listens from now on.
    pub fn listen() -> rustix::io::Result<Self> {
        let socket = open(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?;
        rustix::net::bind(&socket, &SocketAddrNetlink::new(0, GROUP))?;
        Ok(Self(socket))
    }

    /// Waits for so long at most; whether anything has changed.
    pub fn wait(&self, time: Duration) -> bool {
        let time = Timespec {
            tv_sec: time.as_secs() as i64,
            tv_nsec: time.subsec_nanos().into(),
        };
        // Whatever ends the wait, the socket tells what there is.
        let _ = poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&time));
        let (mut changed, mut head) = (false, [0; HEAD]);
        loop {
            match rustix::net::recv(&self.0, &mut head, RecvFlags::TRUNC) {
                // Without room for all messages, the kernel says so once.
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
    fn the_kernel_knows_loopback_and_nothing_else_by_that_name() {
        let index = |name| ask(name).unwrap().map(|known| known.index);
        assert_eq!(index("lo"), Some(1));
        for none in ["", "nope0", "../lo", "lo/", "a name that is far too long"] {
            assert_eq!(index(none), None, "{none}");
        }
        // Answers are not mixed up.
        assert_eq!(index("lo"), Some(1));
    }

    #[test]
    fn a_list_has_each_interface_as_it_is_known_by_its_name() {
        let all = all().unwrap().named;
        assert!(
            all.iter()
                .any(|(name, known)| name == "lo" && known.loopback)
        );
        for (name, known) in all {
            assert_eq!(
                ask(&name).unwrap().map(|known| known.index),
                Some(known.index)
            );
        }
        let loopback = IpAddr::from([127, 0, 0, 1]);
        assert!(addresses().unwrap().contains(&(1, loopback)));
    }

    #[test]
    fn messages_that_are_cut_off_end_a_list_and_nothing_else() {
        let whole = question(GET_LINK, Some("lo"));
        assert_eq!(name(&whole), Some(&b"lo"[..]));
        for length in 0..whole.len() {
            assert!(split(&whole[..length]).is_none());
            assert!(length > 38 || name(&whole[..length]).is_none());
        }
        // A length of 0 would be read for ever.
        assert!(split(&[0; 64]).is_none());
        let mut endless = whole.clone();
        endless[ATTRIBUTES..].fill(0);
        assert_eq!(name(&endless), None);
    }
}
