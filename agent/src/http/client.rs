//! A client of a running agent, over TCP, with or without TLS, or a unix socket.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::DeserializeOwned;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{CertificateError, ClientConnection, Error, StreamOwned};

use super::answers::ErrorAnswer;
use super::{own_certificate, tls};

/// Timeout for a connection attempt and for each read.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Larger answers are errors.
const MOST: u64 = 64 << 20;

/// The address of an agent, and the credentials for it.
pub struct Agent {
    /// `host:port`, a URL, or the path of a socket.
    pub at: String,
    /// User and password.
    pub login: Option<(String, String)>,
    /// CA file that verifies the agent's certificate. `None` for the CAs of this machine.
    pub ca: Option<PathBuf>,
    /// Client certificate and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

pub fn get<T: DeserializeOwned>(
    of: &Agent,
    path: &str,
    parameters: &[(&str, String)],
) -> anyhow::Result<T> {
    let body = get_text(of, path, parameters)?;
    let parsed = serde_json::from_str(&body);
    parsed.map_err(|error| anyhow::anyhow!("{}: {error}", not_an_agent(&of.at, "200")))
}

/// Requests a text from an agent.
pub fn get_text(of: &Agent, path: &str, parameters: &[(&str, String)]) -> anyhow::Result<String> {
    let agent = of.at.as_str();
    let query: Vec<String> = parameters
        .iter()
        .map(|(name, value)| format!("{name}={}", encode(value)))
        .collect();
    let mut request = format!(
        "GET {path}?{} HTTP/1.0\r\nHost: crane-agent\r\n",
        query.join("&")
    );
    if let Some((user, password)) = &of.login {
        let login = STANDARD.encode(format!("{user}:{password}"));
        request += &format!("Authorization: Basic {login}\r\n");
    }
    request += "\r\n";
    let behind = |scheme| {
        let rest = agent.strip_prefix(scheme)?;
        rest.split('/').next()
    };
    let answer = match (behind("https://"), behind("http://")) {
        (Some(address), _) => exchange(of.over_tls(connect(agent, address)?, address)?, &request),
        (None, Some(address)) => exchange(connect(agent, address)?, &request),
        (None, None) if agent.contains('/') => {
            let stream = UnixStream::connect(Path::new(agent));
            let stream = stream.with_context(|| unreachable(agent))?;
            stream.set_read_timeout(Some(TIMEOUT))?;
            exchange(stream, &request)
        }
        (None, None) => exchange(connect(agent, agent)?, &request),
    };
    let hint = match agent.starts_with("https://") {
        true => "",
        false => " (one with TLS is asked at https://…)",
    };
    let answer = answer.with_context(|| format!("the agent at {agent} broke off{hint}"))?;
    let (head, body) = answer
        .split_once("\r\n\r\n")
        .with_context(|| format!("{agent} gives no HTTP answer{hint}"))?;
    let status = head.split(' ').nth(1).unwrap_or_default();
    let announced = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_length = name.eq_ignore_ascii_case("content-length");
        value.trim().parse::<usize>().ok().filter(|_| is_length)
    });
    if announced.is_some_and(|length| length != body.len()) {
        bail!(
            "the answer of {agent} is longer than {} MiB or broke off",
            MOST >> 20
        );
    }
    if status != "200" {
        let refusal = serde_json::from_str(body);
        let refusal: ErrorAnswer =
            refusal.map_err(|_| anyhow::anyhow!(not_an_agent(agent, status)))?;
        bail!("{}", refusal.error);
    }
    Ok(body.to_owned())
}

fn not_an_agent(agent: &str, status: &str) -> String {
    format!(
        "{agent} is not a crane-agent (HTTP status {status}): check the port. The default is 9732; \
         the agent writes its addresses to the log"
    )
}

fn unreachable(agent: &str) -> String {
    format!(
        "no agent answers at {agent}; is it running? start one with `crane-agent run`, or name \
         another with --agent"
    )
}

fn connect(agent: &str, address: &str) -> anyhow::Result<TcpStream> {
    let addresses = address.to_socket_addrs().with_context(|| {
        let port = address
            .rsplit_once(':')
            .map(|(_, port)| port.parse::<u16>());
        match port {
            Some(Ok(_)) => format!("the host of {agent} is not known: check its name"),
            _ => format!("{agent:?} is not host:port: write it like 127.0.0.1:9732"),
        }
    })?;
    let mut refused = None;
    let mut stream = None;
    for address in addresses {
        match TcpStream::connect_timeout(&address, TIMEOUT) {
            Ok(connected) => {
                stream = Some(connected);
                break;
            }
            Err(error) => refused = Some(error),
        }
    }
    let stream = match (stream, refused) {
        (Some(stream), _) => stream,
        (None, Some(error)) => return Err(error).with_context(|| unreachable(agent)),
        (None, None) => bail!(unreachable(agent)),
    };
    stream.set_read_timeout(Some(TIMEOUT))?;
    Ok(stream)
}

impl Agent {
    /// Starts TLS on a connection.
    fn over_tls(
        &self,
        mut stream: TcpStream,
        address: &str,
    ) -> anyhow::Result<StreamOwned<ClientConnection, TcpStream>> {
        let identity = self.identity.as_ref();
        let identity = identity.map(|(cert, key)| (cert.as_path(), key.as_path()));
        let config = tls::client(self.ca.as_deref(), identity);
        // An error in a local file is not a configuration error of the agent.
        let config = config.map_err(|error| anyhow::anyhow!("{error:#}"))?;
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let host = host.trim_matches(['[', ']']).to_owned();
        let mut connection = ClientConnection::new(config, ServerName::try_from(host)?)?;
        while connection.is_handshaking() {
            let done = connection.complete_io(&mut stream);
            done.map_err(|error| {
                let (at, advice) = (&self.at, self.advice(&error));
                anyhow::Error::new(error).context(format!("no TLS with the agent at {at}{advice}"))
            })?;
        }
        Ok(StreamOwned::new(connection, stream))
    }

    /// A hint about a failed handshake.
    fn advice(&self, error: &std::io::Error) -> &'static str {
        let error = error.get_ref().and_then(|error| error.downcast_ref());
        match (error, &self.ca) {
            (Some(error), _) if own_certificate::may_sign(error) => {
                ": its certificate is its own authority (self-signed). Copy that file from the \
                 agent and name it with --ca FILE"
            }
            (Some(Error::InvalidCertificate(CertificateError::UnknownIssuer)), None) => {
                ": name the certificate of the authority that has signed its own with --ca FILE"
            }
            (Some(Error::InvalidCertificate(CertificateError::UnknownIssuer)), Some(_)) => {
                ": the file of --ca is neither its certificate nor that of the authority that \
                 has signed it"
            }
            (
                Some(Error::InvalidCertificate(CertificateError::NotValidForNameContext {
                    ..
                })),
                _,
            ) => ": ask it by a name or an address that its certificate has as a subjectAltName",
            (Some(Error::InvalidCertificate(_)), _) => "",
            _ => " (one without it is asked at http://…)",
        }
    }
}

fn exchange(mut stream: impl Read + Write, request: &str) -> std::io::Result<String> {
    // In HTTP/1.0 the end of the connection ends an answer, so there are no chunks.
    stream.write_all(request.as_bytes())?;
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
