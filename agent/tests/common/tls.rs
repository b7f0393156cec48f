//! Certificates made by openssl, and requests by curl.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder with certificates: `NAME.crt` and `NAME.key`.
pub struct Certificates(pub PathBuf);

impl Certificates {
    /// Makes two certificate authorities: `ca`, and `foreign`, which no client trusts.
    pub fn new(folder: &Path) -> Self {
        let config = "[req]\ndistinguished_name = dn\n[dn]\n";
        std::fs::write(folder.join("openssl.cnf"), config).unwrap();
        let certificates = Self(folder.to_owned());
        for ca in ["ca", "foreign"] {
            let mut command = Command::new("openssl");
            let usage = "keyUsage=critical,keyCertSign";
            command.args(["req", "-addext", "basicConstraints=critical,CA:TRUE"]);
            command.args(["-addext", usage]);
            certificates.make(&mut command, ca, "3650");
        }
        certificates
    }

    /// Makes a certificate for 127.0.0.1, for server or client, signed by `ca`.
    pub fn sign(&self, name: &str, ca: &str) {
        self.issue(&mut Command::new("openssl"), name, ca);
    }

    /// The same, but expired years ago.
    pub fn sign_expired(&self, name: &str, ca: &str) {
        let mut command = Command::new("faketime");
        self.issue(command.args(["2020-01-01 00:00:00", "openssl"]), name, ca);
    }

    /// Makes a self-signed certificate as the documentation describes, valid for a day
    /// from `since` on.
    pub fn sign_itself(&self, name: &str, alternative: &str, since: &str) {
        let mut command = Command::new("faketime");
        command.args([since, "openssl", "req", "-addext"]);
        command.arg(format!("subjectAltName={alternative}"));
        // As in the default configuration of openssl.
        command.args(["-addext", "basicConstraints=critical,CA:TRUE"]);
        self.make(&mut command, name, "1");
    }

    fn issue(&self, command: &mut Command, name: &str, ca: &str) {
        let file = |ending: &str| format!("{ca}.{ending}");
        command.args(["req", "-CA", &file("crt"), "-CAkey", &file("key")]);
        for extension in [
            "basicConstraints=critical,CA:FALSE",
            "subjectAltName=IP:127.0.0.1",
            "extendedKeyUsage=serverAuth,clientAuth",
        ] {
            command.args(["-addext", extension]);
        }
        self.make(command, name, "1");
    }

    fn make(&self, command: &mut Command, name: &str, days: &str) {
        command
            .args(["-x509", "-config", "openssl.cnf", "-nodes", "-newkey", "ec"])
            .args(["-pkeyopt", "ec_paramgen_curve:prime256v1", "-days", days])
            .args(["-subj", &format!("/CN={name}")])
            .args(["-keyout", &format!("{name}.key")])
            .args(["-out", &format!("{name}.crt")])
            .current_dir(&self.0);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", super::stderr(&output));
    }

    /// A request by curl, which trusts `ca`. Returns status and body, or the error of
    /// curl.
    pub fn curl(&self, ca: &str, args: &[&str]) -> Result<(u16, String), String> {
        let output = self.run_curl(&[&["--cacert", &format!("{ca}.crt")], args].concat());
        if !output.status.success() {
            return Err(super::stderr(&output));
        }
        let text = String::from_utf8(output.stdout).unwrap();
        let (body, status) = text.rsplit_once('\n').unwrap();
        Ok((status.parse().unwrap(), body.to_owned()))
    }

    fn run_curl(&self, args: &[&str]) -> Output {
        Command::new("curl")
            .args(["-sS", "--max-time", "15", "-w", "\n%{http_code}"])
            .args(args)
            .current_dir(&self.0)
            .output()
            .unwrap()
    }
}
