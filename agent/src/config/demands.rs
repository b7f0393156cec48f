//! What the file of `export.web_config` requires of clients, and whether a new version of
//! it requires less.
//!
//! A file that was truncated by a full disk looks like one from which a section was
//! removed. So a requirement is dropped only if the file says so explicitly
//! (`basic_auth_users: {}`), and only on a reload.

use super::web::{Tls, TlsVersion};

/// The level of each requirement; higher is stricter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Demands([Demand; KINDS.len()]);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Demand {
    level: u8,
    /// Whether the file has the key of this requirement.
    explicit: bool,
}

struct Kind {
    /// Name of the protection, for messages.
    what: &'static str,
    /// How a file drops it explicitly.
    setting: &'static str,
}

const KINDS: [Kind; 4] = [
    Kind {
        what: "TLS",
        setting: "tls_server_config: {}",
    },
    Kind {
        what: "the demand for a password",
        setting: "basic_auth_users: {}",
    },
    Kind {
        what: "the demand for a certificate of the client",
        setting: "client_auth_type: NoClientCert",
    },
    Kind {
        what: "the demand for TLS 1.3",
        setting: "min_version: TLS12",
    },
];
const TLS: usize = 0;
const PASSWORD: usize = 1;
const CLIENT_CERTIFICATE: usize = 2;
const VERSION: usize = 3;

impl Demands {
    /// Sets the level of TLS. `explicit` tells whether the file has the section as a mapping,
    /// which may be empty.
    pub fn set_tls(&mut self, tls: Option<&Tls>, explicit: bool) {
        let level = u8::from(tls.is_some());
        self.0[TLS] = Demand { level, explicit };
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

    /// Stores that a key of the TLS section is present.
    pub fn set_explicit(&mut self, key: &str) {
        match key {
            "client_auth_type" => self.0[CLIENT_CERTIFICATE].explicit = true,
            "min_version" => self.0[VERSION].explicit = true,
            _ => {}
        }
    }

    /// Sets the number of users. `explicit` as in [`Self::set_tls`].
    pub fn set_users(&mut self, count: usize, explicit: bool) {
        let level = u8::from(count > 0);
        self.0[PASSWORD] = Demand { level, explicit };
    }

    /// Returns a requirement of `before` that is dropped.
    pub fn less_than(&self, before: &Self) -> Option<&'static str> {
        self.lowered(before).next().map(|(kind, _)| kind.what)
    }

    /// Returns a requirement of `before` that is dropped without saying so explicitly, and
    /// the setting that would say so.
    pub fn implicitly_less_than(&self, before: &Self) -> Option<(&'static str, &'static str)> {
        let silent = self.lowered(before).find(|(_, demand)| !demand.explicit);
        silent.map(|(kind, _)| (kind.what, kind.setting))
    }

    fn lowered(&self, before: &Self) -> impl Iterator<Item = (&'static Kind, Demand)> {
        let has_tls = self.0[TLS].level > 0;
        let demands = self.0.into_iter().zip(before.0).zip(&KINDS).enumerate();
        demands.filter_map(move |(at, ((now, then), kind))| {
            // Without TLS there is neither a version nor a client certificate; only the end
            // of TLS is reported.
            let applies = has_tls || matches!(at, TLS | PASSWORD);
            (applies && now.level < then.level).then_some((kind, now))
        })
    }
}
