//! Dialler without a guard: all servers of these tests are on loopback.

use async_trait::async_trait;
use millrace_exports::ExportError;
use millrace_exports::destination::dialler::Dialler;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

pub struct Loopback;

#[async_trait]
impl Dialler for Loopback {
    async fn connect(&self, host: &str, port: u16) -> Result<TcpStream, ExportError> {
        assert_eq!(host, "127.0.0.1", "tests dial no other");
        let connected = TcpStream::connect((host, port)).await;
        connected.map_err(|_| ExportError::retryable("The server cannot be reached."))
    }

    fn http_client(&self) -> Result<reqwest::Client, ExportError> {
        let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        let client = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .tls_backend_preconfigured(tls);
        Ok(client.build().unwrap())
    }
}

/// Dialler as destinations take it.
pub fn loopback() -> Arc<dyn Dialler> {
    Arc::new(Loopback)
}
