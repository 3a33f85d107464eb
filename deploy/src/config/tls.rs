//! TLS of the listeners: its files, and URLs with the scheme that follows from it.

use super::Config;
use super::paths::absolute;
use super::settings::TlsSettings;
use anyhow::bail;
use millrace_tls::TlsFiles;
use std::net::SocketAddr;

/// Checks that the files are named together; `None` if there is no TLS.
pub(super) fn tls_files(settings: &TlsSettings) -> anyhow::Result<Option<TlsFiles>> {
    let client_authority = settings.tls_client_ca.as_deref();
    let (certificate, key) = match (&settings.tls_cert, &settings.tls_key) {
        (Some(certificate), Some(key)) => (certificate, key),
        (Some(_), None) => {
            bail!("tls_cert is set; give also tls_key, the PEM file of its private key")
        }
        (None, Some(_)) => {
            bail!("tls_key is set; give also tls_cert, the PEM file of its certificate")
        }
        (None, None) if client_authority.is_some() => {
            bail!("tls_client_ca is set; give also tls_cert and tls_key: there is no TLS without")
        }
        (None, None) => return Ok(None),
    };
    Ok(Some(TlsFiles {
        certificate: absolute(certificate)?,
        key: absolute(key)?,
        client_authority: client_authority.map(absolute).transpose()?,
    }))
}

impl Config {
    /// URL of one of the listeners at its address.
    #[must_use]
    pub fn listener_url(&self, address: SocketAddr) -> String {
        let scheme = match self.tls_files {
            Some(_) => "https",
            None => "http",
        };
        format!("{scheme}://{address}")
    }
}
