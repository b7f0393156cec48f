//! The long output of `--version`: everything that affects results for the same packets.

use std::sync::LazyLock;

use crane_model::DeviceChoice;

use crate::config::{Config, Profile};
use crate::sketches::weights;

/// Returns version, build settings, weights and devices. Opens no device.
pub fn long() -> &'static str {
    static LONG: LazyLock<String> = LazyLock::new(|| {
        let number = env!("CARGO_PKG_VERSION");
        let build = if cfg!(debug_assertions) {
            "debug"
        } else {
            "release"
        };
        let mut text = format!("{number} ({build} build)");
        for profile in [Profile::Packed, Profile::Paper] {
            let default = match profile == Config::default().sketch.profile {
                true => " (default)",
                false => "",
            };
            let (name, checksum) = (profile.name(), weights::checksum(profile));
            text += &format!("\nprofile {name}{default}: weights sha256 {checksum}");
        }
        text += match DeviceChoice::Cuda(0).check() {
            Ok(()) => "\ndevices: cpu, cpu-tensor, cuda:N",
            Err(_) => "\ndevices: cpu, cpu-tensor (built without CUDA)",
        };
        text
    });
    &LONG
}
