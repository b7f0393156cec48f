//! The name of this machine.

/// The name that the kernel has for it.
pub fn name() -> String {
    // Not from /proc, most of which a unit may hide.
    let system = rustix::system::uname();
    system.nodename().to_string_lossy().into_owned()
}
