//! TLS for the client of the server under test and for the baseline server.
//!
//! Handshakes are part of connecting and never of a latency. Only HTTP/1.1 is offered.

use crate::target::Target;
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::crypto::{
    CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature,
};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error as TlsError, RootCertStore,
    ServerConfig, SignatureScheme,
};
use tokio_rustls::{TlsAcceptor, TlsConnector};

const PROTOCOL: &[u8] = b"http/1.1";

/// Certificates that a client trusts; by default those of the system's authorities.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trust {
    /// PEM file with authorities, in place of the system's.
    pub ca: Option<PathBuf>,
    /// True to trust any certificate.
    pub insecure: bool,
}

/// Opens TLS on connections to one server.
#[derive(Clone)]
pub struct Client {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// Client for the server named by the target's host.
    ///
    /// # Errors
    /// The authorities cannot be read, or the host is not a valid name for a certificate.
    pub fn new(target: &Target, trust: &Trust) -> Result<Self> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .context("TLS")?;
        let mut config = if trust.insecure {
            let verifier = Arc::new(AcceptAnyCertificate(provider));
            builder
                .dangerous()
                .with_custom_certificate_verifier(verifier)
                .with_no_client_auth()
        } else {
            builder
                .with_root_certificates(authorities(trust.ca.as_deref())?)
                .with_no_client_auth()
        };
        config.alpn_protocols.push(PROTOCOL.to_vec());
        let host = target.host();
        Ok(Self {
            connector: TlsConnector::from(Arc::new(config)),
            name: ServerName::try_from(host.to_owned())
                .with_context(|| format!("{host:?} is not a name for a certificate"))?,
        })
    }

    /// Performs the handshake.
    ///
    /// # Errors
    /// The server does not speak TLS, or its certificate is not trusted.
    pub async fn open(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let opened = self.connector.connect(self.name.clone(), stream).await;
        opened.map_err(|error| {
            let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
            let hint = match inner {
                Some(TlsError::InvalidCertificate(reason)) => hint(reason),
                Some(TlsError::InvalidMessage(_)) => "; does it speak TLS?",
                _ => return error,
            };
            io::Error::new(error.kind(), format!("{error}{hint}"))
        })
    }
}

/// Advice about a certificate that is not trusted.
fn hint(reason: &CertificateError) -> &'static str {
    // Reason for the self-signed certificates that OpenSSL makes by default; rustls has no variant
    // for it.
    if format!("{reason:?}").contains("CaUsedAsEndEntity") {
        return "; it is an authority's own, a server needs one with CA:FALSE; --insecure takes any";
    }
    "; --ca FILE names its authority, --insecure takes any"
}

fn authorities(ca: Option<&Path>) -> Result<RootCertStore> {
    let mut authorities = RootCertStore::empty();
    match ca {
        None => {
            let found = rustls_native_certs::load_native_certs();
            authorities.add_parsable_certificates(found.certs);
            ensure!(
                !authorities.is_empty(),
                "the system has no certificate authorities; name one with --ca"
            );
        }
        Some(file) => {
            for certificate in certificates(file)? {
                let added = authorities.add(certificate);
                added.with_context(|| format!("{}", file.display()))?;
            }
        }
    }
    Ok(authorities)
}

/// Acceptor with a server's certificate and key.
///
/// # Errors
/// A file cannot be read or is not PEM, or the two do not belong together.
pub fn acceptor(certificate: &Path, key: &Path) -> Result<TlsAcceptor> {
    let chain = certificates(certificate)?;
    let key_der = PrivateKeyDer::from_pem_file(key)
        .with_context(|| format!("{} has no PEM private key", key.display()))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .context("TLS")?
        .with_no_client_auth()
        .with_single_cert(chain, key_der)
        .with_context(|| format!("{} and {}", certificate.display(), key.display()))?;
    config.alpn_protocols.push(PROTOCOL.to_vec());
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let certificates = read.with_context(|| format!("cannot read {} as PEM", file.display()))?;
    ensure!(
        !certificates.is_empty(),
        "{} has no PEM certificate",
        file.display()
    );
    Ok(certificates)
}

/// Verifier that accepts every certificate, but still requires the server to have its key.
#[derive(Debug)]
struct AcceptAnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
