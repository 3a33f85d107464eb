//! HTTPS request to a domain that validates its certificate.

use crate::dns::{Dns, DnsError};
use http::header::{HOST, USER_AGENT};
use http::{Request, StatusCode};
use http_body_util::Empty;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use millrace_dial::addresses::is_public;
use millrace_dial::tls;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::Error as TlsError;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};

/// Timeout of the whole probe, address lookup included.
const PROBE_TIMEOUT: Duration = Duration::from_secs(15);
/// Timeout of a connection to one address.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(4);

/// Options of a probe.
#[derive(Clone, Debug)]
pub struct ProbeOptions {
    /// Port to connect to; 443 by default.
    pub port: u16,
    /// True if addresses of private networks may be probed.
    pub allow_private: bool,
    /// Certificate (PEM) to trust beside the system's authorities.
    pub authority: Option<Vec<u8>>,
}

impl Default for ProbeOptions {
    fn default() -> Self {
        Self {
            port: 443,
            allow_private: false,
            authority: None,
        }
    }
}

/// Failure of a probe, in words for the owner of the domain.
#[derive(Debug, Error)]
pub enum ProbeError {
    /// The nameserver does not answer.
    #[error("{0}")]
    Dns(#[from] DnsError),
    /// The name has no address.
    #[error("the name has no address")]
    NoAddress,
    /// All addresses are of private networks.
    #[error("the name leads to no public address")]
    Private,
    /// No connection could be made.
    #[error("no connection could be made ({0})")]
    Connect(io::ErrorKind),
    /// The certificate is expired, for another name, or of an unknown authority.
    #[error("the certificate is not valid for it ({0})")]
    Certificate(TlsError),
    /// The server does not speak TLS, or closed the connection.
    #[error("no encrypted connection could be made")]
    Tls,
    /// The server speaks TLS, but not HTTP.
    #[error("what answers does not speak HTTP")]
    Http(#[from] hyper::Error),
    /// The probe timed out.
    #[error("it did not answer in time")]
    TimedOut,
}

/// Client that probes domains by HTTPS.
#[derive(Clone)]
pub struct HttpsProbe {
    connector: TlsConnector,
    port: u16,
    allow_private: bool,
    timeout: Duration,
    connect_timeout: Duration,
}

impl HttpsProbe {
    /// Creates a client that trusts the system's certificate authorities.
    ///
    /// # Errors
    ///
    /// The options' authority is no certificate.
    pub fn new(options: &ProbeOptions) -> Result<Self, TlsError> {
        let mut authorities = tls::authorities();
        if let Some(pem) = &options.authority {
            let certificate = CertificateDer::from_pem_slice(pem)
                .map_err(|error| TlsError::General(error.to_string()))?;
            authorities.add(certificate)?;
        }
        Ok(Self {
            connector: Arc::new(tls::client(authorities)?).into(),
            port: options.port,
            allow_private: options.allow_private,
            timeout: PROBE_TIMEOUT,
            connect_timeout: CONNECT_TIMEOUT,
        })
    }

    /// Status of `https://<domain>/`. Any status proves that TLS is valid.
    ///
    /// # Errors
    ///
    /// The domain did not answer by valid HTTPS in time.
    pub async fn status(&self, dns: &Dns, domain: &str) -> Result<StatusCode, ProbeError> {
        let asked = async {
            let stream = self.connect(&self.addresses(dns, domain).await?).await?;
            let stream = self.encrypt(stream, domain).await?;
            ask(stream, domain).await
        };
        let answered = timeout(self.timeout, asked).await;
        answered.unwrap_or(Err(ProbeError::TimedOut))
    }

    async fn addresses(&self, dns: &Dns, domain: &str) -> Result<Vec<IpAddr>, ProbeError> {
        let mut addresses = dns.addresses(domain).await?;
        if addresses.is_empty() {
            return Err(ProbeError::NoAddress);
        }
        addresses.retain(|address| self.allow_private || is_public(*address));
        if addresses.is_empty() {
            return Err(ProbeError::Private);
        }
        Ok(addresses)
    }

    /// Connects to the first address that accepts.
    async fn connect(&self, addresses: &[IpAddr]) -> Result<TcpStream, ProbeError> {
        let mut last = ProbeError::NoAddress;
        for address in addresses {
            let connecting = TcpStream::connect((*address, self.port));
            match timeout(self.connect_timeout, connecting).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => last = ProbeError::Connect(error.kind()),
                Err(_) => last = ProbeError::TimedOut,
            }
        }
        Err(last)
    }

    async fn encrypt(
        &self,
        stream: TcpStream,
        domain: &str,
    ) -> Result<TlsStream<TcpStream>, ProbeError> {
        let name = ServerName::try_from(domain.to_owned()).map_err(|_| ProbeError::NoAddress)?;
        let encrypted = self.connector.connect(name, stream).await;
        encrypted.map_err(|error| {
            let reason = error.get_ref().and_then(|inner| inner.downcast_ref());
            match reason {
                Some(reason @ TlsError::InvalidCertificate(_)) => {
                    ProbeError::Certificate(reason.clone())
                }
                _ => ProbeError::Tls,
            }
        })
    }
}

async fn ask(stream: TlsStream<TcpStream>, domain: &str) -> Result<StatusCode, ProbeError> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // Aborted below, after the response.
    let driver = tokio::spawn(connection);
    let mut request = Request::new(Empty::<Bytes>::new());
    let headers = request.headers_mut();
    if let Ok(host) = domain.parse() {
        headers.insert(HOST, host);
    }
    headers.insert(USER_AGENT, http::HeaderValue::from_static("millrace"));
    let answered = sender.send_request(request).await;
    driver.abort();
    Ok(answered?.status())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::{TcpListener, TcpSocket, UdpSocket};

    /// Limit of a wait that ends by nothing else.
    const SOON: Duration = Duration::from_millis(50);
    /// Limit that no test reaches.
    const NEVER: Duration = Duration::from_secs(3_600);
    /// Longest wait for a probe that should have been given up.
    const TEST_TIMEOUT: Duration = Duration::from_secs(60);

    fn probe(port: u16) -> HttpsProbe {
        let options = ProbeOptions {
            port,
            allow_private: true,
            authority: None,
        };
        HttpsProbe::new(&options).unwrap()
    }

    #[test]
    fn a_probe_has_fifteen_seconds_and_each_address_four() {
        let probe = probe(443);
        let limits = [probe.timeout, probe.connect_timeout];
        assert_eq!(limits.map(|limit| limit.as_secs()), [15, 4]);
    }

    #[tokio::test]
    async fn a_nameserver_and_a_server_that_say_nothing_are_given_up() {
        let silent = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let dns = Dns::with_timeout(silent.local_addr().ok(), NEVER);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut probe = probe(listener.local_addr().unwrap().port());
        probe.timeout = SOON;
        // Names below `localhost` have an address without a nameserver.
        for domain in ["silent.example", "silent.localhost"] {
            let status = timeout(TEST_TIMEOUT, probe.status(&dns, domain)).await;
            let is_given_up = matches!(status, Ok(Err(ProbeError::TimedOut)));
            assert!(is_given_up, "{domain}: {status:?}");
        }
    }

    #[tokio::test]
    async fn an_address_that_does_not_accept_is_given_up_for_the_next() {
        let full = TcpSocket::new_v4().unwrap();
        full.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let full = full.listen(1).unwrap();
        let address = full.local_addr().unwrap();
        // Connections wait for their turn until there is no capacity for one more.
        let mut waiting = Vec::new();
        while let Ok(stream) = timeout(10 * SOON, TcpStream::connect(address)).await {
            waiting.push(stream.unwrap());
            assert!(waiting.len() < 100, "there is capacity for any number");
        }
        let port = address.port();
        let other = TcpListener::bind(("127.0.0.2", port)).await.unwrap();
        let mut probe = probe(port);
        probe.connect_timeout = SOON;
        let addresses: [IpAddr; 2] = ["127.0.0.1", "127.0.0.2"].map(|it| it.parse().unwrap());
        let connected = timeout(TEST_TIMEOUT, probe.connect(&addresses)).await;
        let reached = connected.unwrap().unwrap().peer_addr().unwrap();
        assert_eq!(reached, other.local_addr().unwrap());
        let connected = timeout(TEST_TIMEOUT, probe.connect(&addresses[..1])).await;
        let is_given_up = matches!(connected, Ok(Err(ProbeError::TimedOut)));
        assert!(is_given_up, "{connected:?}");
    }
}
