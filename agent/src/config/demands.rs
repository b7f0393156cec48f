//! What a file of `export.web_config` demands of whoever connects, and whether another
//! reading of it demands less.
//!
//! A file that was cut off by a full disk looks like one in which somebody has removed a
//! section. So a demand ends only where the file says so in words (`basic_auth_users: {}`),
//! and only on a reload.

use super::web::{Tls, TlsVersion};

/// How much is demanded, by kind; more is stricter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Demands([Demand; KINDS.len()]);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Demand {
    level: u8,
    /// Whether the file names the key that decides about it.
    said: bool,
}

/// A kind of demand.
struct Kind {
    /// What ends if there is less of it.
    what: &'static str,
    /// How a file says that there shall be less.
    in_words: &'static str,
}

const KINDS: [Kind; 4] = [
    Kind {
        what: "TLS",
        in_words: "tls_server_config: {}",
    },
    Kind {
        what: "the demand for a password",
        in_words: "basic_auth_users: {}",
    },
    Kind {
        what: "the demand for a certificate of the client",
        in_words: "client_auth_type: NoClientCert",
    },
    Kind {
        what: "the demand for TLS 1.3",
        in_words: "min_version: TLS12",
    },
];
const TLS: usize = 0;
const PASSWORD: usize = 1;
const CLIENT_CERTIFICATE: usize = 2;
const VERSION: usize = 3;

impl Demands {
    /// Notes whether the file has TLS; `said` if it names the section with a mapping,
    /// which may be empty.
    pub fn set_tls(&mut self, tls: Option<&Tls>, said: bool) {
        let level = u8::from(tls.is_some());
        self.0[TLS] = Demand { level, said };
        if let Some(tls) = tls {
            let certificate = match (&tls.client_ca_file, tls.client_cert_required) {
                (None, _) => 0,
                (Some(_), false) => 1,
                (Some(_), true) => 2,
            };
            self.0[CLIENT_CERTIFICATE].level = certificate;
            self.0[VERSION].level = u8::from(tls.min_version == TlsVersion::Tls13);
        }
    }

    /// Notes that a key of the TLS section is named.
    pub fn say(&mut self, key: &str) {
        match key {
            "client_auth_type" => self.0[CLIENT_CERTIFICATE].said = true,
            "min_version" => self.0[VERSION].said = true,
            _ => {}
        }
    }

    /// Notes how many users there are; `said` as for TLS.
    pub fn set_users(&mut self, count: usize, said: bool) {
        let level = u8::from(count > 0);
        self.0[PASSWORD] = Demand { level, said };
    }

    /// What `before` demanded and these do not.
    pub fn less_than(&self, before: &Self) -> Option<&'static str> {
        self.lowered(before).next().map(|(kind, _)| kind.what)
    }

    /// What `before` demanded and these do not, without saying so in words; and the
    /// words that would.
    pub fn silently_less_than(&self, before: &Self) -> Option<(&'static str, &'static str)> {
        let silent = self.lowered(before).find(|(_, demand)| !demand.said);
        silent.map(|(kind, _)| (kind.what, kind.in_words))
    }

    fn lowered(&self, before: &Self) -> impl Iterator<Item = (&'static Kind, Demand)> {
        let has_tls = self.0[TLS].level > 0;
        let demands = self.0.into_iter().zip(before.0).zip(&KINDS).enumerate();
        demands.filter_map(move |(at, ((now, then), kind))| {
            // Without TLS there is neither a version nor a certificate: it is TLS that ends.
            let stands = has_tls || matches!(at, TLS | PASSWORD);
            (stands && now.level < then.level).then_some((kind, now))
        })
    }
}
