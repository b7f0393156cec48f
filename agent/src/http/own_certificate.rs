//! Trust in a certificate that is its own authority, as `openssl req -x509` makes it.
//!
//! Such a certificate says that it may sign others, and one that may is refused as
//! that of a server. But whoever names it with `--ca` trusts just this one: if the
//! server shows it, byte for byte, only its name and its dates are left to check.

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

/// Trusts whom these certificates have signed, and themselves.
#[derive(Debug)]
pub struct OwnCertificate {
    named: Vec<CertificateDer<'static>>,
    usual: Arc<WebPkiServerVerifier>,
}

impl OwnCertificate {
    /// These were named with `--ca`; `roots` has the same.
    pub fn new(
        named: Vec<CertificateDer<'static>>,
        roots: RootCertStore,
    ) -> anyhow::Result<Arc<Self>> {
        let usual = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider());
        let usual = usual.build()?;
        Ok(Arc::new(Self { named, usual }))
    }
}

/// Whether a certificate is refused only because it may sign others. Its dates are
/// checked before that.
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
