//! TLS for server and client: rustls with the ciphers of ring.

use std::path::Path;
use std::sync::Arc;

use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig, SupportedProtocolVersion};

use super::own_certificate::OwnCertificate;
use crate::config::size::Size;
use crate::config::web::{Tls, TlsVersion};
use crate::config::{ConfigError, small_file};

/// The largest file with certificates.
const MOST: Size = Size(4 << 20);
/// The CAs of the machine on Debian and most other systems.
const TRUSTED: &str = "/etc/ssl/certs/ca-certificates.crt";

pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// The configuration of the server.
pub fn server(tls: &Tls) -> Result<Arc<ServerConfig>, ConfigError> {
    let provider = provider();
    let versions = [(TlsVersion::Tls12, &TLS12), (TlsVersion::Tls13, &TLS13)];
    let spoken = tls.min_version..=tls.max_version;
    let versions: Vec<&'static SupportedProtocolVersion> = versions
        .into_iter()
        .filter(|(version, _)| spoken.contains(version))
        .map(|(_, version)| version)
        .collect();
    let (chain, key) = identity(&tls.cert_file, &tls.key_file)?;
    let fault = |path: &Path, error: &dyn std::fmt::Display| {
        ConfigError::new(path.display(), format_args!("cannot be used: {error}"))
    };
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&versions)
        .map_err(|error| fault(&tls.cert_file, &error))?;
    let builder = match &tls.client_ca_file {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let roots = Arc::new(roots(path)?);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
            let verifier = match tls.client_cert_required {
                true => verifier,
                false => verifier.allow_unauthenticated(),
            };
            let verifier = verifier.build().map_err(|error| fault(path, &error))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder.with_single_cert(chain, key).map_err(|error| {
        let key = tls.key_file.display();
        let why = format_args!("cannot be used with the key {key}: {error}");
        ConfigError::new(tls.cert_file.display(), why)
    })?;
    config.alpn_protocols = vec![b"http/1.1".into()];
    config.ignore_client_order = tls.prefer_server_cipher_suites;
    Ok(Arc::new(config))
}

/// The configuration of a client that trusts these certificates, or the CAs of the machine, and has
/// a certificate if one is given.
pub fn client(
    ca: Option<&Path>,
    identity_files: Option<(&Path, &Path)>,
) -> anyhow::Result<Arc<ClientConfig>> {
    let builder =
        ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    let builder = match ca {
        Some(path) => {
            let verifier = OwnCertificate::new(certificates(path)?, roots(path)?)?;
            builder
                .dangerous()
                .with_custom_certificate_verifier(verifier)
        }
        None => {
            let mut roots = RootCertStore::empty();
            let path = Path::new(TRUSTED);
            let trusted = certificates(path)
                .map_err(|error| anyhow::anyhow!("{error}; name whom to trust with --ca"))?;
            // Some CAs of the machine may be too old to be parsed.
            roots.add_parsable_certificates(trusted);
            builder.with_root_certificates(roots)
        }
    };
    let config = match identity_files {
        None => builder.with_no_client_auth(),
        Some((cert, key)) => {
            let (chain, key) = identity(cert, key)?;
            builder.with_client_auth_cert(chain, key)?
        }
    };
    Ok(Arc::new(config))
}

fn roots(path: &Path) -> Result<RootCertStore, ConfigError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|error| {
            let why = format_args!("has a certificate that cannot be trusted: {error}");
            ConfigError::new(path.display(), why)
        })?;
    }
    Ok(roots)
}

type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn identity(cert: &Path, key: &Path) -> Result<Identity, ConfigError> {
    let chain = certificates(cert)?;
    let key = PrivateKeyDer::from_pem_slice(&read(key)?).map_err(|error| {
        let why = format_args!("has no private key in PEM: {error}");
        ConfigError::new(key.display(), why)
    })?;
    Ok((chain, key))
}

/// All certificates of a file, at least one.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
    let bytes = read(path)?;
    let fault = |why: String| ConfigError::new(path.display(), why);
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let all = all.map_err(|error| fault(format!("is no PEM: {error}")))?;
    if all.is_empty() {
        return Err(fault("has no certificate in PEM".into()));
    }
    Ok(all)
}

fn read(path: &Path) -> Result<Vec<u8>, ConfigError> {
    small_file::read(path, MOST)
        .map_err(|error| ConfigError::new(path.display(), format_args!("cannot be read: {error}")))
}
