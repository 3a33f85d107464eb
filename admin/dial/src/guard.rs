//! SSRF egress guard: the only place that opens connections to customers' addresses.

use crate::http::{self, HttpSetupError};
use crate::policy::{DialError, DialPolicy};
use crate::resolver::{Resolver, SystemResolver};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Longest time that one address may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Opens connections to the public internet only, unless private networks are allowed.
#[derive(Clone, Debug)]
pub struct Guard {
    policy: DialPolicy,
    client: reqwest::Client,
}

impl Guard {
    /// Creates a guard with the system's resolver and certificate authorities.
    ///
    /// # Errors
    /// TLS cannot be set up.
    pub fn new(allow_private: bool) -> Result<Self, HttpSetupError> {
        Self::with_resolver(allow_private, Arc::new(SystemResolver))
    }

    /// Creates a guard with another resolver.
    ///
    /// # Errors
    /// TLS cannot be set up.
    pub fn with_resolver(
        allow_private: bool,
        resolver: Arc<dyn Resolver>,
    ) -> Result<Self, HttpSetupError> {
        let policy = DialPolicy {
            allow_private,
            resolver,
        };
        let client = http::client(&policy)?;
        Ok(Self { policy, client })
    }

    /// Returns true if private networks may be dialled, too.
    #[must_use]
    pub fn allows_private(&self) -> bool {
        self.policy.allow_private
    }

    /// Addresses of a host that may be dialled now. The host is a name, or an address in any
    /// notation.
    ///
    /// # Errors
    /// [`DialError::NoAddress`] if there are none.
    pub async fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, DialError> {
        self.policy.addresses(host).await
    }

    /// Connects to the first address of a host that accepts a connection.
    ///
    /// # Errors
    /// No address may be dialled, or none accepts.
    pub async fn connect(&self, host: &str, port: u16) -> Result<TcpStream, DialError> {
        let mut last = DialError::NoAddress;
        for address in self.addresses(host).await? {
            let connecting = TcpStream::connect(SocketAddr::new(address, port));
            match timeout(CONNECT_TIMEOUT, connecting).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => last = DialError::Connect(error.kind()),
                Err(_) => last = DialError::TimedOut,
            }
        }
        Err(last)
    }

    /// HTTP client whose every connection goes through this guard, whether a URL has a name or an
    /// address. It follows no redirects, uses no proxies, and gives up on a connection after 15 s
    /// and on a silent server after a minute. A refused target ends in an error of which `is_dns`
    /// is true, as for a name that does not resolve.
    #[must_use]
    pub fn http_client(&self) -> reqwest::Client {
        self.client.clone()
    }
}
