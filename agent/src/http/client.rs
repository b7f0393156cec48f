//! Asking a running agent, over TCP or a unix socket.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use serde::de::DeserializeOwned;

use super::answers::ErrorAnswer;

/// How long the agent may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// More than any honest answer.
const MOST: u64 = 64 << 20;

/// Asks the agent at `host:port`, which may be an address for browsers, or at the
/// path of a socket.
pub fn get<T: DeserializeOwned>(
    agent: &str,
    path: &str,
    parameters: &[(&str, String)],
) -> anyhow::Result<T> {
    let query: Vec<String> = parameters
        .iter()
        .map(|(name, value)| format!("{name}={}", encode(value)))
        .collect();
    let target = format!("{path}?{}", query.join("&"));
    anyhow::ensure!(
        !agent.starts_with("https://"),
        "{agent}: agents have no TLS; write http://"
    );
    let address = agent
        .strip_prefix("http://")
        .map(|rest| rest.split('/').next().unwrap_or_default());
    let answer = if address.is_none() && agent.contains('/') {
        let stream = UnixStream::connect(Path::new(agent));
        let stream = stream.with_context(|| unreachable(agent))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        exchange(stream, &target)
    } else {
        let addresses = address.unwrap_or(agent).to_socket_addrs();
        let addresses = addresses.with_context(|| format!("{agent:?} is not host:port"))?;
        let mut streams = addresses.map(|address| TcpStream::connect_timeout(&address, PATIENCE));
        let stream = streams
            .find_map(Result::ok)
            .with_context(|| unreachable(agent))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        exchange(stream, &target)
    };
    let answer = answer.with_context(|| format!("the agent at {agent} broke off"))?;
    let (head, body) = answer
        .split_once("\r\n\r\n")
        .context("not an HTTP answer")?;
    let status = head.split(' ').nth(1).unwrap_or_default();
    let foreign = || format!("{agent} does not answer as an agent does (status {status})");
    if status != "200" {
        let refusal: ErrorAnswer = serde_json::from_str(body).with_context(foreign)?;
        bail!("{}", refusal.error);
    }
    serde_json::from_str(body).with_context(foreign)
}

fn unreachable(agent: &str) -> String {
    format!("no agent answers at {agent}; is it running? name another with --agent")
}

fn exchange(mut stream: impl Read + Write, target: &str) -> std::io::Result<String> {
    // In HTTP/1.0 an answer ends with the connection: no chunks to put together.
    write!(stream, "GET {target} HTTP/1.0\r\nHost: crane-agent\r\n\r\n")?;
    let mut answer = String::new();
    stream.take(MOST).read_to_string(&mut answer)?;
    Ok(answer)
}

fn encode(value: &str) -> String {
    let mut encoded = String::with_capacity(value.len());
    for byte in value.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(byte as char)
            }
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}
