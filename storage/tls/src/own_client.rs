//! Clients of the program's own listeners, such as commands of the same machine.
//!
//! They reach a listener by its address, which is seldom in its certificate, and its authority may
//! be known to nobody here. So besides certificates that the system's authorities vouch for they
//! accept the one in the file of `tls_cert`, for any name: who has its key is the server.

use crate::error::TlsError;
use crate::files::own_certificate;
use std::path::PathBuf;
use std::sync::Arc;
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::crypto::{
    WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature,
};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};

/// Verifier that knows the certificate of the program's own listeners.
#[derive(Debug)]
struct OwnCertificateVerifier {
    /// File of the certificate; it is read at each handshake, as it may have been renewed.
    certificate: PathBuf,
    /// Verifier by the system's authorities, if there are any.
    system: Option<Arc<WebPkiServerVerifier>>,
    algorithms: WebPkiSupportedAlgorithms,
}

/// Settings of a client of the listeners whose certificate is in this file.
///
/// # Errors
/// When the library offers no version of TLS.
pub fn own_client(certificate: PathBuf) -> Result<ClientConfig, TlsError> {
    let mut authorities = RootCertStore::empty();
    authorities.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = Arc::new(ring::default_provider());
    let algorithms = provider.signature_verification_algorithms;
    let system =
        WebPkiServerVerifier::builder_with_provider(Arc::new(authorities), Arc::clone(&provider));
    let verifier = OwnCertificateVerifier {
        certificate,
        // Fails where the system has no authorities.
        system: system.build().ok(),
        algorithms,
    };
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Library)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    Ok(config)
}

impl ServerCertVerifier for OwnCertificateVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let own = own_certificate(&self.certificate);
        if own.is_ok_and(|own| own == *end_entity) {
            return Ok(ServerCertVerified::assertion());
        }
        match &self.system {
            Some(system) => system.verify_server_cert(
                end_entity,
                intermediates,
                server_name,
                ocsp_response,
                now,
            ),
            None => Err(Error::InvalidCertificate(CertificateError::UnknownIssuer)),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
