//! An agent with TLS and passwords, accessed by Prometheus, curl, its own client and by
//! clients that guess passwords.
#![allow(clippy::unwrap_used)]

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use common::net::Prometheus;
use common::tls::Certificates;
use common::{AGENT, Running, address, agent, eventually, frame, free_port, stderr, write_pcap};

/// An agent that has replayed a capture and serves it, with this `[export]` and
/// this file for `web_config`.
fn serving(folder: &Path, export: &str, web: &str) -> (Running, u16) {
    let frames = vec![frame(address(1), address(2), 100); 50];
    write_pcap(&folder.join("small.pcap"), &frames);
    std::fs::write(folder.join("web.yml"), web).unwrap();
    let config = format!("[export]\nweb_config = \"web.yml\"\n{export}\n");
    std::fs::write(folder.join("agent.toml"), config).unwrap();
    common::serving(folder, "small.pcap", &["-c", "agent.toml"])
}

const TLS: &str = "tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n";

fn users(passwords: &[(&str, &str)], cost: u32) -> String {
    let line = |(user, password): &(&str, &str)| {
        let hash = bcrypt::hash(password, cost).unwrap();
        format!("  {user}: {hash}\n")
    };
    let lines: String = passwords.iter().map(line).collect();
    format!("basic_auth_users:\n{lines}")
}

/// Runs `crane-agent top` with these arguments. Returns its output or its error message.
fn top(folder: &Path, password: Option<&str>, args: &[&str]) -> Result<String, String> {
    let mut command = Command::new(AGENT);
    command.arg("top").args(args).current_dir(folder);
    if let Some(password) = password {
        command.env("CRANE_PASSWORD", password);
    }
    let output = command.output().unwrap();
    match output.status.code() {
        Some(0) => Ok(String::from_utf8(output.stdout).unwrap()),
        code => {
            assert_eq!(code, Some(1));
            Err(stderr(&output))
        }
    }
}

#[test]
fn prometheus_scrapes_over_tls_with_a_password() {
    let folder = tempfile::tempdir().unwrap();
    let certificates = Certificates::new(folder.path());
    certificates.sign("server", "ca");
    let web = format!("{TLS}{}", users(&[("prometheus", "open sesame")], 8));
    let (_agent, port) = serving(folder.path(), "", &web);
    let job = |name: &str, ca: &str, password: &str| {
        let ca = folder.path().join(ca);
        format!(
            "  - job_name: {name}\n    scheme: https\n    tls_config: {{ca_file: '{}'}}\n    \
             basic_auth: {{username: prometheus, password: '{password}'}}\n    \
             static_configs: [{{targets: ['127.0.0.1:{port}']}}]\n",
            ca.display()
        )
    };
    let jobs = [
        job("right", "ca.crt", "open sesame"),
        job("wrong", "ca.crt", "open barley"),
        job("foreign", "foreign.crt", "open sesame"),
    ];
    let prometheus = Prometheus::with_jobs(&jobs.concat(), free_port(), None);
    prometheus.wait_for("up{job=\"right\"}", |up| up == 1.0);
    prometheus.wait_for("sum(crane_heavy_hitter_packets{job=\"right\"})", |sum| {
        sum == 50.0
    });
    for job in ["wrong", "foreign"] {
        prometheus.wait_for(&format!("max_over_time(up{{job={job:?}}}[1m])"), |up| {
            up == 0.0
        });
    }
}

#[test]
fn every_path_needs_a_password_and_the_socket_none() {
    let folder = tempfile::tempdir().unwrap();
    let certificates = Certificates::new(folder.path());
    certificates.sign("server", "ca");
    let headers = "http_server_config:\n  http2: false\n  headers:\n    X-Frame-Options: deny\n";
    let web = format!("{TLS}{headers}{}", users(&[("alice", "s3cret")], 6));
    let (_agent, port) = serving(folder.path(), "socket = \"./api.sock\"", &web);
    let url = |path: &str| format!("https://127.0.0.1:{port}{path}");
    let curl = |args: &[&str]| certificates.curl("ca", args).unwrap();

    for path in ["/", "/metrics", "/healthz", "/readyz", "/api/v1/interfaces"] {
        assert_eq!(curl(&[&url(path)]).0, 401, "{path}");
        let (status, _) = curl(&["-u", "alice:s3cret", &url(path)]);
        assert_eq!(status, 200, "{path}");
    }
    for login in ["alice:S3cret", "alice:", "bob:s3cret", ":"] {
        assert_eq!(curl(&["-u", login, &url("/metrics")]).0, 401, "{login}");
    }
    let (_, answer) = curl(&["-i", &url("/metrics")]);
    let answer = answer.to_lowercase();
    assert!(answer.contains("www-authenticate: basic"), "{answer}");
    assert!(answer.contains("x-frame-options: deny"), "{answer}");
    let (_, answer) = curl(&["-i", "-u", "alice:s3cret", &url("/metrics")]);
    assert!(answer.to_lowercase().contains("x-frame-options: deny"));

    let at = url("");
    let asks = |password, args: &[&str]| {
        let args = [&["--agent", &at, "--ca", "ca.crt"], args].concat();
        top(folder.path(), password, &args)
    };
    assert!(
        asks(Some("s3cret"), &["--user", "alice"])
            .unwrap()
            .contains("10.0.0.1")
    );
    std::fs::write(folder.path().join("password"), "s3cret\n").unwrap();
    let by_file = ["--user", "alice", "--password-file", "password"];
    assert!(asks(None, &by_file).unwrap().contains("10.0.0.1"));
    let error = asks(Some("wrong"), &["--user", "alice"]).unwrap_err();
    assert!(error.contains("authentication failed"), "{error}");
    let error = asks(None, &["--user", "alice"]).unwrap_err();
    assert!(error.contains("CRANE_PASSWORD"), "{error}");
    let plain = format!("127.0.0.1:{port}");
    let error = top(folder.path(), None, &["--agent", &plain]).unwrap_err();
    assert!(error.contains("https://"), "{error}");

    let socket = top(folder.path(), None, &["--agent", "./api.sock"]);
    assert!(socket.unwrap().contains("10.0.0.1"));
}

#[test]
fn expired_and_foreign_certificates_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let certificates = Certificates::new(folder.path());
    certificates.sign_expired("server", "ca");
    let (_agent, port) = serving(folder.path(), "", TLS);
    let url = format!("https://127.0.0.1:{port}/metrics");
    let error = certificates.curl("ca", &[&url]).unwrap_err();
    assert!(error.contains("expired"), "{error}");
    let error = top(folder.path(), None, &["--agent", &url, "--ca", "ca.crt"]).unwrap_err();
    assert!(error.contains("expired"), "{error}");

    certificates.sign("server", "foreign");
    eventually("a certificate of another authority", || {
        certificates.curl("foreign", &[&url]).ok()
    });
    let error = certificates.curl("ca", &[&url]).unwrap_err();
    assert!(error.contains("certificate"), "{error}");
    let error = top(folder.path(), None, &["--agent", &url, "--ca", "ca.crt"]).unwrap_err();
    assert!(error.contains("UnknownIssuer"), "{error}");
}

#[test]
fn a_self_signed_certificate_is_trusted_if_it_is_given_with_ca() {
    let folder = tempfile::tempdir().unwrap();
    let certificates = Certificates::new(folder.path());
    certificates.sign_itself("server", "IP:127.0.0.1", "-1 hour");
    certificates.sign_itself("other", "IP:127.0.0.1", "-1 hour");
    let (_agent, port) = serving(folder.path(), "", TLS);
    let url = format!("https://127.0.0.1:{port}");
    let ask = |args: &[&str]| top(folder.path(), None, &[&["--agent", &url], args].concat());
    certificates.curl("server", &[&url]).unwrap();
    assert!(ask(&["--ca", "server.crt"]).unwrap().contains("10.0.0.1"));
    let question = ["query", "--node", "10.0.0.1", "--agent", &url, "--ca"];
    let mut query = Command::new(AGENT);
    query.args(question).arg(folder.path().join("server.crt"));
    assert!(query.output().unwrap().status.success());
    // The file may contain several certificates.
    let both = ["other.crt", "server.crt"].map(|name| {
        let text = std::fs::read_to_string(folder.path().join(name));
        text.unwrap()
    });
    std::fs::write(folder.path().join("both.crt"), both.concat()).unwrap();
    assert!(ask(&["--ca", "both.crt"]).is_ok());

    // Without `--ca`, or with another self-signed certificate, it is refused.
    for args in [&[][..], &["--ca", "other.crt"]] {
        let error = ask(args).unwrap_err();
        assert!(error.contains("name it with --ca"), "{error}");
        assert!(!error.contains("http://"), "{error}");
    }
    // Its name and its dates are checked nevertheless.
    certificates.sign_itself("server", "DNS:elsewhere.example", "-1 hour");
    let refused = |why: &str| {
        eventually(why, || {
            let error = ask(&["--ca", "server.crt"]).err()?;
            error.contains(why).then_some(error)
        })
    };
    let error = refused("subjectAltName");
    assert!(error.contains("elsewhere.example"), "{error}");
    certificates.sign_itself("server", "IP:127.0.0.1", "-3 days");
    refused("expired");
    let error = certificates.curl("server", &[&url]).unwrap_err();
    assert!(error.contains("expired"), "{error}");
}

#[test]
fn certificates_of_clients_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    let certificates = Certificates::new(folder.path());
    for name in ["server", "client"] {
        certificates.sign(name, "ca");
    }
    certificates.sign("stranger", "foreign");
    certificates.sign_expired("late", "ca");
    let web = |auth: &str, more: &str| {
        format!("{TLS}  client_ca_file: ca.crt\n  client_auth_type: {auth}\n{more}")
    };
    let optional = web("VerifyClientCertIfGiven", "");
    let (_agent, port) = serving(folder.path(), "", &optional);
    let url = format!("https://127.0.0.1:{port}/metrics");
    let ask = |name: &str, more: &[&str]| {
        let (cert, key) = (format!("{name}.crt"), format!("{name}.key"));
        let identity = ["--cert", cert.as_str(), "--key", key.as_str(), &url];
        let identity = if name.is_empty() {
            &identity[4..]
        } else {
            &identity
        };
        certificates.curl("ca", &[identity, more].concat())
    };
    // A client without a certificate is accepted, and so is one with a valid certificate.
    for name in ["", "client"] {
        assert_eq!(ask(name, &[]).unwrap().0, 200, "{name:?}");
    }
    assert!(ask("stranger", &[]).is_err());

    let required = web("RequireAndVerifyClientCert", "  min_version: TLS13\n");
    std::fs::write(folder.path().join("web.yml"), required).unwrap();
    eventually("no answer without a certificate", || {
        ask("", &[]).is_err().then_some(())
    });
    assert_eq!(ask("client", &[]).unwrap().0, 200);
    assert!(ask("client", &["--tls-max", "1.2"]).is_err());
    for name in ["stranger", "late"] {
        assert!(ask(name, &[]).is_err(), "{name:?}");
    }
    let args = ["--agent", &url, "--ca", "ca.crt"];
    let ours = [&args[..], &["--cert", "client.crt", "--key", "client.key"]].concat();
    assert!(
        top(folder.path(), None, &ours)
            .unwrap()
            .contains("10.0.0.1")
    );
    assert!(top(folder.path(), None, &args).is_err());
}

#[test]
fn certificates_and_users_change_without_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let certificates = Certificates::new(folder.path());
    certificates.sign("server", "ca");
    let web = |password| format!("{TLS}{}", users(&[("alice", password)], 5));
    let (mut agent, port) = serving(folder.path(), "", &web("old"));
    let url = format!("https://127.0.0.1:{port}/metrics");
    let status = |ca: &str, login: &str| certificates.curl(ca, &["-u", login, &url]);
    assert_eq!(status("ca", "alice:old").unwrap().0, 200);

    std::fs::write(folder.path().join("web.yml"), web("new")).unwrap();
    eventually("the new password", || {
        let (status, _) = status("ca", "alice:new").unwrap();
        (status == 200).then_some(())
    });
    assert_eq!(status("ca", "alice:old").unwrap().0, 401);

    certificates.sign("server", "foreign");
    eventually("the new certificate", || {
        status("foreign", "alice:new").ok()
    });
    agent.wait_for_line("was read again");

    // An invalid file changes nothing and is logged once.
    std::fs::write(folder.path().join("server.crt"), "half a certif").unwrap();
    for _ in 0..25 {
        assert_eq!(status("foreign", "alice:new").unwrap().0, 200);
        std::thread::sleep(Duration::from_millis(100));
    }
    let warning = agent.wait_for_line("stays as it was");
    assert!(warning.contains("server.crt"), "{warning}");
    std::fs::write(folder.path().join("web.yml"), "basic_auth_user:\n").unwrap();
    std::thread::sleep(Duration::from_millis(1100));
    assert_eq!(status("foreign", "alice:new").unwrap().0, 200);
    let warning = agent.wait_for_line("ERROR");
    let named = warning.contains("web.yml, line 1") && warning.contains("basic_auth_user");
    assert!(named, "{warning}");
}

/// Sends a request with this login from this address. Returns the status.
fn ask(port: u16, from: &str, login: &str) -> Option<u16> {
    let login = STANDARD.encode(login);
    if from != "127.0.0.1" {
        let url = format!("http://127.0.0.1:{port}/metrics");
        let header = format!("Authorization: Basic {login}");
        let output = Command::new("curl")
            .args(["-s", "--interface", from, "-H", &header])
            .args(["-o", "/dev/null", "-w", "%{http_code}", &url])
            .output()
            .unwrap();
        return String::from_utf8(output.stdout).unwrap().parse().ok();
    }
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    let request = format!("GET /metrics HTTP/1.0\r\nAuthorization: Basic {login}\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.split(' ').nth(1)?.parse().ok()
}

#[test]
fn wrong_passwords_cost_little_and_delay_no_scrape() {
    let folder = tempfile::tempdir().unwrap();
    let web = users(&[("alice", "right"), ("carol", "too")], 10);
    let (agent, port) = serving(folder.path(), "", &web);
    assert_eq!(ask(port, "127.0.0.1", "alice:right"), Some(200));
    // An unknown user takes about as long as a known one.
    let [known, unknown] = ["alice:wrong", "nobody:wrong"].map(|login| {
        std::thread::sleep(Duration::from_millis(500));
        let start = Instant::now();
        assert_eq!(ask(port, "127.0.0.1", login), Some(401));
        start.elapsed()
    });
    assert!(unknown > known / 4, "{unknown:?} and {known:?}");

    let (over, wrong, busy) = (AtomicBool::new(false), AtomicU32::new(0), AtomicU32::new(0));
    let (over, wrong, busy) = (&over, &wrong, &busy);
    std::thread::scope(|scope| {
        for client in 0..12 {
            scope.spawn(move || {
                for n in 0.. {
                    if over.load(Relaxed) {
                        break;
                    }
                    let user = ["alice", "nobody"][n % 2];
                    match ask(port, "127.0.0.1", &format!("{user}:{client}-{n}")) {
                        Some(401) => wrong.fetch_add(1, Relaxed),
                        Some(429) => busy.fetch_add(1, Relaxed),
                        other => panic!("{other:?}"),
                    };
                    std::thread::sleep(Duration::from_millis(20));
                }
            });
        }
        let (start, before) = (Instant::now(), agent.cpu_seconds());
        let (mut slowest, mut refused) = (Duration::ZERO, 0);
        while start.elapsed() < Duration::from_secs(4) {
            let asked = Instant::now();
            refused += u32::from(ask(port, "127.0.0.1", "alice:right") != Some(200));
            slowest = slowest.max(asked.elapsed());
            std::thread::sleep(Duration::from_millis(50));
        }
        let share = (agent.cpu_seconds() - before) / start.elapsed().as_secs_f64();
        // A client that has not logged in before, from another address, is not blocked by
        // the others.
        let first = ask(port, "127.0.0.2", "carol:too");
        // Set before any assertion, because the other threads would never end otherwise.
        over.store(true, Relaxed);
        assert_eq!((first, refused), (Some(200), 0));
        assert!(slowest < Duration::from_secs(1), "{slowest:?}");
        assert!(share < 0.6, "{share:.2} of a core");
    });
    let (wrong, busy) = (wrong.load(Relaxed), busy.load(Relaxed));
    assert!(
        wrong > 2 && busy > wrong,
        "{wrong} checked, {busy} refused unchecked"
    );
}

#[test]
fn an_invalid_file_is_an_error_at_the_start_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    Certificates::new(folder.path()).sign("server", "ca");
    let config = folder.path().join("agent.toml");
    let web = folder.path().join("web.yml");
    let toml = format!("[export]\nweb_config = {:?}\n", web.to_str().unwrap());
    std::fs::write(&config, toml).unwrap();
    let config = config.to_str().unwrap();
    for (text, says) in [
        (
            "basic_auth_users:\n  alice: s3cret\n",
            ["line 2: alice", "bcrypt"],
        ),
        (
            "tls_server_config:\n  cert_fil: x\n",
            ["line 2: cert_fil", "cert_file"],
        ),
        ("a:\n  b: [\n", ["line", "is not YAML"]),
        (
            "tls_server_config:\n  cert_file: none.crt\n  key_file: server.key\n",
            ["none.crt: cannot be read", "No such file"],
        ),
        (
            "tls_server_config:\n  cert_file: server.crt\n  key_file: ca.key\n",
            ["server.crt: cannot be used with the key", "ca.key"],
        ),
        (
            "tls_server_config:\n  cert_file: server.key\n  key_file: server.key\n",
            ["server.key", "no certificate"],
        ),
    ] {
        std::fs::write(&web, text).unwrap();
        let run = ["run", "-i", "lo", "--listen", "127.0.0.1:0", "-c", config];
        for args in [&run[..], &["check-config", config]] {
            let output = agent(args);
            let error = stderr(&output);
            assert_eq!(output.status.code(), Some(78), "{text:?}: {error}");
            assert!(says.iter().all(|part| error.contains(part)), "{error}");
            assert!(!error.contains("s3cret"), "{error}");
        }
    }
    std::fs::write(&web, TLS).unwrap();
    assert!(agent(&["check-config", config]).status.success());
    std::fs::remove_file(&web).unwrap();
    let output = agent(&["check-config", config]);
    assert_eq!(output.status.code(), Some(78));
    assert!(stderr(&output).contains("web.yml: cannot be read"));
}

#[test]
fn several_addresses_serve_the_same() {
    let folder = tempfile::tempdir().unwrap();
    write_pcap(
        &folder.path().join("a.pcap"),
        &[frame(address(1), address(2), 9)],
    );
    let ports = [free_port(), free_port(), free_port()];
    let at = ports.map(|port| format!("127.0.0.1:{port}"));
    let list = format!("[export]\nlisten = [{:?}, {:?}]\n", at[0], at[1]);
    std::fs::write(folder.path().join("list.toml"), list).unwrap();
    let flags = [format!("--listen={}", at[1]), format!("--listen={}", at[2])];
    for (args, serving) in [
        (&[][..], [0, 1]),
        // Flags override the file.
        (&flags[..], [1, 2]),
    ] {
        let mut command = Command::new(AGENT);
        command
            .args(["replay", "a.pcap", "--serve", "-c", "list.toml"])
            .args(args)
            .current_dir(folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut running = Running::start(&mut command);
        for which in serving {
            running.wait_for_line(&format!("metrics are at http://{}/metrics", at[which]));
        }
        for (which, port) in ports.into_iter().enumerate() {
            let answer = common::get(port, "/metrics");
            assert_eq!(answer.is_some(), serving.contains(&which), "{port}");
        }
    }
}
