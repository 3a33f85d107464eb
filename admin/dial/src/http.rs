//! HTTP client that dials through the guard.
//!
//! `reqwest` asks a resolver for names only: an address in a URL is dialled as it stands. Only the
//! choice of a proxy sees every target before it is dialled. So a target that may not be dialled is
//! sent through a proxy whose name does not resolve, which ends in the same error as any other such
//! name.

use crate::policy::{DialError, DialPolicy};
use crate::tls;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::redirect::Policy;
use reqwest::{Client, Proxy, Url};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio_rustls::rustls;
use url::Host;

/// Longest time to connect, including the lookup and all addresses.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// Longest time that a server may be silent, and that sending a request may take.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// Time after which an idle connection is closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Name that never resolves (RFC 6761), and is never looked up here.
const NOWHERE: &str = "refused.invalid";
const NOWHERE_URL: &str = "http://refused.invalid";

/// Reason that the HTTP client could not be set up.
#[derive(Debug, Error)]
pub enum HttpSetupError {
    /// Error of the TLS library.
    #[error("TLS cannot be set up: {0}")]
    Tls(#[from] rustls::Error),
    /// Error of the HTTP library.
    #[error("the HTTP client cannot be set up: {0}")]
    Http(#[from] reqwest::Error),
}

pub(crate) fn client(policy: &DialPolicy) -> Result<Client, HttpSetupError> {
    let gate = policy.clone();
    let refuse = Proxy::custom(move |url| (!may_be_dialled(&gate, url)).then_some(NOWHERE_URL));
    let client = Client::builder()
        .tls_backend_preconfigured(tls::client(tls::authorities())?)
        .dns_resolver(Arc::new(GuardedResolver(policy.clone())))
        .redirect(Policy::none())
        .no_proxy()
        .proxy(refuse)
        .referer(false)
        .user_agent("millrace")
        .connect_timeout(CONNECT_TIMEOUT)
        .read_timeout(READ_TIMEOUT)
        .pool_idle_timeout(IDLE_TIMEOUT)
        .build()?;
    Ok(client)
}

/// Checks addresses in URLs; names are checked when they are resolved.
fn may_be_dialled(policy: &DialPolicy, url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => policy.permits(IpAddr::V4(address)),
        Some(Host::Ipv6(address)) => policy.permits(IpAddr::V6(address)),
        Some(Host::Domain(_)) => true,
        None => false,
    }
}

struct GuardedResolver(DialPolicy);

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let policy = self.0.clone();
        Box::pin(async move {
            if name.as_str() == NOWHERE {
                return Err(DialError::NoAddress.into());
            }
            let addresses = policy.addresses(name.as_str()).await?;
            // The URL has the port.
            let addresses = addresses
                .into_iter()
                .map(|address| SocketAddr::new(address, 0));
            Ok(Box::new(addresses) as Addrs)
        })
    }
}
