//! Giving up what root may do and an agent need not.
//!
//! Capabilities belong to threads, and threads inherit them: they are given up
//! before there are other threads.

use anyhow::Context;
use rustix::thread::{self, CapabilitySet, CapabilitySets};

/// Keeps the right to capture, as far as we have it, and nothing else; also for
/// whatever might be started from here. To be called before there are other threads.
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
            // The kernel does not know all 64 of them.
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
