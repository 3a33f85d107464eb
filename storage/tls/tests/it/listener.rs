//! Listener of one test.

use millrace_tls::{ClientCertificates, HandshakeError, HandshakeLimits, Handshaker, ServerTls};
use millrace_tls::{TlsFiles, TlsStream};
use std::io;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::{TlsConnector, client};

/// Name in the certificates of these tests.
pub const NAME: &str = "localhost";

/// Ends of one handshake: the client's and the server's.
pub type Ends = (
    io::Result<client::TlsStream<TcpStream>>,
    Result<TlsStream, HandshakeError>,
);

pub struct Listener {
    tcp: TcpListener,
    pub tls: ServerTls,
    pub handshaker: Handshaker,
}

impl Listener {
    pub async fn new(
        files: TlsFiles,
        clients: ClientCertificates,
        limits: HandshakeLimits,
    ) -> Self {
        let tls = ServerTls::load(files).unwrap();
        Self {
            tcp: TcpListener::bind("127.0.0.1:0").await.unwrap(),
            handshaker: Handshaker::new(tls.clone(), "test", clients, limits),
            tls,
        }
    }

    /// Connects without TLS, and returns the sockets of client and server.
    pub async fn plain(&self) -> (TcpStream, TcpStream) {
        let address = self.tcp.local_addr().unwrap();
        let (client, accepted) = tokio::join!(TcpStream::connect(address), self.tcp.accept());
        (client.unwrap(), accepted.unwrap().0)
    }

    /// Connects with TLS.
    pub async fn shake_hands(&self, client: &ClientConfig) -> Ends {
        let (tcp, accepted) = self.plain().await;
        let connector = TlsConnector::from(Arc::new(client.clone()));
        let name = ServerName::try_from(NAME).unwrap();
        tokio::join!(
            connector.connect(name, tcp),
            self.handshaker.accept(accepted)
        )
    }
}
