//! The page of the agent, and the page that a replay writes: one document that loads
//! nothing else, in which text from the network never becomes markup.
#![allow(clippy::unwrap_used)]

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use common::{AGENT, Running, address, agent, eventually, frame, get, stderr, write_pcap};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// An agent that has replayed a capture and serves it.
fn serving(folder: &Path, args: &[&str]) -> (Running, u16) {
    let frames = vec![frame(address(1), address(2), 100); 50];
    write_pcap(&folder.join("small.pcap"), &frames);
    common::serving(folder, "small.pcap", args)
}

/// The head of an answer in lower case, and its body.
fn answer(port: u16, path: &str, header: &str) -> (String, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: localhost\r\n{header}\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

/// What is between the tags of an element.
fn between<'a>(page: &'a str, open: &str, close: &str) -> &'a str {
    let (_, rest) = page.split_once(open).unwrap();
    rest.split_once(close).unwrap().0
}

fn hash(text: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text)))
}

/// Checks that a page loads nothing from elsewhere. Names of formats are not loaded.
fn check_self_contained(page: &str) {
    let known = ["http://www.w3.org/2000/svg"];
    for scheme in ["http://", "https://"] {
        for (at, _) in page.match_indices(scheme) {
            let rest = &page[at..];
            assert!(
                known.iter().any(|name| rest.starts_with(name)),
                "{}",
                &rest[..60]
            );
        }
    }
    for attribute in [" src=", "@import", "url("] {
        assert!(!page.contains(attribute), "{attribute}");
    }
    assert!(!page.contains(" style=\""), "the policy forbids it");
    assert!(page.len() < 250 << 10, "{}", page.len());
}

#[test]
fn the_page_allows_only_its_own_scripts_and_its_own_agent() {
    let folder = tempfile::tempdir().unwrap();
    let (_running, port) = serving(folder.path(), &[]);
    let (head, page) = answer(port, "/", "");
    let head_of = |name: &str| {
        let mut lines = head.lines().filter_map(|line| line.split_once(": "));
        let found = lines.find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.unwrap_or_else(|| panic!("no {name} in {head}")).1
    };
    assert_eq!(head_of("content-type"), "text/html; charset=utf-8");
    assert_eq!(head_of("x-content-type-options"), "nosniff");
    assert_eq!(head_of("referrer-policy"), "no-referrer");
    assert_eq!(head_of("cache-control"), "no-cache");
    let policy: Vec<&str> = head_of("content-security-policy").split("; ").collect();
    let script = hash(between(&page, "<script>", "</script>"));
    let style = hash(between(&page, "<style>", "</style>"));
    assert_eq!(
        policy,
        [
            "default-src 'none'",
            &format!("style-src {style}"),
            &format!("script-src {script}"),
            "connect-src 'self'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        ]
    );
    check_self_contained(&page);
    assert!(!between(&page, "<script>", "</script>").contains("innerHTML"));
}

#[test]
fn the_page_is_behind_the_password() {
    let folder = tempfile::tempdir().unwrap();
    let hash = bcrypt::hash("open sesame", 4).unwrap();
    let web = format!(
        "basic_auth_users:\n  me: {hash}\nhttp_server_config:\n  headers:\n    \
         Content-Security-Policy: default-src *\n    X-Frame-Options: deny\n"
    );
    std::fs::write(folder.path().join("web.yml"), web).unwrap();
    let config = "[export]\nweb_config = \"web.yml\"\n";
    std::fs::write(folder.path().join("agent.toml"), config).unwrap();
    let (_running, port) = serving(folder.path(), &["-c", "agent.toml"]);
    let (head, body) = answer(port, "/", "");
    assert!(head.starts_with("HTTP/1.1 401 "), "{head}");
    assert!(!body.contains("<html"), "{body}");
    let login = STANDARD.encode("me:open sesame");
    let (head, body) = answer(port, "/", &format!("Authorization: Basic {login}\r\n"));
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert!(body.contains("<html"));
    // Headers of the file are added, but do not replace those of the page.
    assert!(
        head.to_lowercase().contains("x-frame-options: deny"),
        "{head}"
    );
    assert!(!head.contains("default-src *"), "{head}");
}

#[test]
fn the_queries_of_the_page_are_answered() {
    let folder = tempfile::tempdir().unwrap();
    let (_running, port) = serving(folder.path(), &[]);
    let ask = |path: &str| -> (String, Value) {
        let (status, body) = get(port, path).unwrap();
        (status, serde_json::from_str(&body).unwrap())
    };
    let (_, all) = ask("/api/v1/interfaces?interface=small.pcap");
    assert_eq!(all["interfaces"][0]["current"]["distinct_pairs"], 1);
    assert_eq!(all["interfaces"][0]["current"]["exact"], true);
    assert_eq!(all["version"], env!("CARGO_PKG_VERSION"));
    let (status, _) = ask("/api/v1/interfaces?interface=eth9");
    assert!(status.contains("400"), "{status}");

    let (_, lists) = ask("/api/v1/heavy-hitters?interface=small.pcap&top=200");
    assert_eq!(lists["interfaces"][0]["pairs"][0]["packets"], 50);
    for (wrong, says) in [
        ("top=0&interface=small.pcap", "1 to 500"),
        ("top=501&interface=small.pcap", "1 to 500"),
    ] {
        let (status, answer) = ask(&format!("/api/v1/heavy-hitters?{wrong}"));
        assert!(status.contains("400"), "{status}");
        assert!(answer["error"].as_str().unwrap().contains(says), "{answer}");
    }

    let (_, sketch) = ask("/api/v1/sketch?interface=small.pcap");
    let pairs = &sketch["interfaces"][0]["sketches"]["pairs"];
    assert_eq!(pairs["kind"], "table");
    assert_eq!(pairs["distinct"], 1);
    assert_eq!(pairs["named"], 1);
    let (memory, budget) = (&pairs["memory_bytes"], &pairs["budget_bytes"]);
    assert!(
        memory.as_u64().unwrap() <= budget.as_u64().unwrap(),
        "{pairs}"
    );

    // The first point exists after five seconds.
    let history = eventually("a point", || {
        let (_, history) = ask("/api/v1/history?interface=small.pcap&points=10");
        history["end"].is_f64().then_some(history)
    });
    assert_eq!(history["step_seconds"], 5.0);
    assert_eq!(history["interfaces"][0]["packets"][0], 50);
    assert_eq!(history["interfaces"][0]["dropped"][0], 0);
    let (status, _) = ask("/api/v1/history?points=181");
    assert!(status.contains("400"), "{status}");
}

/// Twenty thousand pairs in a sketch with slots for a few hundred.
#[test]
fn a_full_sketch_reports_its_fill_and_the_coverage_of_its_intervals() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("crowd.pcap");
    let frames: Vec<Vec<u8>> = (0..20_000)
        .map(|n| frame(address(n), address(1 << 20 | n), 10))
        .collect();
    write_pcap(&path, &frames);
    let config = folder.path().join("agent.toml");
    std::fs::write(&config, "[sketch]\nmemory = \"256KiB\"\n").unwrap();
    let page = folder.path().join("out.html");
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let [path, config, out] = [&path, &config, &page].map(|path| text(path));
    let output = agent(&["replay", &path, "-c", &config, "--report", &out]);
    assert!(output.status.success(), "{}", stderr(&output));
    let page = std::fs::read_to_string(page).unwrap();
    let data = between(&page, "id=\"data\">", "</script>");
    let data: Value = serde_json::from_str(data).unwrap();
    let pairs = &data["captures"][0]["sketch"]["pairs"];
    assert_eq!(pairs["kind"], "layers");
    let fill: Vec<f64> = serde_json::from_value(pairs["fill"].clone()).unwrap();
    assert_eq!(fill.len(), 3, "{pairs}");
    assert!(
        fill[0] > 0.3 && fill.iter().all(|share| (0.0..=1.0).contains(share)),
        "{fill:?}"
    );
    let distinct = pairs["distinct"].as_u64().unwrap();
    assert!((15_000..25_000).contains(&distinct), "{distinct}");
    let number = |value: &Value| value.as_f64().unwrap();
    let (held, of) = (
        number(&pairs["judged"]["held"]),
        number(&pairs["judged"]["of"]),
    );
    assert!(of > 10.0 && held / of > 0.8 && held <= of, "{pairs}");
    assert!(
        number(&pairs["named"]) <= number(&pairs["places"]),
        "{pairs}"
    );
}

#[test]
fn longer_lists_are_anonymised_as_well() {
    let folder = tempfile::tempdir().unwrap();
    let config = "[export]\nanonymise = \"prefix\"\n";
    std::fs::write(folder.path().join("agent.toml"), config).unwrap();
    let (_running, port) = serving(folder.path(), &["-c", "agent.toml"]);
    let path = "/api/v1/heavy-hitters?interface=small.pcap&top=50";
    let (_, body) = get(port, path).unwrap();
    assert!(body.contains("\"10.0.0.0\""), "{body}");
    assert!(
        !body.contains("10.0.0.1\"") && !body.contains("10.0.0.2\""),
        "{body}"
    );
}

#[test]
fn a_written_report_contains_the_capture() {
    let folder = tempfile::tempdir().unwrap();
    let frames: Vec<Vec<u8>> = (0..200)
        .map(|n| frame(address(1 + n / 120), address(9), 100))
        .collect();
    let file = "office.pcap";
    write_pcap(&folder.path().join(file), &frames);
    // A name that would end the script element that contains it.
    std::fs::write(folder.path().join("networks.csv"), "10.0.0.0/8,</script>\n").unwrap();
    std::fs::write(
        folder.path().join("a.toml"),
        "names_file = \"networks.csv\"\n",
    )
    .unwrap();
    let replay = |args: &[&str]| {
        let mut command = Command::new(AGENT);
        command.args(["replay", file]).args(args);
        command.current_dir(folder.path()).output().unwrap()
    };
    let table = replay(&["-c", "a.toml", "--window", "100ms"]);
    let output = replay(&["-c", "a.toml", "--window", "100ms", "--report", "out.html"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let lines = |output: &[u8]| -> Vec<String> {
        let text = String::from_utf8_lossy(output).into_owned();
        let lines = text.lines().filter(|line| !line.starts_with("read in"));
        lines.map(str::to_owned).collect()
    };
    assert_eq!(
        lines(&table.stdout),
        lines(&output.stdout),
        "writing a page does not change the table"
    );

    let page = std::fs::read_to_string(folder.path().join("out.html")).unwrap();
    let data = between(
        &page,
        "<script type=\"application/json\" id=\"data\">",
        "</script>",
    );
    assert!(!data.contains('<'), "{data}");
    let data: Value = serde_json::from_str(data).unwrap();
    let capture = &data["captures"][0];
    assert_eq!(capture["path"], file);
    assert_eq!(capture["top"][0]["src_name"], "</script>");
    assert_eq!(capture["top"][0]["packets"], 120);
    assert_eq!(capture["windows"].as_array().unwrap().len(), 2);
    assert_eq!(capture["sketch"]["pairs"]["kind"], "table");
    let meta = between(
        &page,
        "<meta http-equiv=\"Content-Security-Policy\" content=\"",
        "\">",
    );
    assert!(meta.contains("connect-src 'none'"), "{meta}");
    assert!(
        meta.contains(&hash(between(&page, "<script>", "</script>"))),
        "{meta}"
    );
    check_self_contained(&page);

    // An existing file is replaced, also by a shorter one.
    let path = folder.path().join("out.html");
    std::fs::write(&path, "x".repeat(1 << 20)).unwrap();
    assert!(replay(&["--report", "out.html"]).status.success());
    let page = std::fs::read_to_string(&path).unwrap();
    assert!(page.len() < 250 << 10 && page.trim_end().ends_with("</html>"));
}

#[test]
fn a_report_that_cannot_be_written_is_an_error_before_the_replay() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("missing/out.html");
    let pcap = folder.path().join("a.pcap");
    write_pcap(&pcap, &[frame(address(1), address(2), 100)]);
    let output = agent(&[
        "replay",
        pcap.to_str().unwrap(),
        "--report",
        path.to_str().unwrap(),
    ]);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    assert!(
        stderr(&output).contains("cannot write"),
        "{}",
        stderr(&output)
    );
}
