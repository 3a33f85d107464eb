//! HTTP client for the listeners of the server of this data folder.

use crate::config::Config;
use millrace_import::send;
use millrace_tls::own_client;

/// Creates a client that trusts the system's authorities, and the certificate of `tls_cert`.
///
/// # Errors
/// When TLS cannot be set up.
pub fn client(config: &Config) -> anyhow::Result<reqwest::Client> {
    match &config.tls_files {
        None => send::client(),
        Some(files) => send::client_with(own_client(files.certificate.clone())?),
    }
}
