//! The name of this machine.

/// The host name of the kernel.
pub fn name() -> String {
    // Not read from /proc, because a systemd unit may hide most of it.
    let system = rustix::system::uname();
    system.nodename().to_string_lossy().into_owned()
}
