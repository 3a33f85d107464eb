//! TLS to the server: trusted authorities, and advice on failed handshakes.
//!
//! A connection whose handshake failed has carried no byte of a statement.

use clickhouse::Client;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::{
    AlertDescription, CertificateError, ClientConfig, Error as RustlsError, RootCertStore,
};

/// TCP keep-alive, the same as of the `clickhouse` crate's connections without TLS.
const KEEPALIVE: Duration = Duration::from_secs(60);
const IDLE_MAX: Duration = Duration::from_secs(2);

/// Certificate authorities that may vouch for a server. Clones share them.
#[derive(Clone)]
pub struct Tls(Arc<ClientConfig>);

/// Error of authorities that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or is not PEM.
    #[error("{0}")]
    Unreadable(pem::Error),
    /// The file has an invalid certificate.
    #[error("a certificate in it cannot be read ({0})")]
    Malformed(RustlsError),
    /// The file has no certificate.
    #[error("it has no certificate")]
    Empty,
    /// The system has no authorities.
    #[error("the system has no certificate authorities")]
    NoneInSystem,
    /// The library has no version of TLS to offer.
    #[error("TLS cannot be set up: {0}")]
    Setup(RustlsError),
}

impl Tls {
    /// Trusts only the authorities of a PEM file, or else those of the system, which
    /// `SSL_CERT_FILE` and `SSL_CERT_DIR` may name.
    ///
    /// # Errors
    /// If there is no authority that can be read.
    pub fn trusting(ca_file: Option<&Path>) -> Result<Self, TlsError> {
        let mut authorities = RootCertStore::empty();
        if let Some(file) = ca_file {
            for found in CertificateDer::pem_file_iter(file).map_err(TlsError::Unreadable)? {
                let certificate = found.map_err(TlsError::Unreadable)?;
                authorities.add(certificate).map_err(TlsError::Malformed)?;
            }
            if authorities.is_empty() {
                return Err(TlsError::Empty);
            }
        } else {
            // Single authorities that cannot be read do not affect the others.
            let found = rustls_native_certs::load_native_certs();
            authorities.add_parsable_certificates(found.certs);
            if authorities.is_empty() {
                return Err(TlsError::NoneInSystem);
            }
        }
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Setup)?
            .with_root_certificates(authorities)
            .with_no_client_auth();
        Ok(Self(Arc::new(config)))
    }

    /// Configuration of the library, for other clients of the same server.
    #[must_use]
    pub fn config(&self) -> ClientConfig {
        ClientConfig::clone(&self.0)
    }

    /// Returns a client that connects by TLS only.
    pub(crate) fn client(&self) -> Client {
        let http = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE_MAX)
            .build(self.connector());
        Client::with_http_client(http)
    }

    /// Returns a connector for TLS only.
    pub(crate) fn connector(&self) -> HttpsConnector<HttpConnector> {
        let mut connector = HttpConnector::new();
        connector.set_keepalive(Some(KEEPALIVE));
        connector.enforce_http(false);
        // The end of a body is a record of its own, which must not wait for an acknowledgement.
        connector.set_nodelay(true);
        HttpsConnectorBuilder::new()
            .with_tls_config(self.config())
            .https_only()
            .enable_http1()
            .wrap_connector(connector)
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

/// Advice for an operator on a handshake that failed for good; `None` if a failure has
/// another cause.
pub(crate) fn advice(error: &(dyn StdError + 'static)) -> Option<&'static str> {
    Some(match rustls_error(error)? {
        RustlsError::InvalidCertificate(reason) => advice_on_certificate(reason),
        RustlsError::InvalidMessage(_) => {
            "clickhouse_url begins with https://, and what answers there does not speak TLS; begin \
             it with http://, or name the server's port for TLS, usually 8443"
        }
        RustlsError::NoCertificatesPresented => "the server shows no certificate; give it one",
        RustlsError::AlertReceived(AlertDescription::CertificateRequired) => {
            "the server requires client certificates, which Millrace does not have; disable that \
             requirement"
        }
        RustlsError::AlertReceived(
            AlertDescription::HandshakeFailure | AlertDescription::ProtocolVersion,
        )
        | RustlsError::PeerIncompatible(_) => {
            "the server and Millrace have no version or cipher of TLS in common; have the server \
             offer TLS 1.2 or 1.3"
        }
        _ => return None,
    })
}

fn advice_on_certificate(reason: &CertificateError) -> &'static str {
    match reason {
        // `BadSignature` means an authority of the same name with another key.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "the server's certificate is by an authority that is not trusted; name a PEM file with \
             that authority's certificate in clickhouse_ca_file"
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "the server's certificate is not for the name in clickhouse_url; use a name that it is \
             for"
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the server's certificate has expired; renew it, or set this machine's clock right"
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the server's certificate is not valid yet; set the clocks right"
        }
        // A self-signed certificate as OpenSSL makes them by default; the library has no name for
        // it.
        reason if format!("{reason:?}").contains("CaUsedAsEndEntity") => {
            "the server shows the certificate of an authority as its own; give it one with CA:FALSE"
        }
        _ => "the server's certificate cannot be accepted; give it another one",
    }
}

/// Finds the TLS library's error in a chain of causes. An `io::Error` is not a link of the chain
/// but wraps one.
fn rustls_error<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a RustlsError> {
    let mut cause = Some(error);
    while let Some(link) = cause {
        if let Some(found) = link.downcast_ref() {
            return Some(found);
        }
        let inside = link
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref);
        cause = match inside {
            Some(inside) => Some(inside),
            None => link.source(),
        };
    }
    None
}
