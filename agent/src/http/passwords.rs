//! Users and their passwords, of which only the bcrypt hashes are known.
//!
//! bcrypt is slow to make guessing slow, but a scrape must be fast. So a right password is
//! remembered as a MAC under a random key, and from then on its check takes microseconds. All
//! others are checked one at a time by a thread that pauses after each wrong one: guessing takes at
//! most a quarter of a core, whatever the number of attempts. Requests wait in a [`PasswordQueue`],
//! which counts wrong passwords by address; if it is full, a request is refused at once.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use anyhow::Context;
use axum::http::HeaderValue;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bcrypt::HashParts;
use parking_lot::{Condvar, Mutex};
use ring::hmac;
use ring::rand::SystemRandom;
use tokio::sync::oneshot;

pub use super::password_queue::Full;
use super::password_queue::PasswordQueue;
use super::permits::network;
use crate::process::panics;

/// Pause after a wrong password, as a multiple of the duration of its check.
const PAUSE_FACTOR: u32 = 3;
/// Salt and hash that no user has.
const UNKNOWN_USER: &str = "QOauhQNbBCuQDKes6eFzPeMqBSjb7Mr5DUmpZ/VcEd00UAV/LDeSi";

/// The users of one version of the file.
pub struct Users {
    hashes: BTreeMap<String, String>,
    /// Hash that is checked for unknown users, so that their checks take as long.
    unknown_user: String,
    key: hmac::Key,
    /// MAC of the last right login of each user.
    known: Mutex<HashMap<String, hmac::Tag>>,
}

impl Users {
    /// Users and the hashes of their passwords.
    pub fn new(hashes: BTreeMap<String, String>) -> anyhow::Result<Self> {
        let costs = hashes.values().filter_map(|hash| hash.parse().ok());
        let cost = costs.map(|hash: HashParts| hash.get_cost()).max();
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new())
            .map_err(|_| anyhow::anyhow!("the operating system has no random numbers"))?;
        Ok(Self {
            hashes,
            unknown_user: format!("$2y${:02}${UNKNOWN_USER}", cost.unwrap_or(10)),
            key,
            known: Mutex::default(),
        })
    }

    /// Whether both have the same users and password hashes.
    pub fn are(&self, others: &Self) -> bool {
        self.hashes == others.hashes
    }

    fn message(login: &Login) -> Vec<u8> {
        [login.user.as_bytes(), b":", &login.password].concat()
    }

    /// Whether this login was right before. Takes the same time wherever the two differ.
    fn is_known(&self, login: &Login) -> bool {
        let known = self.known.lock().get(&login.user).copied();
        known
            .is_some_and(|tag| hmac::verify(&self.key, &Self::message(login), tag.as_ref()).is_ok())
    }

    /// Checks with bcrypt, which is slow.
    fn check(&self, login: &Login) -> bool {
        let hash = self.hashes.get(&login.user);
        let right = bcrypt::verify(&login.password, hash.unwrap_or(&self.unknown_user));
        let right = right.unwrap_or(false) && hash.is_some();
        if right {
            let tag = hmac::sign(&self.key, &Self::message(login));
            self.known.lock().insert(login.user.clone(), tag);
        }
        right
    }
}

/// The user and the password of a request.
struct Login {
    user: String,
    password: Vec<u8>,
}

impl Login {
    fn parse(header: &HeaderValue) -> Option<Self> {
        let (scheme, encoded) = header.to_str().ok()?.split_once(' ')?;
        if !scheme.eq_ignore_ascii_case("basic") {
            return None;
        }
        let decoded = STANDARD.decode(encoded.trim()).ok()?;
        let colon = decoded.iter().position(|byte| *byte == b':')?;
        let (user, password) = decoded.split_at(colon);
        Some(Self {
            user: String::from_utf8(user.into()).ok()?,
            password: password[1..].into(),
        })
    }
}

/// A password that waits for its check.
struct Job {
    users: Arc<Users>,
    login: Login,
    answer: oneshot::Sender<bool>,
}

/// Checks passwords, one at a time.
pub struct Passwords(Arc<Shared>);

/// State shared with the thread that checks.
#[derive(Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    /// Notified when a request was added or the server has ended.
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    queue: PasswordQueue<Job>,
    ended: bool,
}

impl Drop for Passwords {
    fn drop(&mut self) {
        self.0.waiting.lock().ended = true;
        self.0.changed.notify_all();
    }
}

impl Passwords {
    /// Starts the thread that checks.
    pub fn start() -> anyhow::Result<Self> {
        let shared = Arc::new(Shared::default());
        let passwords = Self(Arc::clone(&shared));
        thread::Builder::new()
            .name("passwords".into())
            .spawn(move || shared.check_all())
            .context("passwords cannot be checked")?;
        Ok(passwords)
    }

    /// Whether the `Authorization` header of a request has a user with the right password.
    pub async fn check(
        &self,
        users: &Arc<Users>,
        peer: IpAddr,
        header: Option<&HeaderValue>,
    ) -> Result<bool, Full> {
        let Some(login) = header.and_then(Login::parse) else {
            return Ok(false);
        };
        if users.is_known(&login) {
            return Ok(true);
        }
        let (answer, answered) = oneshot::channel();
        let job = Job {
            users: Arc::clone(users),
            login,
            answer,
        };
        self.0.enqueue(network(peer), job)?;
        // No answer means that another request has taken the place in the queue.
        answered.await.map_err(|_| Full::All)
    }
}

impl Shared {
    fn enqueue(&self, peer: IpAddr, job: Job) -> Result<(), Full> {
        let waits = |job: &Job| !job.answer.is_closed();
        let mut waiting = self.waiting.lock();
        waiting.queue.push(peer, job, waits, Instant::now())?;
        self.changed.notify_one();
        Ok(())
    }

    /// Waits for the next request to check; `None` when the server has ended.
    fn next(&self) -> Option<(IpAddr, Job)> {
        let mut waiting = self.waiting.lock();
        loop {
            if waiting.ended {
                return None;
            }
            if let Some(next) = waiting.queue.next(Instant::now()) {
                return Some(next);
            }
            self.changed.wait(&mut waiting);
        }
    }

    fn check_all(&self) {
        while let Some((peer, job)) = self.next() {
            // The client has closed the connection.
            if job.answer.is_closed() {
                continue;
            }
            let start = Instant::now();
            let right = || job.users.is_known(&job.login) || job.users.check(&job.login);
            // A panic counts as a wrong password; the thread continues.
            let right = panics::catch(right).unwrap_or(false);
            let took = start.elapsed();
            {
                let queue = &mut self.waiting.lock().queue;
                match right {
                    true => queue.was_right(peer),
                    false => queue.was_wrong(peer, Instant::now()),
                }
            }
            let _ = job.answer.send(right);
            if !right {
                thread::sleep(PAUSE_FACTOR * took);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login(user: &str, password: &str) -> Login {
        Login {
            user: user.into(),
            password: password.into(),
        }
    }

    #[test]
    fn a_header_names_user_and_password() {
        let parse = |text: &'static str| Login::parse(&HeaderValue::from_static(text));
        // alice:a:b
        let login = parse("basic YWxpY2U6YTpi").unwrap();
        assert_eq!((&*login.user, &*login.password), ("alice", &b"a:b"[..]));
        for text in ["Bearer YWxpY2U6YTpi", "Basic", "Basic !", "Basic YWxpY2U="] {
            assert!(parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn only_right_logins_are_remembered_and_unknown_users_cost_as_much() {
        let hash = bcrypt::hash("right", 5).unwrap();
        let users = Users::new([("alice".to_owned(), hash)].into()).unwrap();
        assert!(!users.is_known(&login("alice", "right")));
        assert!(users.check(&login("alice", "right")));
        assert!(users.is_known(&login("alice", "right")));
        assert!(!users.is_known(&login("alice", "wrong")));
        assert!(!users.check(&login("alice", "wrong")));
        assert!(!users.check(&login("bob", "right")));
        assert!(!users.is_known(&login("bob", "right")));
        assert_eq!(users.known.lock().len(), 1);
        assert_eq!(
            users.unknown_user.parse::<HashParts>().unwrap().get_cost(),
            5
        );
    }
}
