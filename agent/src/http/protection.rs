//! The protection of the TCP addresses, read from a file that may change.
//!
//! The file and the certificates it names are checked for changes when a connection arrives, at
//! most once a second. If the new file is damaged or has weaker requirements, it is not adopted:
//! the error is logged, and the previous protection stays in force. Only a reload can weaken it,
//! and only if the file says so explicitly (see [`Demands`]), so that a truncated file never
//! removes it.

use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use axum::Json;
use axum::http::header::{AUTHORIZATION, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use parking_lot::Mutex;
use tokio_rustls::TlsAcceptor;

use super::answers::ErrorAnswer;
use super::passwords::{Full, Passwords, Users};
use super::tls;
use crate::config::ConfigError;
use crate::config::demands::Demands;
use crate::config::web::WebConfig;
use crate::export::agent;
use crate::process::log::RateLimit;

/// Pause between two checks of the files.
const PAUSE: Duration = Duration::from_secs(1);

/// What the file requires of a connection.
pub struct WebPolicy {
    /// The TLS acceptor, if TLS is configured.
    pub tls: Option<TlsAcceptor>,
    users: Option<Arc<Users>>,
    headers: Vec<(HeaderName, HeaderValue)>,
    demands: Demands,
}

/// The file, and the policy that is in force.
pub struct Protection {
    path: PathBuf,
    policy: ArcSwap<WebPolicy>,
    passwords: Passwords,
    watch: Mutex<Watch>,
}

/// Files and their state when they were last read.
struct Watch {
    due: Instant,
    files: Files,
    /// The last error that was logged.
    last_error: String,
    log_limit: RateLimit,
}

/// The file and those that it names, with their state just before they were read, so that every
/// later change is noticed.
type Files = Vec<(PathBuf, Stamp)>;

/// A protection that is ready to be put into force.
pub struct PreparedProtection {
    protection: Arc<Protection>,
    /// The new content of the file, if the protection exists already.
    reading: Option<(Files, WebPolicy)>,
}

/// Identifies a version of a file: device, inode, size, time. `None` if there is no file.
type Stamp = Option<[i64; 5]>;

fn stamp(path: &Path) -> Stamp {
    let meta = fs::metadata(path).ok()?;
    let [device, inode, size] = [meta.dev(), meta.ino(), meta.size()].map(u64::cast_signed);
    Some([device, inode, size, meta.mtime(), meta.mtime_nsec()])
}

impl WebPolicy {
    /// Reads the file and all it names.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        Self::of(WebConfig::read(path)?)
    }

    fn of(config: WebConfig) -> anyhow::Result<Self> {
        let demands = config.demands;
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
            demands,
        })
    }

    /// Keeps the cache of known passwords if the users are unchanged.
    fn keep_users(&mut self, before: &Self) {
        if let (Some(users), Some(before)) = (&mut self.users, &before.users)
            && users.are(before)
        {
            *users = Arc::clone(before);
        }
    }

    pub fn has_users(&self) -> bool {
        self.users.is_some()
    }

    /// Adds the configured headers to an answer. Headers that it already has stay:
    /// the page sets its own content security policy.
    pub fn set_headers(&self, headers: &mut HeaderMap) {
        for (name, value) in &self.headers {
            headers.entry(name).or_insert_with(|| value.clone());
        }
    }
}

impl Protection {
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let (files, policy) = read(path);
        let protection = Self::new(path, files, policy?)?;
        agent::web_config_was_read(true);
        Ok(protection)
    }

    fn new(path: &Path, files: Files, policy: WebPolicy) -> anyhow::Result<Self> {
        Ok(Self {
            path: path.into(),
            policy: ArcSwap::from_pointee(policy),
            passwords: Passwords::start()?,
            watch: Mutex::new(Watch {
                due: Instant::now() + PAUSE,
                files,
                last_error: String::new(),
                log_limit: RateLimit::default(),
            }),
        })
    }

    /// The policy in force; reads changed files at most once a second.
    pub fn policy(&self) -> Arc<WebPolicy> {
        let mut watch = self.watch.lock();
        let now = Instant::now();
        if now >= watch.due {
            watch.due = now + PAUSE;
            if watch.files.iter().any(|(path, was)| stamp(path) != *was) {
                self.read_changed(&mut watch);
            }
        }
        self.policy.load_full()
    }

    /// Reads files that have changed.
    fn read_changed(&self, watch: &mut Watch) {
        let (files, policy) = read(&self.path);
        watch.files = files;
        let adopted = policy.and_then(|policy| {
            let less = policy.demands.less_than(&self.policy.load().demands);
            if let Some(less) = less {
                anyhow::bail!(
                    "{}: without a reload (SIGHUP) a change does not end {less}",
                    self.path.display()
                );
            }
            self.adopt(policy);
            Ok(())
        });
        agent::web_config_was_read(adopted.is_ok());
        match adopted {
            Ok(()) => {
                watch.last_error.clear();
                tracing::info!("{} was read again", self.path.display());
            }
            Err(error) => {
                let last_error = format!("{error:#}");
                let is_due = watch.log_limit.allows();
                if is_due || watch.last_error != last_error {
                    tracing::error!(
                        "the file of export.web_config is not applied, the protection stays as it was: \
                         {last_error}"
                    );
                    watch.last_error = last_error;
                }
            }
        }
    }

    fn adopt(&self, mut policy: WebPolicy) {
        policy.keep_users(&self.policy.load());
        self.policy.store(Arc::new(policy));
    }

    /// Returns the refusal of a request; `None` if it may be answered.
    pub async fn refuse(
        &self,
        policy: &WebPolicy,
        peer: IpAddr,
        headers: &HeaderMap,
    ) -> Option<Response> {
        let users = policy.users.as_ref()?;
        let header = headers.get(AUTHORIZATION);
        let checked = self.passwords.check(users, peer, header).await;
        let (status, (name, value), error) = match checked {
            Ok(true) => return None,
            Ok(false) => (
                StatusCode::UNAUTHORIZED,
                (WWW_AUTHENTICATE, "Basic realm=\"crane-agent\""),
                "authentication failed: check user and password",
            ),
            Err(Full::Peer) => (
                StatusCode::TOO_MANY_REQUESTS,
                (RETRY_AFTER, "1"),
                "too many passwords from this address wait to be checked",
            ),
            Err(Full::All) => (
                StatusCode::SERVICE_UNAVAILABLE,
                (RETRY_AFTER, "1"),
                "too many passwords wait to be checked",
            ),
        };
        let error = error.to_owned();
        Some((status, [(name, value)], Json(ErrorAnswer { error })).into_response())
    }
}

impl PreparedProtection {
    /// Reads the file on a reload. It may have weaker requirements than `before` only if it says so
    /// explicitly.
    pub fn read(path: &Path, before: Option<Arc<Protection>>) -> anyhow::Result<Self> {
        let (files, policy) = read(path);
        let policy = policy?;
        if let Some(before) = &before
            && let Some((what, words)) = policy
                .demands
                .implicitly_less_than(&before.policy.load().demands)
        {
            let why = format!(
                "does not say that {what} ends, so it may have been cut off; write `{words}` to \
                 end it, or remove the key export.web_config to end all protection"
            );
            return Err(ConfigError::new(path.display(), why).into());
        }
        Ok(match before {
            Some(protection) if protection.path == path => Self {
                protection,
                reading: Some((files, policy)),
            },
            _ => Self {
                protection: Arc::new(Protection::new(path, files, policy)?),
                reading: None,
            },
        })
    }

    /// Puts the protection into force.
    pub fn adopt(self) -> Arc<Protection> {
        if let Some((files, policy)) = self.reading {
            let mut watch = self.protection.watch.lock();
            watch.files = files;
            watch.last_error.clear();
            self.protection.adopt(policy);
        }
        agent::web_config_was_read(true);
        self.protection
    }
}

/// Reads the files; their stamps are taken before reading.
fn read(path: &Path) -> (Files, anyhow::Result<WebPolicy>) {
    let mut files = vec![(path.to_owned(), stamp(path))];
    let config: Result<WebConfig, ConfigError> = WebConfig::read(path);
    if let Some(tls) = config.as_ref().ok().and_then(|config| config.tls.as_ref()) {
        let named = [&tls.cert_file, &tls.key_file];
        for path in named.into_iter().chain(&tls.client_ca_file) {
            files.push((path.clone(), stamp(path)));
        }
    }
    (files, config.map_err(Into::into).and_then(WebPolicy::of))
}
