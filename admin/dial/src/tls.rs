//! TLS configuration for clients.

use std::sync::Arc;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::{ClientConfig, Error, RootCertStore};

/// Reads the system's certificate authorities from its files. One that cannot be read is skipped.
#[must_use]
pub fn authorities() -> RootCertStore {
    let mut authorities = RootCertStore::empty();
    authorities.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    authorities
}

/// Configures a client that trusts these authorities alone, and has no certificate of its own.
///
/// # Errors
/// The library offers no version of TLS.
pub fn client(authorities: RootCertStore) -> Result<ClientConfig, Error> {
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(authorities)
        .with_no_client_auth();
    Ok(config)
}
