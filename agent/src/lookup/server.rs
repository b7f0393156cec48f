//! Queries a name server for the name of an address.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use rustix::rand::{GetRandomFlags, getrandom};

use super::dns::{self, Unanswered};

/// Largest answer that is accepted.
const MAX_MESSAGE: usize = 4096;

/// Queries the name of an address. `None` if the server answers that there is none. An error
/// if it does not answer within `timeout`, or reports an error.
pub fn ask(server: SocketAddr, address: IpAddr, timeout: Duration) -> io::Result<Option<String>> {
    let deadline = Instant::now() + timeout;
    let mut id = [0; 2];
    getrandom(&mut id, GetRandomFlags::empty())?;
    let question = dns::question(u16::from_ne_bytes(id), address);
    let own: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    // The port is random, and only this server can send to it.
    let socket = UdpSocket::bind((own, 0))?;
    socket.connect(server)?;
    socket.send(&question)?;
    let mut message = [0; MAX_MESSAGE];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        socket.set_read_timeout(Some(left))?;
        let length = match socket.recv(&mut message) {
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        match dns::answer(&question, &message[..length]) {
            Ok(name) => return Ok(name),
            Err(Unanswered::Foreign) => {}
            Err(Unanswered::Failed) => return Err(io::ErrorKind::InvalidData.into()),
        }
    }
}
