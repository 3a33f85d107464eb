//! Name resolution.

use async_trait::async_trait;
use std::io;
use std::net::IpAddr;

/// Resolves names. Its answers are not trusted: the guard checks every address.
#[async_trait]
pub trait Resolver: Send + Sync {
    /// Returns all addresses of a name, in the order in which to try them.
    ///
    /// # Errors
    /// The name has no address, or could not be looked up.
    async fn addresses(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// Resolver of the operating system: its hosts file and its nameservers.
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
