//! An HTTP client that goes the guard's way.
//!
//! `reqwest` asks a resolver for names only: an address in a URL is dialled as it stands. There is
//! one place that sees every target before it is dialled, the choice of a proxy; so a target that
//! may not be dialled is sent by a proxy whose name resolves to nothing, which ends in the same
//! error as any other name that does not.

use crate::guard::{Admission, DialError};
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

/// How long a connection may take, its lookup and all addresses included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// How long a server may be silent; also, how long a request may take to be sent.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a connection is kept that nobody uses.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// A name that never resolves (RFC 6761), and is never looked up here.
const NOWHERE: &str = "refused.invalid";
const NOWHERE_URL: &str = "http://refused.invalid";

/// Why there is no HTTP client.
#[derive(Debug, Error)]
pub enum HttpSetupError {
    /// Of the TLS library.
    #[error("TLS cannot be set up: {0}")]
    Tls(#[from] rustls::Error),
    /// Of the HTTP library.
    #[error("the HTTP client cannot be set up: {0}")]
    Http(#[from] reqwest::Error),
}

pub(crate) fn client(admission: &Admission) -> Result<Client, HttpSetupError> {
    let gate = admission.clone();
    let refuse = Proxy::custom(move |url| (!may_be_tried(&gate, url)).then_some(NOWHERE_URL));
    let client = Client::builder()
        .tls_backend_preconfigured(tls::client(tls::authorities())?)
        .dns_resolver(Arc::new(GuardedResolver(admission.clone())))
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

/// Addresses are looked at here, names when they are resolved.
fn may_be_tried(admission: &Admission, url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => admission.admits(IpAddr::V4(address)),
        Some(Host::Ipv6(address)) => admission.admits(IpAddr::V6(address)),
        Some(Host::Domain(_)) => true,
        None => false,
    }
}

struct GuardedResolver(Admission);

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let admission = self.0.clone();
        Box::pin(async move {
            if name.as_str() == NOWHERE {
                return Err(DialError::NoAddress.into());
            }
            let addresses = admission.addresses(name.as_str()).await?;
            // The URL has the port.
            let addresses = addresses
                .into_iter()
                .map(|address| SocketAddr::new(address, 0));
            Ok(Box::new(addresses) as Addrs)
        })
    }
}
