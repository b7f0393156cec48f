//! The TCP addresses and the unix socket of the server. A reload may change them; those that stay
//! are not closed.

use std::fs::Permissions;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use crate::config;

/// Most connections that may wait to be accepted. If there are more, a client tries again only
/// after a second; the usual 128 are soon reached.
const BACKLOG: i32 = 1024;
/// Ports below this one need a privilege.
const FIRST_FREE: u16 = 1024;
/// Beginning of the error for such a port without the privilege.
const NO_PERMISSION: &str = "no permission";

/// Address of a listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenAddress {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

#[derive(Clone)]
pub enum Listener {
    Tcp(Arc<TcpListener>),
    Unix(Arc<UnixListener>),
}

impl Listener {
    /// Whether both are the same socket.
    pub fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Tcp(one), Self::Tcp(other)) => Arc::ptr_eq(one, other),
            (Self::Unix(one), Self::Unix(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

/// All listeners and their addresses.
pub type Listeners = Vec<(ListenAddress, Listener)>;

/// Binds ports and socket before anything else starts, so that a port in use is reported early.
pub fn bind(config: &config::Export) -> anyhow::Result<Listeners> {
    bind_beside(&Vec::new(), config)
}

/// Opens the listeners of `config`. Those of `before` that `config` still names are kept.
pub fn bind_beside(before: &Listeners, config: &config::Export) -> anyhow::Result<Listeners> {
    let tcp = config.listen.iter().copied().map(ListenAddress::Tcp);
    // The socket is bound last, because its file would remain after an error.
    let unix = config.socket.iter().cloned().map(ListenAddress::Unix);
    let addresses: Vec<ListenAddress> = tcp.chain(unix).collect();
    let several = config.listen.len() > 1;
    let mut listeners = Listeners::new();
    for address in &addresses {
        let listener = match (before.iter().find(|(known, _)| known == address), address) {
            (Some((_, listener)), _) => listener.clone(),
            (None, ListenAddress::Tcp(address)) => {
                let leaving = before
                    .iter()
                    .filter(|(known, _)| !addresses.contains(known));
                let leaving = leaving.filter_map(|(known, listener)| match (known, listener) {
                    (ListenAddress::Tcp(known), Listener::Tcp(tcp)) => {
                        (known.port() == address.port()).then_some(&**tcp)
                    }
                    _ => None,
                });
                let leaving: Vec<&TcpListener> = leaving.collect();
                let tcp = bind_tcp(*address, &leaving, several);
                let tcp = tcp.map_err(|error| match before.is_empty() {
                    true => error,
                    false => after_start(error, *address),
                });
                Listener::Tcp(Arc::new(tcp?))
            }
            (None, ListenAddress::Unix(path)) => Listener::Unix(Arc::new(bind_unix(path)?)),
        };
        listeners.push((address.clone(), listener));
    }
    Ok(listeners)
}

/// Binds an address. It may overlap with listeners that are `leaving`: both exist until these are
/// closed.
fn bind_tcp(
    address: SocketAddr,
    leaving: &[&TcpListener],
    several: bool,
) -> anyhow::Result<TcpListener> {
    let hint = match several {
        true => " ([::] takes IPv4, too, and 0.0.0.0 every address)",
        false => "",
    };
    let bound = match leaving {
        [] => TcpListener::bind(address).and_then(|tcp| {
            rustix::net::listen(&tcp, BACKLOG)?;
            Ok(tcp)
        }),
        leaving => bind_with(address, leaving),
    };
    let tcp = bound.map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => {
            anyhow::anyhow!(
                "{address} is in use by another program; choose another port with --listen{hint}"
            )
        }
        io::ErrorKind::PermissionDenied => anyhow::anyhow!(
            "{NO_PERMISSION} to listen on {address}: ports below {FIRST_FREE} need root or \
             CAP_NET_BIND_SERVICE; choose another with --listen"
        ),
        io::ErrorKind::AddrNotAvailable => anyhow::anyhow!(
            "{} is no address of this machine (`crane-agent interfaces` lists them); choose \
             another with --listen",
            address.ip()
        ),
        _ => anyhow::anyhow!("cannot listen on {address}: {error}"),
    })?;
    tcp.set_nonblocking(true)?;
    Ok(tcp)
}

/// Adds that a running agent has dropped the privilege to bind low ports.
fn after_start(error: anyhow::Error, address: SocketAddr) -> anyhow::Error {
    let refused = address.port() < FIRST_FREE && error.to_string().starts_with(NO_PERMISSION);
    match refused {
        true => anyhow::anyhow!(
            "{error:#} (it is given up after the start, unless with --keep-privileges: restart it)"
        ),
        false => error,
    }
}

/// Binds with `SO_REUSEPORT`, which all other sockets on the port need, too. It is cleared again
/// afterwards.
fn bind_with(address: SocketAddr, others: &[&TcpListener]) -> io::Result<TcpListener> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    sockopt::set_socket_reuseport(&socket, true)?;
    for other in others {
        sockopt::set_socket_reuseport(other, true)?;
    }
    let bound = rustix::net::bind(&socket, &address);
    let bound = bound.and_then(|()| rustix::net::listen(&socket, BACKLOG));
    for other in others {
        sockopt::set_socket_reuseport(other, false)?;
    }
    bound?;
    sockopt::set_socket_reuseport(&socket, false)?;
    Ok(socket.into())
}

fn bind_unix(path: &Path) -> anyhow::Result<UnixListener> {
    let shown = path.display();
    let left_over = std::fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket());
    if left_over {
        anyhow::ensure!(
            UnixStream::connect(path).is_err(),
            "{shown} is in use by another program; choose another export.socket"
        );
        std::fs::remove_file(path).with_context(|| format!("cannot replace {shown}"))?;
    }
    let listener = UnixListener::bind(path).with_context(|| format!("cannot listen on {shown}"))?;
    // For the agent's user and group, whatever the umask.
    std::fs::set_permissions(path, Permissions::from_mode(0o660))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}
