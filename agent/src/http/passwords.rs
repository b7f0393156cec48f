//! Who may ask: users and their passwords, of which only bcrypt's hashes are known.
//!
//! bcrypt is slow so that guessing is; a scrape must not be. A password that was
//! right is remembered as a MAC under a key of this run, and costs microseconds
//! from then on. All others are checked one at a time by a thread that rests after
//! each wrong one: guessing costs a quarter of a core at most, however many guess.
//! Those who wait have [`Seats`], in which guesses are held against the address they
//! come from; whoever finds no seat is sent away at once.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::Context;
use axum::http::HeaderValue;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bcrypt::HashParts;
use ring::hmac;
use ring::rand::SystemRandom;
use tokio::sync::oneshot;

use super::permits::network;
use super::seats::{Full, Seats};
use crate::panics;

/// How much longer than a check the rest after a wrong password is.
const REST: u32 = 3;
/// Salt and hash that no user has.
const NOBODY: &str = "QOauhQNbBCuQDKes6eFzPeMqBSjb7Mr5DUmpZ/VcEd00UAV/LDeSi";

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is answered.
    Welcome,
    /// Its password is wrong, or it has none.
    Wrong,
    /// Too many passwords of its address wait to be checked.
    PeerBusy,
    /// Too many passwords of all wait to be checked.
    AllBusy,
}

/// The users of one reading of the file.
pub struct Users {
    hashes: BTreeMap<String, String>,
    /// Checked for users that do not exist, so that these take as long.
    nobody: String,
    key: hmac::Key,
    /// What was right, by user.
    known: Mutex<HashMap<String, hmac::Tag>>,
}

impl Users {
    /// These users, by the hashes of their passwords.
    pub fn new(hashes: BTreeMap<String, String>) -> anyhow::Result<Self> {
        let costs = hashes.values().filter_map(|hash| hash.parse().ok());
        let cost = costs.map(|hash: HashParts| hash.get_cost()).max();
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new())
            .map_err(|_| anyhow::anyhow!("the operating system has no random numbers"))?;
        Ok(Self {
            hashes,
            nobody: format!("$2y${:02}${NOBODY}", cost.unwrap_or(10)),
            key,
            known: Mutex::default(),
        })
    }

    /// Whether these are the same, with the same passwords.
    pub fn are(&self, others: &Self) -> bool {
        self.hashes == others.hashes
    }

    fn message(login: &Login) -> Vec<u8> {
        [login.user.as_bytes(), b":", &login.password].concat()
    }

    /// Whether it was right before; takes the same time wherever it differs.
    fn is_known(&self, login: &Login) -> bool {
        let known = lock(&self.known).get(&login.user).copied();
        known
            .is_some_and(|tag| hmac::verify(&self.key, &Self::message(login), tag.as_ref()).is_ok())
    }

    /// Asks bcrypt, which takes its time.
    fn check(&self, login: &Login) -> bool {
        let hash = self.hashes.get(&login.user);
        let right = bcrypt::verify(&login.password, hash.unwrap_or(&self.nobody));
        let right = right.unwrap_or(false) && hash.is_some();
        if right {
            let tag = hmac::sign(&self.key, &Self::message(login));
            lock(&self.known).insert(login.user.clone(), tag);
        }
        right
    }
}

/// A user and a password, as a request names them.
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

/// A password that waits.
struct Job {
    users: Arc<Users>,
    login: Login,
    answer: oneshot::Sender<bool>,
}

/// Checks passwords, one at a time.
pub struct Passwords(Arc<Shared>);

/// What the thread that checks goes by.
#[derive(Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    /// Says that there is something to do.
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    seats: Seats<Job>,
    ended: bool,
}

impl Drop for Passwords {
    fn drop(&mut self) {
        lock(&self.0.waiting).ended = true;
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

    /// Whether whoever sends this header may ask.
    pub async fn verdict(
        &self,
        users: &Arc<Users>,
        peer: IpAddr,
        header: Option<&HeaderValue>,
    ) -> Verdict {
        let Some(login) = header.and_then(Login::parse) else {
            return Verdict::Wrong;
        };
        if users.is_known(&login) {
            return Verdict::Welcome;
        }
        let (answer, answered) = oneshot::channel();
        let job = Job {
            users: Arc::clone(users),
            login,
            answer,
        };
        if let Err(full) = self.0.take_seat(network(peer), job) {
            return match full {
                Full::Peer => Verdict::PeerBusy,
                Full::All => Verdict::AllBusy,
            };
        }
        match answered.await {
            Ok(true) => Verdict::Welcome,
            Ok(false) => Verdict::Wrong,
            // Someone with more right to it has got the seat.
            Err(_) => Verdict::AllBusy,
        }
    }
}

impl Shared {
    fn take_seat(&self, peer: IpAddr, job: Job) -> Result<(), Full> {
        let waits = |job: &Job| !job.answer.is_closed();
        let mut waiting = lock(&self.waiting);
        waiting.seats.take(peer, job, waits, Instant::now())?;
        self.changed.notify_one();
        Ok(())
    }

    /// The next to be checked; none if nobody will ask any more.
    fn next(&self) -> Option<(IpAddr, Job)> {
        let mut waiting = lock(&self.waiting);
        loop {
            if waiting.ended {
                return None;
            }
            if let Some(next) = waiting.seats.next(Instant::now()) {
                return Some(next);
            }
            let woken = self.changed.wait(waiting);
            waiting = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn check_all(&self) {
        while let Some((peer, job)) = self.next() {
            // Whoever has gone needs no answer.
            if job.answer.is_closed() {
                continue;
            }
            let start = Instant::now();
            let right = || job.users.is_known(&job.login) || job.users.check(&job.login);
            // A panic is nobody's right password, and others are checked after it.
            let right = panics::caught(right).unwrap_or(false);
            let took = start.elapsed();
            {
                let seats = &mut lock(&self.waiting).seats;
                match right {
                    true => seats.was_right(peer),
                    false => seats.was_wrong(peer, Instant::now()),
                }
            }
            let _ = job.answer.send(right);
            if !right {
                thread::sleep(REST * took);
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
    fn only_what_was_right_is_remembered_and_nobody_costs_as_much() {
        let hash = bcrypt::hash("right", 5).unwrap();
        let users = Users::new([("alice".to_owned(), hash)].into()).unwrap();
        assert!(!users.is_known(&login("alice", "right")));
        assert!(users.check(&login("alice", "right")));
        assert!(users.is_known(&login("alice", "right")));
        assert!(!users.is_known(&login("alice", "wrong")));
        assert!(!users.check(&login("alice", "wrong")));
        assert!(!users.check(&login("bob", "right")));
        assert!(!users.is_known(&login("bob", "right")));
        assert_eq!(lock(&users.known).len(), 1);
        assert_eq!(users.nobody.parse::<HashParts>().unwrap().get_cost(), 5);
    }
}
