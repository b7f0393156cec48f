//! Metrics of the agent as a whole. Their series never disappear, so the `metrics` crate keeps
//! them.
#![allow(clippy::disallowed_macros)]

use std::time::{SystemTime, UNIX_EPOCH};

use metrics::{Unit, counter, describe_counter, describe_gauge, gauge};

use crate::process::panics;

const DEVICE: &str = "crane_device_info";
const PANICS: &str = "crane_thread_panics_total";
const BUILD: &str = "crane_build_info";
const RELOADED: &str = "crane_config_last_reload_successful";
const RELOADED_AT: &str = "crane_config_last_reload_success_timestamp_seconds";
const PROTECTED: &str = "crane_web_config_last_read_successful";

/// Describes all metrics of this module, and sets the constant ones.
pub fn begin(device: &str) {
    describe();
    gauge!(DEVICE, "device" => device.to_owned()).set(1.0);
    gauge!(BUILD, "version" => env!("CARGO_PKG_VERSION")).set(1.0);
}

/// Updates the number of panics.
pub fn count_panics() {
    for (thread, count) in panics::counts() {
        counter!(PANICS, "thread" => thread).absolute(count);
    }
}

/// Records that the configuration was read, at the start or by a reload, and whether it is in
/// force.
pub fn config_was_read(successful: bool) {
    gauge!(RELOADED).set(f64::from(u8::from(successful)));
    if successful {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        gauge!(RELOADED_AT).set(now.map_or(0.0, |now| now.as_secs_f64()));
    }
}

/// Records that the file of `export.web_config` was read, and whether it is in force.
pub fn web_config_was_read(successful: bool) {
    gauge!(PROTECTED).set(f64::from(u8::from(successful)));
}

fn describe() {
    describe_counter!(
        PANICS,
        Unit::Count,
        "Faults in the agent, by the kind of thread. The thread continues after each."
    );
    describe_gauge!(
        DEVICE,
        Unit::Count,
        "1, with the device the sketch runs on."
    );
    describe_gauge!(
        RELOADED,
        Unit::Count,
        "1 if the configuration was valid when it was last read, 0 if the previous one is \
         still in force."
    );
    describe_gauge!(
        RELOADED_AT,
        Unit::Seconds,
        "When the configuration that is in force was read."
    );
    describe_gauge!(
        PROTECTED,
        Unit::Count,
        "1 if the file of export.web_config is in force as it was last read, 0 if it was damaged \
         or would have lowered the protection, which stays as it was."
    );
    describe_gauge!(BUILD, Unit::Count, "1, with the version of the agent.");
}
