//! How the TCP addresses are protected, by a file that may change.
//!
//! The file and the certificates it names are looked at when a connection comes,
//! once a second at most. Whatever is wrong with them then is said once, and what
//! was there before stays: a half-written file neither opens nor closes the agent.

use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use axum::Json;
use axum::http::header::{AUTHORIZATION, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use tokio_rustls::TlsAcceptor;

use super::answers::ErrorAnswer;
use super::passwords::{Passwords, Users, Verdict};
use super::tls;
use crate::config::ConfigError;
use crate::config::web::WebConfig;

/// How often files are looked at.
const PAUSE: Duration = Duration::from_secs(1);

/// What holds for a connection.
pub struct Rules {
    /// Speaks TLS, if it is spoken.
    pub tls: Option<TlsAcceptor>,
    users: Option<Arc<Users>>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

/// The file and what it says.
pub struct Protection {
    path: PathBuf,
    rules: ArcSwap<Rules>,
    passwords: Passwords,
    watch: Mutex<Watch>,
}

/// Files that were looked at, and what they were then.
struct Watch {
    due: Instant,
    files: Vec<(PathBuf, Stamp)>,
}

/// What changes with a file: device, inode, size, time; none if there is no file.
type Stamp = Option<[i64; 5]>;

fn stamp(path: &Path) -> Stamp {
    let meta = fs::metadata(path).ok()?;
    let [device, inode, size] = [meta.dev(), meta.ino(), meta.size()].map(u64::cast_signed);
    Some([device, inode, size, meta.mtime(), meta.mtime_nsec()])
}

impl Rules {
    /// Reads the file and all it names.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        Self::of(WebConfig::read(path)?)
    }

    fn of(config: WebConfig) -> anyhow::Result<Self> {
        let tls = config.tls.as_ref().map(tls::server).transpose()?;
        let users = match config.users.is_empty() {
            true => None,
            false => Some(Arc::new(Users::new(config.users)?)),
        };
        let headers = config.headers.into_iter().map(|(name, value)| {
            let name = HeaderName::from_bytes(name.as_bytes())?;
            Ok((name, HeaderValue::try_from(value)?))
        });
        Ok(Self {
            tls: tls.map(TlsAcceptor::from),
            users,
            headers: headers.collect::<anyhow::Result<_>>()?,
        })
    }

    /// Users who are the same as before are still known.
    fn keep_users(&mut self, before: &Self) {
        if let (Some(users), Some(before)) = (&mut self.users, &before.users)
            && users.are(before)
        {
            *users = Arc::clone(before);
        }
    }

    /// Sets the headers of an answer. What it says itself stays: the page knows best
    /// what it may do.
    pub fn dress(&self, headers: &mut HeaderMap) {
        for (name, value) in &self.headers {
            headers.entry(name).or_insert_with(|| value.clone());
        }
    }
}

impl Protection {
    /// Reads the file.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let (files, rules) = read(path);
        Ok(Self {
            path: path.into(),
            rules: ArcSwap::from_pointee(rules?),
            passwords: Passwords::start()?,
            watch: Mutex::new(Watch {
                due: Instant::now() + PAUSE,
                files,
            }),
        })
    }

    /// Whether it is this file.
    pub fn is_from(&self, path: &Path) -> bool {
        self.path == path
    }

    /// Has the files looked at when the next connection comes.
    pub fn look_again(&self) {
        let mut watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        watch.due = Instant::now();
    }

    /// What holds now.
    pub fn rules(&self) -> Arc<Rules> {
        let mut watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if now >= watch.due {
            watch.due = now + PAUSE;
            if watch.files.iter().any(|(path, was)| stamp(path) != *was) {
                let (files, rules) = read(&self.path);
                watch.files = files;
                match rules {
                    Ok(mut rules) => {
                        rules.keep_users(&self.rules.load());
                        tracing::info!("{} was read again", self.path.display());
                        self.rules.store(Arc::new(rules));
                    }
                    Err(error) => {
                        tracing::warn!("what protected the addresses stays as it was: {error:#}");
                    }
                }
            }
        }
        self.rules.load_full()
    }

    /// Why a request is not answered; none if it is.
    pub async fn refuse(
        &self,
        rules: &Rules,
        peer: IpAddr,
        headers: &HeaderMap,
    ) -> Option<Response> {
        let users = rules.users.as_ref()?;
        let header = headers.get(AUTHORIZATION);
        let verdict = self.passwords.verdict(users, peer, header).await;
        let (status, (name, value), error) = match verdict {
            Verdict::Welcome => return None,
            Verdict::Wrong => (
                StatusCode::UNAUTHORIZED,
                (WWW_AUTHENTICATE, "Basic realm=\"crane-agent\""),
                "this agent wants the name of a user and the right password",
            ),
            Verdict::PeerBusy => (
                StatusCode::TOO_MANY_REQUESTS,
                (RETRY_AFTER, "1"),
                "too many passwords from this address wait to be checked",
            ),
            Verdict::AllBusy => (
                StatusCode::SERVICE_UNAVAILABLE,
                (RETRY_AFTER, "1"),
                "too many passwords wait to be checked",
            ),
        };
        let error = error.to_owned();
        Some((status, [(name, value)], Json(ErrorAnswer { error })).into_response())
    }
}

/// What the files say, and what they were just before that: a change meanwhile is
/// one that is still to come.
fn read(path: &Path) -> (Vec<(PathBuf, Stamp)>, anyhow::Result<Rules>) {
    let mut files = vec![(path.to_owned(), stamp(path))];
    let config: Result<WebConfig, ConfigError> = WebConfig::read(path);
    if let Some(tls) = config.as_ref().ok().and_then(|config| config.tls.as_ref()) {
        let named = [&tls.cert_file, &tls.key_file];
        for path in named.into_iter().chain(&tls.client_ca_file) {
            files.push((path.clone(), stamp(path)));
        }
    }
    (files, config.map_err(Into::into).and_then(Rules::of))
}
