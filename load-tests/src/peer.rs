//! The server to connect to, and whether it speaks TLS.

use crate::target::Target;
use crate::tls::{Client, Trust};
use anyhow::Result;
use std::io;
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_util::either::Either;

/// An open stream, plain or with TLS.
pub type Stream = Either<TcpStream, Box<TlsStream<TcpStream>>>;

/// A server to connect to.
#[derive(Clone, Debug)]
pub struct Peer {
    authority: String,
    tls: Option<Client>,
}

impl Peer {
    /// Server of a target.
    ///
    /// # Errors
    /// The target uses TLS and [`Client::new`] failed.
    pub fn new(target: &Target, trust: &Trust) -> Result<Self> {
        let tls = target.tls.then(|| Client::new(target, trust)).transpose()?;
        Ok(Self {
            authority: target.authority.clone(),
            tls,
        })
    }

    /// Authority, `host:port`.
    #[must_use]
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Connects; with TLS it completes the handshake.
    ///
    /// # Errors
    /// The server cannot be reached, or is not trusted.
    pub async fn connect(&self) -> io::Result<Stream> {
        let stream = TcpStream::connect(&self.authority).await?;
        stream.set_nodelay(true)?;
        Ok(match &self.tls {
            None => Either::Left(stream),
            Some(tls) => Either::Right(Box::new(tls.open(stream).await?)),
        })
    }
}
