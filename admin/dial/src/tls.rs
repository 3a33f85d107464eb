//! TLS to servers that say who they are.

use std::sync::Arc;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::{ClientConfig, Error, RootCertStore};

/// The system's certificate authorities, read from its files now. Single ones that cannot be read
/// take nothing from the others.
#[must_use]
pub fn authorities() -> RootCertStore {
    let mut authorities = RootCertStore::empty();
    authorities.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    authorities
}

/// A client that trusts these alone, and has no certificate of its own.
///
/// # Errors
/// The library has no version of TLS to offer.
pub fn client(authorities: RootCertStore) -> Result<ClientConfig, Error> {
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(authorities)
        .with_no_client_auth();
    Ok(config)
}
