//! Metrics of the process from `/proc`, with the names that Prometheus' own clients use. Values
//! that cannot be read are left out.
//!
//! Only `/proc/self` is read, because a service may not see other parts of `/proc`
//! (`ProcSubset=pid`).

use std::fs;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

use super::text::{Family, Kind};

/// Appends the `process_*` families.
pub fn write(text: &mut String) {
    let Ok(stat) = fs::read_to_string("/proc/self/stat") else {
        return;
    };
    // The name in brackets may contain anything, so fields are counted after it.
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let field = |number: usize| {
        fields
            .get(number - 3)
            .and_then(|field| field.parse::<f64>().ok())
    };
    let ticks = rustix::param::clock_ticks_per_second() as f64;
    let page = rustix::param::page_size() as f64;

    let cpu = field(14)
        .zip(field(15))
        .map(|(user, system)| (user + system) / ticks);
    // Computed once, so that setting the clock does not change it.
    static STARTED: OnceLock<Option<f64>> = OnceLock::new();
    let started = *STARTED.get_or_init(|| Some(boot_time()? + field(22)? / ticks));
    let fds = fs::read_dir("/proc/self/fd")
        .ok()
        .map(|fds| fds.count() as f64);
    let families = [
        (
            "process_cpu_seconds_total",
            Kind::Counter,
            "CPU time used.",
            cpu,
        ),
        (
            "process_resident_memory_bytes",
            Kind::Gauge,
            "Memory in use.",
            field(24).map(|pages| pages * page),
        ),
        (
            "process_virtual_memory_bytes",
            Kind::Gauge,
            "Memory asked for.",
            field(23),
        ),
        ("process_threads", Kind::Gauge, "Threads.", field(20)),
        (
            "process_open_fds",
            Kind::Gauge,
            "Open files and sockets.",
            fds,
        ),
        (
            "process_start_time_seconds",
            Kind::Gauge,
            "When the agent was started.",
            started,
        ),
    ];
    for (name, kind, help, value) in families {
        if let Some(value) = value {
            Family::begin(text, name, kind, help).value(value);
        }
    }
}

/// Time at which the machine was started, in seconds since 1970.
fn boot_time() -> Option<f64> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    let since = clock_gettime(ClockId::Boottime);
    Some(now.as_secs_f64() - since.tv_sec as f64 - since.tv_nsec as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use std::time::{SystemTime, UNIX_EPOCH};

    use super::*;

    #[test]
    fn every_family_has_a_plausible_value() {
        let mut text = String::new();
        write(&mut text);
        let value = |name: &str| -> f64 {
            let line = text
                .lines()
                .find_map(|line| line.strip_prefix(&format!("{name} ")));
            line.unwrap().parse().unwrap()
        };
        assert!(value("process_resident_memory_bytes") > 1e6);
        assert!(value("process_virtual_memory_bytes") > value("process_resident_memory_bytes"));
        assert!(value("process_cpu_seconds_total") < 3600.0);
        assert!(value("process_threads") >= 1.0);
        assert!(value("process_open_fds") >= 3.0);
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.unwrap().as_secs_f64();
        assert!((now - value("process_start_time_seconds")).abs() < 3600.0);
    }
}
