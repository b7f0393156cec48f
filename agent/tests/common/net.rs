//! Two hosts connected by a veth pair, in network namespaces of this machine, and a
//! Prometheus.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::{AGENT, Running, eventually, get, workspace};
use serde_json::Value;

/// Ports in a network namespace of the test, where no other program uses them.
pub const AGENT_PORT: u16 = 9732;
pub const PROMETHEUS_PORT: u16 = 9090;

pub const LEFT: &str = "10.200.0.1";
pub const RIGHT: &str = "10.200.0.2";

/// Two network namespaces with a veth pair between them. The interface is
/// called `cable` on both ends.
pub struct Cable {
    pub left: String,
    pub right: String,
}

impl Cable {
    /// Creates both namespaces and the veth pair. Returns `None` without root, after
    /// [`skip`] has noted that.
    pub fn lay() -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let id = format!(
            "{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        let cable = Self {
            left: format!("crane-l-{id}"),
            right: format!("crane-r-{id}"),
        };
        let allowed = Command::new("ip")
            .args(["netns", "add", &cable.left])
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success());
        if !allowed {
            std::mem::forget(cable);
            skip();
            return None;
        }
        ip(&["netns", "add", &cable.right]);
        let (left, right) = (&cable.left, &cable.right);
        // No IPv6 autoconfiguration: only what the tests send is on the cable.
        for side in [left, right] {
            let quiet = "echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6; \
                         echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6";
            assert!(
                Self::command(side, "sh")
                    .args(["-c", quiet])
                    .status()
                    .unwrap()
                    .success()
            );
            ip(&["-n", side, "link", "set", "lo", "up"]);
        }
        cable.plug();
        Some(cable)
    }

    /// Makes the interfaces and brings them up.
    pub fn plug(&self) {
        let (left, right) = (&self.left, &self.right);
        ip(&[
            "link", "add", "cable", "netns", left, "type", "veth", "peer", "name", "cable",
            "netns", right,
        ]);
        for (side, address) in [(left, LEFT), (right, RIGHT)] {
            ip(&[
                "-n",
                side,
                "address",
                "add",
                &format!("{address}/24"),
                "dev",
                "cable",
            ]);
            ip(&["-n", side, "link", "set", "cable", "up"]);
        }
    }

    /// Starts an agent with these arguments that captures on the left side.
    pub fn capture(&self, args: &[&str]) -> Running {
        let mut command = Self::command(&self.left, AGENT);
        command.arg("run").args(args).stderr(Stdio::piped());
        let mut agent = Running::start(&mut command);
        agent.wait_for_line("metrics are at http://127.0.0.1:9732/metrics");
        agent
    }

    /// The metrics of that agent.
    pub fn metrics(&self) -> String {
        eventually("metrics", || {
            fetch(Some(&self.left), AGENT_PORT, "/metrics")
        })
    }

    /// A command in one of the namespaces.
    pub fn command(side: &str, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", side, program]);
        // Windows end at multiples of their length, so a window of a minute might end
        // during any test.
        command.env("CRANE_WINDOW_LENGTH", "366d");
        command
    }

    /// A second cable between the same hosts, called `second`.
    pub fn plug_second(&self) {
        let (left, right) = (&self.left, &self.right);
        ip(&[
            "link", "add", "second", "netns", left, "type", "veth", "peer", "name", "second",
            "netns", right,
        ]);
        for side in [left, right] {
            ip(&["-n", side, "link", "set", "second", "up"]);
        }
    }

    /// Adds this many unused interfaces on the left side, in pairs.
    pub fn plug_idle(&self, interfaces: usize) {
        let pairs = (0..interfaces / 2).map(|n| {
            format!(
                "link add idle{n} type veth peer name idle{n}b\n\
                 link set idle{n} up\nlink set idle{n}b up\n"
            )
        });
        let folder = tempfile::tempdir().unwrap();
        let batch = folder.path().join("batch");
        std::fs::write(&batch, pairs.collect::<String>()).unwrap();
        ip(&["-n", &self.left, "-batch", batch.to_str().unwrap()]);
    }

    /// Sends a capture from right to left on the interface `name`, `times` times, at
    /// `rate` packets a second.
    pub fn send(&self, name: &str, capture: &Path, rate: u32, times: u32) -> Running {
        let mut send = Self::command(&self.right, "tcpreplay");
        send.args(["--quiet", "--preload-pcap", "-i", name])
            .arg(format!("--pps={rate}"))
            .arg(format!("--loop={times}"))
            .arg(capture)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Running::start(&mut send)
    }

    /// Pings from right to left.
    pub fn ping(&self, count: u32) {
        let count = count.to_string();
        let mut ping = Self::command(&self.right, "ping");
        ping.args(["-q", "-c", &count, "-i", "0.005", LEFT])
            .stdout(Stdio::null());
        assert!(ping.status().unwrap().success());
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        for side in [&self.left, &self.right] {
            let _ = Command::new("ip").args(["netns", "delete", side]).status();
        }
    }
}

/// Waits for the start of the next window of `length` seconds.
pub fn wait_for_window(length: u64) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let into = now.as_secs_f64() % length as f64;
    std::thread::sleep(Duration::from_secs_f64(length as f64 - into));
}

/// Notes that this test is skipped; `make test` prints the list at its end. In CI, where
/// every test has to run, the test fails instead.
fn skip() {
    let strict = std::env::var_os("CI").is_some_and(|ci| ci == "true");
    assert!(!strict, "network namespaces need root");
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    let list = Path::new(env!("CARGO_TARGET_TMPDIR")).join("skipped");
    let list = File::options().append(true).create(true).open(&list);
    // Written in one piece, because other tests write to the file as well.
    let line = format!("{test}\n");
    list.and_then(|mut list| list.write_all(line.as_bytes()))
        .unwrap();
}

pub fn ip(args: &[&str]) {
    assert!(
        Command::new("ip").args(args).status().unwrap().success(),
        "ip {args:?}"
    );
}

/// A real Prometheus that scrapes one agent every second.
pub struct Prometheus {
    _process: Running,
    _folder: tempfile::TempDir,
    port: u16,
    side: Option<String>,
}

impl Prometheus {
    /// Scrapes `agent_port`; in the namespace `side` if given.
    pub fn start(agent_port: u16, port: u16, side: Option<&str>) -> Self {
        let job = format!(
            "  - job_name: crane\n    static_configs: [{{targets: ['127.0.0.1:{agent_port}']}}]\n"
        );
        Self::with_jobs(&job, port, side)
    }

    /// Scrapes the targets of these jobs.
    pub fn with_jobs(jobs: &str, port: u16, side: Option<&str>) -> Self {
        Self::configured("", jobs, port, side)
    }

    /// Like [`with_jobs`](Self::with_jobs), and evaluates the rules of `dashboards/rules`
    /// every second.
    pub fn with_rules(jobs: &str, port: u16, side: Option<&str>) -> Self {
        let rules = workspace().join("dashboards/rules/*.yml");
        let rules = format!("rule_files: ['{}']\n", rules.display());
        Self::configured(&rules, jobs, port, side)
    }

    fn configured(rules: &str, jobs: &str, port: u16, side: Option<&str>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let global = "global: {scrape_interval: 1s, evaluation_interval: 1s}\n";
        let config = format!("{global}{rules}scrape_configs:\n{jobs}");
        std::fs::write(folder.path().join("prometheus.yml"), config).unwrap();
        let mut command = match side {
            Some(side) => Cable::command(side, "prometheus"),
            None => Command::new("prometheus"),
        };
        command
            .arg(format!(
                "--config.file={}",
                folder.path().join("prometheus.yml").display()
            ))
            .arg(format!(
                "--storage.tsdb.path={}",
                folder.path().join("data").display()
            ))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Self {
            _process: Running::start(&mut command),
            _folder: folder,
            port,
            side: side.map(str::to_owned),
        }
    }

    /// The result of an instant query.
    pub fn query(&self, expression: &str) -> Option<Vec<Value>> {
        let answer = self.ask(&format!("/api/v1/query?query={}", encoded(expression)))?;
        assert_eq!(answer["status"], "success", "{expression}: {answer}");
        answer["data"]["result"].as_array().cloned()
    }

    /// The values of a label that these series have.
    pub fn label_values(&self, series: &str, label: &str) -> Vec<Value> {
        let path = format!("/api/v1/label/{label}/values?match[]={}", encoded(series));
        let answer = self.ask(&path).unwrap();
        assert_eq!(answer["status"], "success", "{series}: {answer}");
        answer["data"].as_array().cloned().unwrap_or_default()
    }

    /// All rules with their state.
    pub fn rules(&self) -> Option<Vec<Value>> {
        let answer = self.ask("/api/v1/rules")?;
        let groups = answer["data"]["groups"].as_array()?.iter();
        let rules = groups.flat_map(|group| group["rules"].as_array().into_iter().flatten());
        Some(rules.cloned().collect())
    }

    fn ask(&self, path: &str) -> Option<Value> {
        let body = fetch(self.side.as_deref(), self.port, path)?;
        serde_json::from_str(&body).ok()
    }

    /// Waits until the query gives one number that `is_right`.
    pub fn wait_for(&self, expression: &str, is_right: impl Fn(f64) -> bool) -> f64 {
        eventually(expression, || {
            let result = self.query(expression)?;
            let value = result.first()?["value"][1].as_str()?.parse().ok()?;
            is_right(value).then_some(value)
        })
    }
}

/// A text in percent encoding, for a URL.
fn encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' => (byte as char).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}

/// An HTTP GET on the loopback of a namespace.
pub fn fetch(side: Option<&str>, port: u16, path: &str) -> Option<String> {
    let Some(side) = side else {
        return get(port, path).map(|(_, body)| body);
    };
    let request = "exec 3<>/dev/tcp/127.0.0.1/$0; \
                   printf 'GET %s HTTP/1.0\\r\\n\\r\\n' \"$1\" >&3; cat <&3";
    // A server that accepts and never answers counts as no answer.
    let output = Cable::command(side, "timeout")
        .args(["20", "bash", "-c", request, &port.to_string(), path])
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let answer = String::from_utf8(output.stdout).ok()?;
    answer
        .split_once("\r\n\r\n")
        .map(|(_, body)| body.to_owned())
}
