//! Checks of the container files that need no container: every file that is mounted or
//! copied exists, and Prometheus accepts its configuration.
#![allow(clippy::unwrap_used)]

mod common;

use std::process::Command;

use common::{stderr, workspace};

#[test]
fn every_file_that_is_mounted_or_copied_exists() {
    let folder = workspace().join("packaging/docker");
    let text = std::fs::read_to_string(folder.join("compose.yaml")).unwrap();
    let mounts: Vec<&str> = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- ")?.strip_suffix(":ro"))
        .map(|mount| mount.split(':').next().unwrap())
        .collect();
    assert!(mounts.len() >= 5, "{mounts:?}");
    for mount in mounts {
        assert!(folder.join(mount).exists(), "{mount}");
    }
    let dockerfile = std::fs::read_to_string(folder.join("Dockerfile")).unwrap();
    let copied = dockerfile
        .lines()
        .filter_map(|line| line.strip_prefix("COPY agent/"));
    for line in copied {
        let file = line.split(' ').next().unwrap();
        assert!(workspace().join("agent").join(file).exists(), "{file}");
    }
}

#[test]
fn prometheus_accepts_its_configuration() {
    let checked = Command::new("promtool")
        .args(["check", "config"])
        .arg(workspace().join("packaging/docker/prometheus.yml"))
        .output()
        .unwrap();
    assert!(checked.status.success(), "{}", stderr(&checked));
}
