//! TLS to servers with and without a certificate that the world knows.

use crate::error::ExportError;
use std::sync::Arc;
use tokio_postgres_rustls::MakeRustlsConnect;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::crypto::{
    CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature,
};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};

/// What makes TLS connections of others. Without `verified` any certificate is good enough, as
/// the customer has said that nobody vouches for theirs.
pub(super) fn connector(verified: bool) -> Result<MakeRustlsConnect, ExportError> {
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(Arc::clone(&provider));
    let config = config
        .with_safe_default_protocol_versions()
        .map_err(|_| ExportError::retry("TLS is not available."))?;
    let config = if verified {
        let mut roots = RootCertStore::empty();
        // Single certificates that cannot be read take nothing from the others.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        config.with_root_certificates(roots).with_no_client_auth()
    } else {
        let verifier = Arc::new(Unverified { provider });
        let config = config
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        config.with_no_client_auth()
    };
    Ok(MakeRustlsConnect::new(config))
}

/// Takes any certificate, if the server has its key.
#[derive(Debug)]
struct Unverified {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &self.provider.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}
