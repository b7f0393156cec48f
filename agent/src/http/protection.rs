//! How the TCP addresses are protected, by a file that may change.
//!
//! The file and the certificates it names are looked at when a connection comes,
//! once a second at most. A file that is damaged, or that demands less of those who
//! connect, is not adopted then: the error is logged, and what was in force stays in
//! force. Only a reload lowers the protection, and only by a file that says so in words
//! (see [`Demands`]): one that was cut off never opens the agent.

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
use crate::config::demands::Demands;
use crate::config::web::WebConfig;
use crate::export::agent;
use crate::log::RateLimit;

/// How often files are looked at.
const PAUSE: Duration = Duration::from_secs(1);

/// What holds for a connection.
pub struct Rules {
    /// Speaks TLS, if it is spoken.
    pub tls: Option<TlsAcceptor>,
    users: Option<Arc<Users>>,
    headers: Vec<(HeaderName, HeaderValue)>,
    demands: Demands,
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
    files: Files,
    /// What was wrong with them last.
    complaint: String,
    complaints: RateLimit,
}

/// The file and those that it names, as they were just before they were read: a change
/// since then is one that is still to come.
type Files = Vec<(PathBuf, Stamp)>;

/// What protects the addresses after a reload.
pub struct Prepared {
    protection: Arc<Protection>,
    /// What the file says by now, if the protection is already in force.
    reading: Option<(Files, Rules)>,
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

    /// Users who are the same as before are still known.
    fn keep_users(&mut self, before: &Self) {
        if let (Some(users), Some(before)) = (&mut self.users, &before.users)
            && users.are(before)
        {
            *users = Arc::clone(before);
        }
    }

    /// Whether a password is asked for.
    pub fn has_users(&self) -> bool {
        self.users.is_some()
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
        let protection = Self::new(path, files, rules?)?;
        agent::web_config_was_read(true);
        Ok(protection)
    }

    fn new(path: &Path, files: Files, rules: Rules) -> anyhow::Result<Self> {
        Ok(Self {
            path: path.into(),
            rules: ArcSwap::from_pointee(rules),
            passwords: Passwords::start()?,
            watch: Mutex::new(Watch {
                due: Instant::now() + PAUSE,
                files,
                complaint: String::new(),
                complaints: RateLimit::default(),
            }),
        })
    }

    /// What holds now.
    pub fn rules(&self) -> Arc<Rules> {
        let mut watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if now >= watch.due {
            watch.due = now + PAUSE;
            if watch.files.iter().any(|(path, was)| stamp(path) != *was) {
                self.read_changed(&mut watch);
            }
        }
        self.rules.load_full()
    }

    /// Reads files that have changed by themselves.
    fn read_changed(&self, watch: &mut Watch) {
        let (files, rules) = read(&self.path);
        watch.files = files;
        let adopted = rules.and_then(|rules| {
            let less = rules.demands.less_than(&self.rules.load().demands);
            if let Some(less) = less {
                anyhow::bail!(
                    "{}: without a reload (SIGHUP) a change does not end {less}",
                    self.path.display()
                );
            }
            self.adopt(rules);
            Ok(())
        });
        agent::web_config_was_read(adopted.is_ok());
        match adopted {
            Ok(()) => {
                watch.complaint.clear();
                tracing::info!("{} was read again", self.path.display());
            }
            Err(error) => {
                let complaint = format!("{error:#}");
                let is_due = watch.complaints.allows();
                if is_due || watch.complaint != complaint {
                    tracing::error!("what protected the addresses stays as it was: {complaint}");
                    watch.complaint = complaint;
                }
            }
        }
    }

    fn adopt(&self, mut rules: Rules) {
        rules.keep_users(&self.rules.load());
        self.rules.store(Arc::new(rules));
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

impl Prepared {
    /// Reads a file on a reload. It may demand less than what is in force `before` only
    /// if it says so in words.
    pub fn read(path: &Path, before: Option<Arc<Protection>>) -> anyhow::Result<Self> {
        let (files, rules) = read(path);
        let rules = rules?;
        if let Some(before) = &before
            && let Some((what, words)) = rules
                .demands
                .silently_less_than(&before.rules.load().demands)
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
                reading: Some((files, rules)),
            },
            _ => Self {
                protection: Arc::new(Protection::new(path, files, rules)?),
                reading: None,
            },
        })
    }

    /// Puts it into force.
    pub fn adopt(self) -> Arc<Protection> {
        if let Some((files, rules)) = self.reading {
            let watch = self.protection.watch.lock();
            let mut watch = watch.unwrap_or_else(PoisonError::into_inner);
            watch.files = files;
            watch.complaint.clear();
            self.protection.adopt(rules);
        }
        agent::web_config_was_read(true);
        self.protection
    }
}

/// What the files say, and what they were before.
fn read(path: &Path) -> (Files, anyhow::Result<Rules>) {
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
