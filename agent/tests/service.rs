//! The unit is one that systemd understands.
#![allow(clippy::unwrap_used)]

mod common;

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use common::workspace;

#[test]
fn systemd_accepts_the_unit_in_a_staged_root() {
    let root = tempfile::tempdir().unwrap();
    let place = |path: &str, content: &[u8], mode: u32| {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let unit = std::fs::read(workspace().join("systemd/crane-agent.service")).unwrap();
    place("etc/systemd/system/crane-agent.service", &unit, 0o644);
    place("usr/local/bin/crane-agent", b"#!/bin/sh\n", 0o755);
    // What the unit stands on in any installed system.
    for target in ["sysinit", "basic", "shutdown", "network", "multi-user"] {
        let text = format!("[Unit]\nDescription={target}\n");
        place(
            &format!("usr/lib/systemd/system/{target}.target"),
            text.as_bytes(),
            0o644,
        );
    }
    for slice in ["-", "system"] {
        place(
            &format!("usr/lib/systemd/system/{slice}.slice"),
            b"[Unit]\nDescription=slice\n",
            0o644,
        );
    }
    let output = Command::new("systemd-analyze")
        .args(["verify", "--man=no"])
        .arg(format!("--root={}", root.path().display()))
        .arg("crane-agent.service")
        .output()
        .unwrap();
    // An unknown key is only a warning, with exit code 0: nothing may be said.
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.trim().is_empty(), "{said}");
}
