//! Policy of the guard: addresses that may be dialled, and the reasons that none was.

use crate::addresses::is_public;
use crate::resolver::Resolver;
use std::error::Error;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use tokio_rustls::rustls::pki_types::InvalidDnsNameError;
use url::Host;

/// Longest time to resolve a name.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);
/// Addresses of a name that are tried at most.
const ADDRESSES_MAX: usize = 8;

/// Reason that no connection was made, in words that customers may read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DialError {
    /// The name does not resolve, or leads only to addresses that may not be dialled. Customers are
    /// not told which of the two it is.
    #[error("the server's name leads to no address that can be used")]
    NoAddress,
    /// Nobody listens at the address, or there is no route to it.
    #[error("no connection could be made to the server ({0})")]
    Connect(io::ErrorKind),
    /// The server does not answer.
    #[error("the server did not accept a connection in time")]
    TimedOut,
}

impl DialError {
    /// Returns the reason that an HTTP client of a guard got no connection or no answer.
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

/// Innermost cause of a type in an error's chain.
fn in_chain<'a, T: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a T> {
    let chain = std::iter::successors(Some(error), |error| (*error).source());
    chain.filter_map(|error| error.downcast_ref()).last()
}

/// Decides which addresses may be dialled, after resolving names.
#[derive(Clone)]
pub(crate) struct DialPolicy {
    pub(crate) allow_private: bool,
    pub(crate) resolver: Arc<dyn Resolver>,
}

impl DialPolicy {
    pub(crate) async fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, DialError> {
        let mut addresses = match parse_host(host).ok_or(DialError::NoAddress)? {
            Host::Ipv4(address) => vec![address.into()],
            Host::Ipv6(address) => vec![address.into()],
            Host::Domain(name) => self.resolve(&name).await?,
        };
        addresses.retain(|address| self.permits(*address));
        addresses.truncate(ADDRESSES_MAX);
        if addresses.is_empty() {
            return Err(DialError::NoAddress);
        }
        Ok(addresses)
    }

    /// Returns true if an address may be dialled.
    pub(crate) fn permits(&self, address: IpAddr) -> bool {
        self.allow_private || is_public(address)
    }

    async fn resolve(&self, name: &str) -> Result<Vec<IpAddr>, DialError> {
        let found = timeout(LOOKUP_TIMEOUT, self.resolver.addresses(name)).await;
        found.ok().and_then(Result::ok).ok_or(DialError::NoAddress)
    }
}

impl fmt::Debug for DialPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DialPolicy")
            .field("allow_private", &self.allow_private)
            .finish_non_exhaustive()
    }
}

/// Parses a host as URLs do: every notation of an address of version 4 is an address, and names are
/// converted to ASCII. Addresses of version 6 come with brackets or without.
fn parse_host(host: &str) -> Option<Host<String>> {
    let bare = host.parse::<Ipv6Addr>().map(Host::Ipv6);
    bare.or_else(|_| Host::parse(host)).ok()
}
