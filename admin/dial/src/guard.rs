//! The one way out.

use crate::addresses::is_public;
use crate::http::{self, HttpSetupError};
use crate::resolver::{Resolver, SystemResolver};
use std::error::Error;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::rustls::pki_types::InvalidDnsNameError;
use url::Host;

/// How long a name may take to become addresses.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);
/// How long one address may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The most addresses of a name that are tried.
const ADDRESSES_MAX: usize = 8;

/// Why there is no connection, in words that customers may read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DialError {
    /// The name does not resolve, or all it leads to is none of the customers' business. Nobody is
    /// told which of them it is.
    #[error("the server's name leads to no address that can be used")]
    NoAddress,
    /// Nobody listens, or no way leads there.
    #[error("no connection could be made to the server ({0})")]
    Connect(io::ErrorKind),
    /// It does not answer.
    #[error("the server did not accept a connection in time")]
    TimedOut,
}

impl DialError {
    /// What it was if an HTTP client of a guard did not come to a connection or an answer.
    #[must_use]
    pub fn of(error: &reqwest::Error) -> Option<Self> {
        // A name that TLS takes for none is not looked up.
        if error.is_dns() || in_chain::<InvalidDnsNameError>(error).is_some() {
            Some(Self::NoAddress)
        } else if error.is_timeout() {
            Some(Self::TimedOut)
        } else if error.is_connect() {
            let kind = in_chain(error).map_or(io::ErrorKind::Other, io::Error::kind);
            Some(Self::Connect(kind))
        } else {
            None
        }
    }
}

/// The innermost cause of a type.
fn in_chain<'a, T: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a T> {
    let chain = std::iter::successors(Some(error), |error| (*error).source());
    chain.filter_map(|error| error.downcast_ref()).last()
}

/// Whose connections go to the internet only, unless private networks are allowed.
#[derive(Clone, Debug)]
pub struct Guard {
    admission: Admission,
    client: reqwest::Client,
}

impl Guard {
    /// With the system's resolver and the system's certificate authorities.
    ///
    /// # Errors
    /// TLS cannot be set up.
    pub fn new(allow_private: bool) -> Result<Self, HttpSetupError> {
        Self::with_resolver(allow_private, Arc::new(SystemResolver))
    }

    /// With another resolver.
    ///
    /// # Errors
    /// TLS cannot be set up.
    pub fn with_resolver(
        allow_private: bool,
        resolver: Arc<dyn Resolver>,
    ) -> Result<Self, HttpSetupError> {
        let admission = Admission {
            allow_private,
            resolver,
        };
        let client = http::client(&admission)?;
        Ok(Self { admission, client })
    }

    /// Whether private networks are no worse than the internet.
    #[must_use]
    pub fn allows_private(&self) -> bool {
        self.admission.allow_private
    }

    /// The addresses of a host, a name or an address in any notation, that may be dialled now.
    ///
    /// # Errors
    /// [`DialError::NoAddress`]: there are none.
    pub async fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, DialError> {
        self.admission.addresses(host).await
    }

    /// A connection to the first address of a host that accepts one.
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

    /// An HTTP client whose every connection goes through this guard: names, addresses in URLs,
    /// whatever it is. It follows no redirects, knows no proxies, and gives up on a connection
    /// after 15 s and on a silent server after a minute. What is refused is an error of which
    /// `is_dns` is true, as for a name that does not resolve.
    #[must_use]
    pub fn http_client(&self) -> reqwest::Client {
        self.client.clone()
    }
}

/// Which addresses may be dialled.
#[derive(Clone)]
pub(crate) struct Admission {
    allow_private: bool,
    resolver: Arc<dyn Resolver>,
}

impl Admission {
    pub(crate) async fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, DialError> {
        let mut addresses = match parsed(host).ok_or(DialError::NoAddress)? {
            Host::Ipv4(address) => vec![address.into()],
            Host::Ipv6(address) => vec![address.into()],
            Host::Domain(name) => self.looked_up(&name).await?,
        };
        addresses.retain(|address| self.admits(*address));
        addresses.truncate(ADDRESSES_MAX);
        if addresses.is_empty() {
            return Err(DialError::NoAddress);
        }
        Ok(addresses)
    }

    /// Whether an address may be dialled.
    pub(crate) fn admits(&self, address: IpAddr) -> bool {
        self.allow_private || is_public(address)
    }

    async fn looked_up(&self, name: &str) -> Result<Vec<IpAddr>, DialError> {
        let found = timeout(LOOKUP_TIMEOUT, self.resolver.addresses(name)).await;
        found.ok().and_then(Result::ok).ok_or(DialError::NoAddress)
    }
}

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admission")
            .field("allow_private", &self.allow_private)
            .finish_non_exhaustive()
    }
}

/// As URLs have it: addresses of version 4 in all their notations are addresses, and names are in
/// ASCII. Addresses of version 6 come with brackets or without.
fn parsed(host: &str) -> Option<Host<String>> {
    let bare = host.parse::<Ipv6Addr>().map(Host::Ipv6);
    bare.or_else(|_| Host::parse(host)).ok()
}
