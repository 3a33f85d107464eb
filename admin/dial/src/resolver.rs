//! How names become addresses.

use async_trait::async_trait;
use std::io;
use std::net::IpAddr;

/// Looks names up. What it answers is not trusted: the guard looks at every address.
#[async_trait]
pub trait Resolver: Send + Sync {
    /// All addresses of a name, those to be tried first in front.
    ///
    /// # Errors
    /// There are none, or nobody knows.
    async fn addresses(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// Asks the system, as every other program does: its files of hosts, its nameservers.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemResolver;

#[async_trait]
impl Resolver for SystemResolver {
    async fn addresses(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        // The port is not looked up.
        let found = tokio::net::lookup_host((name, 0)).await?;
        Ok(found.map(|address| address.ip()).collect())
    }
}
