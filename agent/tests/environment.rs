//! Live capture in an unfavourable environment: another `/sys`, no file descriptors, an
//! interface name that is not UTF-8, a name server that does not answer.
#![allow(clippy::unwrap_used)]

mod common;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::net::{Cable, LEFT, ip};
use common::{AGENT, Running, eventually, series, stderr};

fn of(cable: &Cable, name: &str, interface: &str) -> Option<f64> {
    series(&cable.metrics(), name, &[("interface", interface)])
}

/// `ip netns exec` mounts a new `/sys`; `nsenter` leaves that of the host.
#[test]
fn capture_works_in_a_network_namespace_with_the_sys_of_the_host() {
    let Some(cable) = Cable::lay() else { return };
    let in_namespace = |args: &[&str]| {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/{}", cable.left));
        command.arg(AGENT).args(args);
        command
    };
    let listed = in_namespace(&["interfaces"]).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let mut names: Vec<_> = listed.lines().filter_map(|l| l.split(' ').next()).collect();
    names.sort_unstable();
    assert_eq!(names, ["cable", "lo"]);

    let mut agent = Running::start(in_namespace(&["run"]).stderr(Stdio::piped()));
    let line = agent.wait_for_line("capturing");
    assert!(line.contains("interfaces=\"cable\""), "{line}");
    agent.wait_for_line("metrics are at");
    cable.ping(5);
    eventually("its packets", || {
        (of(&cable, "crane_sketch_edges_total", "cable") == Some(10.0)).then_some(())
    });
    // A deleted and recreated interface is noticed there as well.
    ip(&["-n", &cable.left, "link", "delete", "cable"]);
    agent.wait_for_line("capture lost");
    cable.plug();
    agent.wait_for_line("capture is back");
}

/// The Rust wrapper of libpcap needs UTF-8; the kernel accepts any bytes as a name.
#[test]
fn an_interface_whose_name_is_not_utf8_is_reported_and_not_captured() {
    let Some(cable) = Cable::lay() else { return };
    let name = OsStr::from_bytes(b"v\xff\xfe");
    let plug = |name: &OsStr| {
        let link = ["-n", &cable.left, "link"];
        let mut add = Command::new("ip");
        add.args(link).arg("add").arg(name);
        add.args(["type", "veth", "peer", "name", "other"]);
        assert!(add.status().unwrap().success());
        for name in [name, OsStr::new("other")] {
            let mut up = Command::new("ip");
            up.args(link).arg("set").arg(name).arg("up");
            assert!(up.status().unwrap().success());
        }
    };
    let mut agent = cable.capture(&[]);
    plug(name);
    // An interface that appears later as well as one that exists at the start.
    for started_after in [false, true] {
        if started_after {
            let mut command = Cable::command(&cable.left, AGENT);
            agent = Running::start(command.arg("run").stderr(Stdio::piped()));
        }
        eventually("the others", || of(&cable, "crane_interface_up", "other"));
        agent.stop("-TERM");
        let line = agent.wait_for_line(" is not captured");
        for part in ["WARN", r"interface v\xff\xfe", "not UTF-8"] {
            assert!(line.contains(part), "{line}");
        }
    }

    let listed = Cable::command(&cable.left, AGENT)
        .arg("interfaces")
        .output();
    let listed = listed.unwrap();
    assert!(listed.status.success(), "{}", stderr(&listed));
    let listed = String::from_utf8(listed.stdout).unwrap();
    let line = |name: &str| listed.lines().find(|line| line.starts_with(name)).unwrap();
    assert!(line(r"v\xff\xfe ").contains("not UTF-8"), "{listed}");
    let cable = line("cable ");
    assert!(
        cable.contains(" up ") && cable.ends_with(" 10.200.0.1"),
        "{listed}"
    );
    assert!(line("lo ").ends_with(" 127.0.0.1"), "{listed}");
}

#[test]
fn a_lack_of_file_descriptors_interrupts_no_capture() {
    let Some(cable) = Cable::lay() else { return };
    cable.plug_second();
    let mut agent = cable.capture(&["-i", "cable", "-i", "second"]);
    ip(&["-n", &cable.left, "link", "delete", "second"]);
    agent.wait_for_line("capture lost");
    agent.limit(3);
    // Long enough for a check of an interface that has packets, as this one.
    let start = Instant::now();
    let mut pings = 0;
    while start.elapsed() < Duration::from_secs(3) {
        cable.ping(10);
        pings += 10;
    }
    // The warning says that file descriptors are missing, with a remedy.
    cable.plug_second();
    let line = agent.wait_for_line("second");
    for part in ["WARN", "too many open files", "LimitNOFILE", "ulimit -n"] {
        assert!(line.contains(part), "{line}");
    }
    agent.limit(4096);
    // This is the next line of the log: no capture was lost meanwhile.
    let line = agent.wait_for_line("capture");
    assert!(
        line.contains("capture is back") && line.contains("second"),
        "{line}"
    );
    eventually("all packets", || {
        let edges = of(&cable, "crane_sketch_edges_total", "cable");
        (edges == Some(f64::from(2 * pings))).then_some(())
    });
    assert_eq!(of(&cable, "crane_interface_up", "cable"), Some(1.0));
}

/// Files that `ip netns exec` mounts over those in `/etc`.
struct Etc(std::path::PathBuf);

impl Etc {
    fn of(side: &str) -> Self {
        let folder = std::path::Path::new("/etc/netns").join(side);
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.join(name), text).unwrap();
    }
}

impl Drop for Etc {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_name_server_that_does_not_answer_delays_no_other_interface() {
    let Some(cable) = Cable::lay() else { return };
    cable.plug_second();
    let etc = Etc::of(&cable.left);
    etc.write("hosts", &format!("{LEFT} watched\n"));
    // No host has this address, and the static neighbour entry prevents an error.
    ip(&[
        "-n",
        &cable.left,
        "neighbour",
        "add",
        "10.200.0.9",
        "lladdr",
        "02:00:00:00:00:09",
        "dev",
        "cable",
    ]);
    etc.write(
        "resolv.conf",
        "nameserver 10.200.0.9\noptions timeout:10 attempts:1\n",
    );
    // One core: both interfaces share a thread.
    let mut command = Cable::command(&cable.left, "taskset");
    command.args(["-c", "0", AGENT, "run", "-i", "cable", "-i", "second"]);
    command.env("CRANE_CAPTURE_FILTER", "host watched and icmp");
    let mut agent = Running::start(command.stderr(Stdio::piped()));
    agent.wait_for_line("metrics are at");

    ip(&["-n", &cable.left, "link", "delete", "second"]);
    agent.wait_for_line("capture lost");
    etc.write("hosts", "");
    cable.plug_second();
    // By now the agent tries to open it again.
    std::thread::sleep(Duration::from_millis(1500));
    let start = Instant::now();
    cable.ping(20);
    eventually("the packets of the other interface", || {
        (of(&cable, "crane_sketch_edges_total", "cable") == Some(40.0)).then_some(())
    });
    let took = start.elapsed();
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert_eq!(of(&cable, "crane_interface_up", "second"), Some(0.0));
    // A stop does not wait for the answer either.
    let (code, took) = agent.stop("-TERM");
    assert_eq!(code, Some(0));
    assert!(took < Duration::from_secs(3), "{took:?}");
}

#[test]
fn an_invalid_filter_is_reported_at_the_start() {
    let Some(cable) = Cable::lay() else { return };
    let etc = Etc::of(&cable.left);
    etc.write("resolv.conf", "nameserver 127.0.0.1\n");
    // A name may be resolvable when systemd tries again.
    for (filter, code) in [("host no-such-name.invalid", 1), ("tcp or or", 78)] {
        let mut command = Cable::command(&cable.left, AGENT);
        command
            .args(["run", "-i", "cable"])
            .env("CRANE_CAPTURE_FILTER", filter);
        let output = command.output().unwrap();
        let said = common::stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains(filter), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}
