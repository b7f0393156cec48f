//! Drops privileges that the agent does not need.
//!
//! Capabilities belong to threads and are inherited by new threads, so they are dropped
//! before other threads are started.

use anyhow::Context;
use rustix::thread::{self, CapabilitySet, CapabilitySets};

/// Keeps CAP_NET_RAW, if the process has it, and drops all other capabilities, also for
/// child processes. Must be called before other threads are started.
pub fn keep_capture_only() -> anyhow::Result<()> {
    const FAILED: &str = "capabilities cannot be given up; --keep-privileges keeps them";
    let keep = CapabilitySet::NET_RAW;
    let have = thread::capabilities(None).context(FAILED)?;
    if keep.contains(have.permitted | have.inheritable) {
        return Ok(());
    }
    thread::set_no_new_privs(true).context(FAILED)?;
    if have.effective.contains(CapabilitySet::SETPCAP) {
        let all = (0..u64::BITS).map(|bit| CapabilitySet::from_bits_retain(1 << bit));
        for capability in all.filter(|one| *one != keep) {
            // The kernel does not support all 64 capabilities.
            if thread::capability_is_in_bounding_set(capability).unwrap_or(false) {
                thread::remove_capability_from_bounding_set(capability).context(FAILED)?;
            }
        }
    }
    let sets = CapabilitySets {
        effective: have.permitted & keep,
        permitted: have.permitted & keep,
        inheritable: CapabilitySet::empty(),
    };
    thread::set_capabilities(None, sets).context(FAILED)
}
