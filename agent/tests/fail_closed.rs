//! In doubt, access is refused: after a truncated file, for a foreign host name, with a
//! key that others may have read. Guesses of passwords delay only each other.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use common::net::{AGENT_PORT, Cable, fetch};
use common::tls::Certificates;
use common::{AGENT, Running, address, eventually, frame, stderr, write_pcap};
use rustix::net::{AddressFamily, SocketType};

const TLS: &str = "tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n";
/// Files are checked once a second, so this is longer than the interval.
const CHECK_INTERVAL: Duration = Duration::from_millis(1100);

fn users(passwords: &[(&str, &str)], cost: u32) -> String {
    let line = |(user, password): &(&str, &str)| {
        let hash = bcrypt::hash(password, cost).unwrap();
        format!("  {user}: {hash}\n")
    };
    let lines: String = passwords.iter().map(line).collect();
    format!("basic_auth_users:\n{lines}")
}

/// An agent that has replayed a capture and serves it, protected by this file if it is one.
fn serving(folder: &Path, export: &str, web: &str) -> (Running, u16) {
    write_pcap(
        &folder.join("small.pcap"),
        &[frame(address(1), address(2), 100)],
    );
    let mut config = format!("[export]\n{export}\n");
    if !web.is_empty() {
        fs::write(folder.join("web.yml"), web).unwrap();
        config += "web_config = \"web.yml\"\n";
    }
    fs::write(folder.join("agent.toml"), config).unwrap();
    common::serving(folder, "small.pcap", &["-c", "agent.toml"])
}

#[test]
fn a_truncated_file_does_not_lower_the_protection() {
    let folder = tempfile::tempdir().unwrap();
    let certificates = Certificates::new(folder.path());
    certificates.sign("server", "ca");
    let whole = format!("{TLS}{}", users(&[("alice", "right")], 4));
    let (mut agent, port) = serving(folder.path(), "", &whole);
    let url = format!("https://127.0.0.1:{port}/metrics");
    let ask = |login: &[&str]| certificates.curl("ca", &[login, &[&url]].concat());
    let web = folder.path().join("web.yml");
    for (cut, says) in [
        ("", Some("remove the key export.web_config")),
        (TLS, Some("does not end the demand for a password")),
        // The same problem again within seconds: it was logged already.
        (&whole[..TLS.len() + 20], None),
        (&whole[TLS.len()..], Some("does not end TLS")),
        ("tls_server_config: {}\nbasic_auth_users: {}\n", None),
        (&whole[..whole.len() - 8], Some("bcrypt")),
    ] {
        fs::write(&web, cut).unwrap();
        thread::sleep(CHECK_INTERVAL);
        assert_eq!(ask(&[]).unwrap().0, 401, "{cut:?}");
        let (status, metrics) = ask(&["-u", "alice:right"]).unwrap();
        assert_eq!(status, 200, "{cut:?}");
        assert!(metrics.contains("\ncrane_web_config_last_read_successful 0\n"));
        if let Some(says) = says {
            let line = agent.wait_for_line("stays as it was");
            assert!(line.contains("ERROR") && line.contains(says), "{line}");
            assert!(line.contains("web.yml"), "{line}");
        }
    }
    fs::remove_file(&web).unwrap();
    thread::sleep(CHECK_INTERVAL);
    assert_eq!(ask(&[]).unwrap().0, 401, "without a file");

    // A file that keeps the protection is applied: another password and one more
    // requirement.
    let changed = users(&[("alice", "other"), ("bob", "too")], 4);
    let changed = format!("{TLS}  min_version: TLS13\n{changed}");
    fs::write(&web, changed).unwrap();
    let metrics = eventually("another password", || {
        let (status, metrics) = ask(&["-u", "bob:too"]).unwrap();
        (status == 200).then_some(metrics)
    });
    assert!(metrics.contains("\ncrane_web_config_last_read_successful 1\n"));
    assert_eq!(ask(&["-u", "alice:right"]).unwrap().0, 401);
    assert!(ask(&["-u", "bob:too", "--tls-max", "1.2"]).is_err());
}

/// Capturing on the left side of a cable, with this file.
fn capturing(cable: &Cable, folder: &Path, export: &str) -> Running {
    let config = folder.join("agent.toml");
    fs::write(&config, configured(export)).unwrap();
    let mut command = Cable::command(&cable.left, AGENT);
    command.args(["run", "--config"]).arg(&config);
    let mut agent = Running::start(command.stderr(Stdio::piped()));
    agent.wait_for_line("metrics are at");
    agent
}

fn configured(export: &str) -> String {
    format!("[capture]\ninterfaces = [\"cable\"]\n[export]\n{export}\n")
}

#[test]
fn only_a_reload_with_an_explicit_file_lowers_the_protection() {
    let Some(cable) = Cable::lay() else { return };
    let folder = tempfile::tempdir().unwrap();
    let web = folder.path().join("web.yml");
    fs::write(&web, users(&[("alice", "right")], 4)).unwrap();
    let export = format!("web_config = \"{}\"", web.display());
    let mut agent = capturing(&cable, folder.path(), &export);
    let answer = || fetch(Some(&cable.left), AGENT_PORT, "/healthz").unwrap();
    let is_refused = || answer().contains("authentication failed");
    assert!(is_refused());
    let headers = "http_server_config:\n  http2: false\n";
    for (cut, says) in [
        ("", "remove the key export.web_config"),
        (headers, "write `basic_auth_users: {}`"),
        ("basic_auth_users:\n", "write `basic_auth_users: {}`"),
    ] {
        fs::write(&web, cut).unwrap();
        agent.signal("-HUP");
        let line = agent.wait_for_line(" configuration");
        for part in ["not reloaded", says, "web.yml"] {
            assert!(line.contains(part), "{part}: {line}");
        }
        thread::sleep(CHECK_INTERVAL);
        assert!(is_refused(), "{cut:?}");
    }
    fs::write(&web, "basic_auth_users: {}\n").unwrap();
    thread::sleep(CHECK_INTERVAL);
    assert!(is_refused(), "without a reload");
    agent.signal("-HUP");
    agent.wait_for_line("configuration reloaded");
    assert_eq!(answer(), "ok\n");
}

/// The status of a request from this loopback address, or `None` without an answer.
fn ask_from(from: [u8; 4], port: u16, login: &str) -> Option<u16> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&socket, &SocketAddr::from((from, 0))).unwrap();
    rustix::net::connect(&socket, &SocketAddr::from(([127, 0, 0, 1], port))).ok()?;
    let mut stream = TcpStream::from(socket);
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .ok()?;
    let login = STANDARD.encode(login);
    let request = format!("GET /healthz HTTP/1.0\r\nAuthorization: Basic {login}\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.split(' ').nth(1)?.parse().ok()
}

#[test]
fn many_wrong_passwords_do_not_block_the_right_ones() {
    let folder = tempfile::tempdir().unwrap();
    let names: Vec<String> = (0..8).map(|n| format!("user{n}")).collect();
    let passwords: Vec<(&str, &str)> = names.iter().map(|name| (&**name, "right")).collect();
    let (_agent, port) = serving(folder.path(), "", &users(&passwords, 9));
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let over = &over;
        for guesser in 0..48 {
            scope.spawn(move || {
                // Twelve addresses with four connections each.
                let from = [127, 0, 1, 1 + guesser % 12];
                for n in 0.. {
                    if over.load(Relaxed) {
                        break;
                    }
                    let status = ask_from(from, port, &format!("user{}:{n}-{guesser}", n % 8));
                    assert!(matches!(status, Some(401 | 429 | 503)), "{status:?}");
                    thread::sleep(Duration::from_millis(5));
                }
            });
        }
        thread::sleep(Duration::from_secs(3));
        let request = |(n, name): (u8, &String)| {
            let asked = Instant::now();
            let status = ask_from([127, 0, 2, 1 + n], port, &format!("{name}:right"));
            (status, asked.elapsed())
        };
        let answers: Vec<_> = (0..).zip(&names).map(request).collect();
        // Set before any assertion, because the other threads would never end otherwise.
        over.store(true, Relaxed);
        for (status, took) in &answers {
            assert_eq!(*status, Some(200), "{answers:?}");
            assert!(*took < Duration::from_secs(3), "{answers:?}");
        }
    });
}

/// Status and body of the answer to a request with these host headers.
fn ask_for(port: u16, hosts: &[&str], login: Option<&str>) -> (u16, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let hosts: String = hosts
        .iter()
        .map(|host| format!("Host: {host}\r\n"))
        .collect();
    let login = login.map(|login| STANDARD.encode(login));
    let login = login.map(|login| format!("Authorization: Basic {login}\r\n"));
    let login = login.unwrap_or_default();
    write!(stream, "GET /healthz HTTP/1.1\r\n{hosts}{login}\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap();
    (status.parse().unwrap(), body.to_owned())
}

#[test]
fn requests_with_a_foreign_host_name_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (mut agent, port) = serving(folder.path(), "hosts = [\"agent.example.org\"]", "");
    let own = Command::new("uname").arg("-n").output().unwrap();
    let own = String::from_utf8(own.stdout).unwrap().trim().to_owned();
    for host in [
        "127.0.0.1",
        &format!("127.0.0.1:{port}"),
        "[::1]:9732",
        "192.0.2.1",
        "localhost",
        "LocalHost:9732",
        "crane-agent",
        "agent.example.org",
        "Agent.Example.Org.:80",
        &own,
        &format!("{own}:9732"),
    ] {
        assert_eq!(ask_for(port, &[host], None), (200, "ok\n".into()), "{host}");
    }
    for hosts in [
        &["evil.example"][..],
        &["evil.example:9732"],
        &["example.org"],
        &["localhost.evil.example"],
        &["localhost", "evil.example"],
    ] {
        let (status, body) = ask_for(port, hosts, None);
        assert_eq!(status, 421, "{hosts:?}");
        assert!(body.contains("export.hosts"), "{body}");
    }
    let line = agent.wait_for_line("a request was refused");
    assert!(
        line.contains("WARN") && line.contains("evil.example"),
        "{line}"
    );
    assert!(common::get(port, "/metrics").is_some());
    drop(agent);

    let (_agent, port) = serving(folder.path(), "", &users(&[("alice", "right")], 4));
    let ask = |login| ask_for(port, &["evil.example"], login).0;
    assert_eq!(ask(Some("alice:right")), 200, "with a valid password");
    assert_eq!((ask(None), ask(Some("alice:wrong"))), (401, 401));
}

#[test]
fn a_client_with_a_certificate_may_use_any_host_name() {
    let folder = tempfile::tempdir().unwrap();
    let certificates = Certificates::new(folder.path());
    for name in ["server", "client"] {
        certificates.sign(name, "ca");
    }
    let clients = "  client_ca_file: ca.crt\n  client_auth_type: VerifyClientCertIfGiven\n";
    let (_agent, port) = serving(folder.path(), "", &format!("{TLS}{clients}"));
    let url = format!("https://127.0.0.1:{port}/metrics");
    let ask = |more: &[&str]| {
        let args = [&["-H", "Host: evil.example", &url], more].concat();
        certificates.curl("ca", &args).unwrap().0
    };
    assert_eq!(ask(&["--cert", "client.crt", "--key", "client.key"]), 200);
    assert_eq!(ask(&[]), 421);
}

#[test]
fn other_addresses_accept_any_host_name_and_a_reload_adds_one() {
    let Some(cable) = Cable::lay() else { return };
    let folder = tempfile::tempdir().unwrap();
    let listen = "listen = \"0.0.0.0:9732\"";
    let mut agent = capturing(&cable, folder.path(), listen);
    let ask = |side: &str, address: &str| {
        let request = format!(
            "exec 3<>/dev/tcp/{address}/9732; \
             printf 'GET /healthz HTTP/1.0\\r\\nHost: alias.example\\r\\n\\r\\n' >&3; cat <&3"
        );
        let output = Cable::command(side, "bash").args(["-c", &request]).output();
        let answer = String::from_utf8(output.unwrap().stdout).unwrap();
        answer.split(' ').nth(1).unwrap().to_owned()
    };
    assert_eq!(ask(&cable.right, "10.200.0.1"), "200", "from outside");
    assert_eq!(ask(&cable.left, "10.200.0.1"), "200", "by its own address");
    assert_eq!(ask(&cable.left, "127.0.0.1"), "421");
    let more = configured(&format!("{listen}\nhosts = [\"alias.example\"]"));
    fs::write(folder.path().join("agent.toml"), more).unwrap();
    agent.signal("-HUP");
    let line = agent.wait_for_line("configuration reloaded");
    assert!(line.contains("export.hosts"), "{line}");
    assert_eq!(ask(&cable.left, "127.0.0.1"), "200");
}

#[test]
fn a_key_or_state_folder_that_others_can_access_is_refused() {
    let Some(cable) = Cable::lay() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (state, key) = (folder.path().join("state"), folder.path().join("state/key"));
    let command = || {
        // An agent that is not refused is ended by `timeout`.
        let mut command = Cable::command(&cable.left, "timeout");
        command.args(["10", AGENT, "run", "-i", "cable", "--state"]);
        command.arg(&state);
        command.stderr(Stdio::piped());
        command
    };
    let starts = || {
        let mut agent = Running::start(&mut command());
        agent.wait_for_line("metrics are at");
        agent.stop("-TERM");
    };
    starts();
    let good = fs::read(&key).unwrap();
    let mode = |path: &Path, mode: u32| {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    };
    for (spoil, says) in [
        (
            &(|| mode(&key, 0o640)) as &dyn Fn(),
            "others can read the key",
        ),
        (&|| mode(&key, 0o604), "mode 0604"),
        (&|| mode(&state, 0o770), "others can write to it"),
        (&|| mode(&state, 0o1777), "mode 1777"),
        (&|| chown(&key, Some(12345), None).unwrap(), "uid 12345"),
        (&|| chown(&state, Some(12345), None).unwrap(), "uid 12345"),
    ] {
        spoil();
        let refused = command().output().unwrap();
        let said = stderr(&refused);
        assert_eq!(refused.status.code(), Some(78), "{said}");
        assert!(said.contains(says), "{says}: {said}");
        // The command in the message repairs it.
        let repair = said.split('`').nth(1).unwrap();
        assert!(
            repair.starts_with("chmod ") || repair.starts_with("chown "),
            "{said}"
        );
        let repaired = Command::new("sh").args(["-c", repair]).status();
        assert!(repaired.unwrap().success(), "{repair}");
        starts();
        assert_eq!(fs::read(&key).unwrap(), good);
    }
    // A key that cannot be read is not treated as damaged.
    mode(&key, 0o000);
    let refused = command().output().unwrap();
    let said = stderr(&refused);
    assert_eq!(refused.status.code(), Some(78), "{said}");
    assert!(
        said.contains("the key cannot be read: Permission denied"),
        "{said}"
    );
    assert!(!state.join("key.bad").exists());
    mode(&key, 0o600);
    starts();
    assert_eq!(fs::read(&key).unwrap(), good);
}
