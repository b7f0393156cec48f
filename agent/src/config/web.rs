//! The file that configures TLS, users and headers of the HTTP server, in the format of the
//! Prometheus exporter toolkit.
//!
//! A setting of the format that this agent does not support is an error that names it, so
//! that no requested protection is silently missing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use bcrypt::HashParts;

use super::demands::Demands;
use super::yaml::{self, Fault, Node};
use super::{ConfigError, small_file};
use crate::config::size::Size;

/// Largest size of a file.
const MAX_SIZE: Size = Size(1 << 20);
/// Highest cost of a bcrypt hash: checking a more expensive one would exceed the time of a
/// scrape.
const MAX_COST: u32 = 16;
/// Message for a file without sections.
const EMPTY: &str = "is empty and may have been truncated; to serve without protection, remove \
                     the key export.web_config";
/// Headers that may be set, and their allowed values; empty for any.
const HEADERS: [(&str, &[&str]); 5] = [
    ("Strict-Transport-Security", &[]),
    ("X-Content-Type-Options", &["nosniff"]),
    ("X-Frame-Options", &["deny", "sameorigin"]),
    ("X-XSS-Protection", &[]),
    ("Content-Security-Policy", &[]),
];

/// Settings of the HTTP server.
#[derive(Debug, Default, Clone)]
pub struct WebConfig {
    /// `None` for HTTP without TLS.
    pub tls: Option<Tls>,
    /// Password hashes by user. If empty, no password is required.
    pub users: BTreeMap<String, String>,
    /// Headers of every response.
    pub headers: Vec<(&'static str, String)>,
    /// What these settings require of clients.
    pub demands: Demands,
}

/// `tls_server_config`
#[derive(Debug, Clone)]
pub struct Tls {
    /// Certificate chain.
    pub cert_file: PathBuf,
    /// Private key.
    pub key_file: PathBuf,
    /// CA that verifies client certificates. `None` if they are not used.
    pub client_ca_file: Option<PathBuf>,
    /// Whether clients must have a certificate.
    pub client_cert_required: bool,
    /// Oldest supported version.
    pub min_version: TlsVersion,
    /// Newest supported version.
    pub max_version: TlsVersion,
    pub prefer_server_cipher_suites: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsVersion {
    Tls12,
    Tls13,
}

impl WebConfig {
    /// Reads a file. Files that it refers to are not opened.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let failed = |why: String| ConfigError::new(path.display(), why);
        let bytes = small_file::read(path, MAX_SIZE)
            .map_err(|error| failed(format!("cannot be read: {error}")))?;
        let text = String::from_utf8(bytes).map_err(|_| failed("is not UTF-8".into()))?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let config = Self::parse(&text, folder).map_err(|fault| {
            let place = format!("{}, line {}", path.display(), fault.line);
            ConfigError::new(place, fault.message)
        })?;
        config.ok_or_else(|| failed(EMPTY.into()))
    }

    /// Parses a file. `None` if it has no section.
    fn parse(text: &str, folder: &Path) -> Result<Option<Self>, Fault> {
        let mut config = Self::default();
        let sections = yaml::parse(text)?.entries("the file")?;
        if sections.is_empty() {
            return Ok(None);
        }
        for (key, node) in sections {
            let explicit = node.is_map();
            match key.as_str() {
                "tls_server_config" => {
                    config.tls = tls(node, folder, &mut config.demands)?;
                    config.demands.set_tls(config.tls.as_ref(), explicit);
                }
                "http_server_config" => config.headers = http(node)?,
                "basic_auth_users" => {
                    config.users = users(node)?;
                    config.demands.set_users(config.users.len(), explicit);
                }
                "rate_limit" => {
                    return Err(unable(&node, &key, "connections are limited as they are"));
                }
                _ => {
                    let known = "tls_server_config, http_server_config or basic_auth_users";
                    return Err(unknown(&node, &key, known));
                }
            }
        }
        Ok(Some(config))
    }
}

fn tls(section: Node, folder: &Path, demands: &mut Demands) -> Result<Option<Tls>, Fault> {
    let line = section.line;
    let (mut cert, mut key, mut client_ca) = (None, None, None);
    let (mut min, mut max, mut auth) = (TlsVersion::Tls12, TlsVersion::Tls13, None);
    let mut prefer_server_cipher_suites = true;
    let mut is_empty = true;
    for (name, node) in section.entries("tls_server_config")? {
        is_empty = false;
        demands.set_explicit(&name);
        let file = |text: String| (!text.is_empty()).then(|| folder.join(text));
        match name.as_str() {
            "cert_file" => cert = file(node.text(&name)?),
            "key_file" => key = file(node.text(&name)?),
            "client_ca_file" => client_ca = file(node.text(&name)?),
            "client_auth_type" => auth = client_auth(&name, node)?,
            "min_version" => min = version(&name, node)?,
            "max_version" => max = version(&name, node)?,
            "prefer_server_cipher_suites" => prefer_server_cipher_suites = node.flag(&name)?,
            "cert" | "key" | "client_ca" => {
                return Err(unable(&node, &name, &format!("name a file: {name}_file")));
            }
            "client_allowed_sans" => {
                let instead = "give certificates of these clients a CA of their own";
                return Err(unable(&node, &name, instead));
            }
            "cipher_suites" | "curve_preferences" => {
                let instead = "only secure ones are offered; leave it out";
                return Err(unable(&node, &name, instead));
            }
            _ => {
                let known = "cert_file, key_file, client_ca_file, client_auth_type, min_version, \
                             max_version or prefer_server_cipher_suites";
                return Err(unknown(&node, &name, known));
            }
        }
    }
    if is_empty {
        return Ok(None);
    }
    let fault = |message: &str| Fault::new(line, format!("tls_server_config: {message}"));
    let cert_file = cert.ok_or_else(|| fault("cert_file is missing"))?;
    let key_file = key.ok_or_else(|| fault("key_file is missing"))?;
    if min > max {
        return Err(fault("min_version is newer than max_version"));
    }
    match (auth, &client_ca) {
        (None, Some(_)) => {
            let message = "client_ca_file has no effect without a client_auth_type: \
                           RequireAndVerifyClientCert or VerifyClientCertIfGiven";
            return Err(fault(message));
        }
        (Some(_), None) => return Err(fault("client_auth_type needs a client_ca_file")),
        _ => {}
    }
    Ok(Some(Tls {
        cert_file,
        key_file,
        client_ca_file: client_ca,
        client_cert_required: auth.unwrap_or(false),
        min_version: min,
        max_version: max,
        prefer_server_cipher_suites,
    }))
}

/// Returns `None` if client certificates are not used, otherwise whether they are required.
fn client_auth(name: &str, node: Node) -> Result<Option<bool>, Fault> {
    let line = node.line;
    let given = node.text(name)?;
    let message = match given.as_str() {
        "" | "NoClientCert" => return Ok(None),
        "VerifyClientCertIfGiven" => return Ok(Some(false)),
        "RequireAndVerifyClientCert" => return Ok(Some(true)),
        "RequestClientCert" | "RequireAnyClientCert" | "RequireClientCert" => {
            "accepts certificates without verifying them, which protects nothing: this agent \
             verifies every client certificate"
        }
        _ => "is unknown",
    };
    let allowed = "NoClientCert, VerifyClientCertIfGiven or RequireAndVerifyClientCert";
    let message = format!("{name}: {given:?} {message}; must be {allowed}");
    Err(Fault::new(line, message))
}

fn version(name: &str, node: Node) -> Result<TlsVersion, Fault> {
    let line = node.line;
    let given = node.text(name)?;
    let why = match given.as_str() {
        "TLS12" => return Ok(TlsVersion::Tls12),
        "TLS13" => return Ok(TlsVersion::Tls13),
        "TLS10" | "TLS11" => "is no longer safe and not supported",
        _ => "is unknown",
    };
    let message = format!("{name}: {given:?} {why}; must be TLS12 or TLS13");
    Err(Fault::new(line, message))
}

fn http(section: Node) -> Result<Vec<(&'static str, String)>, Fault> {
    let mut headers = Vec::new();
    for (name, node) in section.entries("http_server_config")? {
        match name.as_str() {
            "http2" => {
                let line = node.line;
                if node.flag(&name)? {
                    let message = "http2: HTTP/2 is not supported; write false, or leave it out";
                    return Err(Fault::new(line, message));
                }
            }
            "headers" => {
                for (name, node) in node.entries("headers")? {
                    headers.push(header(&name, node)?);
                }
            }
            _ => return Err(unknown(&node, &name, "http2 or headers")),
        }
    }
    Ok(headers)
}

fn header(name: &str, node: Node) -> Result<(&'static str, String), Fault> {
    let known = HEADERS
        .iter()
        .find(|(known, _)| known.eq_ignore_ascii_case(name));
    let Some((known, values)) = known else {
        let all = HEADERS.map(|(known, _)| known).join(", ");
        return Err(unknown(&node, name, &all));
    };
    let line = node.line;
    let value = node.text(name)?;
    let fits = values.is_empty() || values.iter().any(|one| one.eq_ignore_ascii_case(&value));
    if !fits {
        let allowed = values.join(" or ");
        let message = format!("{name}: {value:?}: must be {allowed}");
        return Err(Fault::new(line, message));
    }
    if !value.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        let message = format!("{name}: {value:?} has characters that a header cannot contain");
        return Err(Fault::new(line, message));
    }
    Ok((known, value))
}

fn users(section: Node) -> Result<BTreeMap<String, String>, Fault> {
    let mut users = BTreeMap::new();
    for (user, node) in section.entries("basic_auth_users")? {
        let line = node.line;
        let hash = node.text(&user)?;
        // The message must not contain the text, which may be a plain password.
        let refuse = |why: &str| Err(Fault::new(line, format!("{user}: {why}")));
        let Ok(parts) = HashParts::from_str(&hash) else {
            return refuse("is not a bcrypt hash: make one with htpasswd -nBC 10 \"\"");
        };
        if parts.get_cost() > MAX_COST {
            return refuse("a bcrypt cost above 16 takes longer than a scrape may");
        }
        if user.is_empty() || user.contains(':') {
            return refuse("a user name must not be empty or contain a colon");
        }
        users.insert(user, hash);
    }
    Ok(users)
}

fn unknown(node: &Node, key: &str, allowed: &str) -> Fault {
    Fault::new(node.line, format!("{key}: unknown key, expected {allowed}"))
}

fn unable(node: &Node, key: &str, instead: &str) -> Fault {
    Fault::new(node.line, format!("{key}: not supported; {instead}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "$2y$10$QOauhQNbBCuQDKes6eFzPeMqBSjb7Mr5DUmpZ/VcEd00UAV/LDeSi";

    #[test]
    fn a_file_with_all_supported_settings_is_parsed() {
        let text = format!(
            "tls_server_config:\n  cert_file: a.crt\n  key_file: /etc/a.key\n  client_ca_file: ca\n  \
             client_auth_type: RequireAndVerifyClientCert\n  min_version: TLS13\n  \
             prefer_server_cipher_suites: false\nhttp_server_config:\n  http2: false\n  headers:\n    \
             X-Frame-Options: deny\nbasic_auth_users:\n  alice: {HASH}\n  bob: '{HASH}'\n"
        );
        let config = WebConfig::parse(&text, Path::new("/w")).unwrap().unwrap();
        let tls = config.tls.unwrap();
        assert_eq!(tls.cert_file, Path::new("/w/a.crt"));
        assert_eq!(tls.key_file, Path::new("/etc/a.key"));
        assert_eq!(tls.client_ca_file, Some("/w/ca".into()));
        assert!(tls.client_cert_required && !tls.prefer_server_cipher_suites);
        assert_eq!(tls.min_version, TlsVersion::Tls13);
        assert_eq!(config.headers, [("X-Frame-Options", "deny".to_owned())]);
        assert_eq!(config.users.len(), 2);
        let empty = WebConfig::parse("basic_auth_users:\ntls_server_config: {}\n", Path::new(""));
        let empty = empty.unwrap().unwrap();
        assert!(empty.tls.is_none() && empty.users.is_empty());
        for nothing in ["", "\n", "# basic_auth_users:\n", "---\n"] {
            let nothing = WebConfig::parse(nothing, Path::new("")).unwrap();
            assert!(nothing.is_none());
        }
    }

    /// Wherever a file is truncated, a requirement is never dropped silently.
    #[test]
    fn a_requirement_is_dropped_only_explicitly() {
        let whole = format!(
            "tls_server_config:\n  cert_file: c\n  key_file: k\n  client_ca_file: ca\n  \
             client_auth_type: RequireAndVerifyClientCert\n  min_version: TLS13\n\
             basic_auth_users:\n  alice: {HASH}\n  bob: {HASH}\n"
        );
        let parse = |text: &str| WebConfig::parse(text, Path::new(""));
        let before = parse(&whole).unwrap().unwrap().demands;
        let (mut silent, mut same) = (0, 0);
        for length in 0..whole.len() {
            // Files with errors and empty files are rejected anyway.
            let Ok(Some(cut)) = parse(&whole[..length]) else {
                continue;
            };
            match cut.demands.implicitly_less_than(&before) {
                Some(_) => silent += 1,
                // Truncated at the end of a user's line, or before that line break.
                None => same += 1,
            }
            let less = cut.demands.less_than(&before).is_some();
            assert_eq!(less, cut.demands.implicitly_less_than(&before).is_some());
        }
        assert!(silent > 3 && same > 1, "{silent} {same}");

        let tls = "tls_server_config:\n  cert_file: c\n  key_file: k\n";
        let users = format!("basic_auth_users:\n  carol: {HASH}\n");
        let explicit = "  client_auth_type: NoClientCert\n  min_version: TLS12\n";
        for (text, less, missing) in [
            (
                "tls_server_config: {}\nbasic_auth_users: {}\n".into(),
                true,
                None,
            ),
            (format!("tls_server_config: {{}}\n{users}"), true, None),
            (format!("tls_server_config:\n{users}"), true, Some("TLS")),
            (users.clone(), true, Some("TLS")),
            (
                format!("{tls}{explicit}basic_auth_users: {{}}\n"),
                true,
                None,
            ),
            (
                format!("{tls}{explicit}basic_auth_users:\n"),
                true,
                Some("password"),
            ),
            (format!("{tls}{users}"), true, Some("certificate")),
            (
                whole.replace("  min_version: TLS13\n", ""),
                true,
                Some("TLS 1.3"),
            ),
            (whole.replace("alice", "dora"), false, None),
        ] {
            let demands = parse(&text).unwrap().unwrap().demands;
            assert_eq!(demands.less_than(&before).is_some(), less, "{text}");
            let found = demands.implicitly_less_than(&before).map(|(what, _)| what);
            match missing {
                Some(missing) => assert!(found.unwrap().contains(missing), "{text}"),
                None => assert_eq!(found, None, "{text}"),
            }
        }
    }

    #[test]
    fn faults_name_line_and_key() {
        let tls = "tls_server_config:\n  cert_file: c\n  key_file: k\n  ";
        let cases: [(&str, usize, &str, &str); 16] = [
            ("tls:\n", 1, "tls", "tls_server_config"),
            (
                "tls_server_config:\n  cert_file: c\n",
                1,
                "key_file",
                "missing",
            ),
            (tls, 4, "min_version: SSL30", "TLS12 or TLS13"),
            (tls, 4, "max_version: TLS11", "no longer safe"),
            (tls, 4, "min_version: [TLS12]", "a text"),
            (
                tls,
                4,
                "client_auth_type: RequireAnyClientCert",
                "protects nothing",
            ),
            (
                tls,
                4,
                "client_auth_type: Verify",
                "VerifyClientCertIfGiven",
            ),
            (tls, 1, "client_ca_file: x", "client_auth_type"),
            (
                tls,
                1,
                "client_auth_type: VerifyClientCertIfGiven",
                "client_ca_file",
            ),
            (tls, 4, "cipher_suites: [x]", "leave it out"),
            (tls, 4, "certfile: x", "cert_file"),
            ("http_server_config:\n  http2: true\n", 2, "http2", "HTTP/2"),
            (
                "http_server_config:\n  headers:\n    Server: x\n",
                3,
                "Server",
                "X-Frame-Options",
            ),
            (
                "http_server_config:\n  headers:\n    X-Frame-Options: yes\n",
                3,
                "X-Frame-Options",
                "sameorigin",
            ),
            ("basic_auth_users:\n  a: b\n  c: secret\n", 2, "a", "bcrypt"),
            (
                "basic_auth_users: [a]\n",
                1,
                "basic_auth_users",
                "keys and values",
            ),
        ];
        for (text, line, key, says) in cases {
            let text = match text == tls {
                true => format!("{tls}{key}\n"),
                false => text.to_owned(),
            };
            let fault = WebConfig::parse(&text, Path::new("")).unwrap_err();
            let key = key.split(':').next().unwrap();
            assert!(
                fault.line == line && fault.message.contains(key) && fault.message.contains(says),
                "{text:?}: {} in line {}",
                fault.message,
                fault.line
            );
            assert!(!fault.message.contains("secret"));
        }
        let expensive = HASH.replace("$10$", "$17$");
        let fault = WebConfig::parse(
            &format!("basic_auth_users:\n  a: {expensive}\n"),
            Path::new(""),
        );
        assert!(fault.unwrap_err().message.contains("above 16"));
    }
}
