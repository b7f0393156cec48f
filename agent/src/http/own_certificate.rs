//! Accepts a self-signed certificate of the agent, as `openssl req -x509` makes it.
//!
//! Such a certificate is marked as a CA, and a CA certificate is not accepted as that of a server.
//! But with `--ca` the user trusts exactly this certificate: if the server shows it, byte for byte,
//! only its name and its dates have to be checked.

use std::sync::Arc;

use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::client::{WebPkiServerVerifier, verify_server_name};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::ParsedCertificate;
use tokio_rustls::rustls::{
    CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};

use super::tls::provider;

/// Verifies certificates that are signed by one of these, or are one of these.
#[derive(Debug)]
pub struct OwnCertificate {
    named: Vec<CertificateDer<'static>>,
    usual: Arc<WebPkiServerVerifier>,
}

impl OwnCertificate {
    /// `named` are the certificates of `--ca`, which are also in `roots`.
    pub fn new(
        named: Vec<CertificateDer<'static>>,
        roots: RootCertStore,
    ) -> anyhow::Result<Arc<Self>> {
        let usual = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider());
        let usual = usual.build()?;
        Ok(Arc::new(Self { named, usual }))
    }
}

/// Whether a certificate was refused only because it is marked as a CA. Its dates are checked
/// before that.
pub fn may_sign(error: &Error) -> bool {
    matches!(error, Error::InvalidCertificate(CertificateError::Other(why))
        if why.0.to_string() == "CaUsedAsEndEntity")
}

impl ServerCertVerifier for OwnCertificate {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.usual.verify_server_cert(shown, chain, name, ocsp, now) {
            Err(error) if may_sign(&error) && self.named.contains(shown) => {
                verify_server_name(&ParsedCertificate::try_from(shown)?, name)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.usual.verify_tls12_signature(message, shown, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.usual.verify_tls13_signature(message, shown, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.usual.supported_verify_schemes()
    }
}
