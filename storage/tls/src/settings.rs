//! Settings of handshakes, from the content of the files.

use crate::error::TlsError;
use crate::files::TlsMaterial;
use std::sync::Arc;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

/// Protocol that listeners speak, as ALPN names it. Clients that do not ask for one have it, too.
const HTTP_1_1: &[u8] = b"http/1.1";

/// Use of client certificates by a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientCertificates {
    /// Required, where there is an authority for them.
    Required,
    /// Never asked for: probes have none.
    NotAsked,
}

/// Settings of all listeners, which share a certificate.
pub(crate) struct ListenerSettings {
    required: Arc<ServerConfig>,
    not_asked: Arc<ServerConfig>,
}

// === impl ListenerSettings ===

impl ListenerSettings {
    /// Builds the settings.
    ///
    /// # Errors
    /// When certificate and key do not belong together, or an authority cannot be used.
    pub(crate) fn new(material: &TlsMaterial) -> Result<Self, TlsError> {
        let not_asked = Arc::new(settings(material, None)?);
        let required = match &material.client_authorities {
            Some(authorities) => Arc::new(settings(material, Some(authorities))?),
            None => Arc::clone(&not_asked),
        };
        Ok(Self {
            required,
            not_asked,
        })
    }

    /// Settings of a listener.
    pub(crate) fn of(&self, clients: ClientCertificates) -> Arc<ServerConfig> {
        Arc::clone(match clients {
            ClientCertificates::Required => &self.required,
            ClientCertificates::NotAsked => &self.not_asked,
        })
    }
}

/// Builds the settings of one kind of listener. Tickets are encrypted by keys of these settings
/// alone: a client resumes no session that an earlier authority let in.
fn settings(
    material: &TlsMaterial,
    authorities: Option<&RootCertStore>,
) -> Result<ServerConfig, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder.with_safe_default_protocol_versions();
    let builder = builder.map_err(TlsError::Library)?;
    let builder = match authorities {
        None => builder.with_no_client_auth(),
        Some(authorities) => {
            let authorities = Arc::new(authorities.clone());
            let verifier = WebPkiClientVerifier::builder_with_provider(authorities, provider);
            builder.with_client_cert_verifier(verifier.build().map_err(TlsError::Authority)?)
        }
    };
    let (chain, key) = (material.chain.clone(), material.key.clone_key());
    let settings = builder.with_single_cert(chain, key);
    let mut settings = settings.map_err(TlsError::Certificate)?;
    settings.alpn_protocols = vec![HTTP_1_1.to_vec()];
    settings.ticketer = ring::Ticketer::new().map_err(TlsError::Library)?;
    Ok(settings)
}
