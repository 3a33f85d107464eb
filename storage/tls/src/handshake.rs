//! Handshake of a connection.
//!
//! What costs most is one signature with the server's key, of 0.05 ms (ECDSA) to several (RSA). It
//! is made on the core of the connection, in turn: after each, all tasks of the core that are ready
//! have theirs. So handshakes that come all at once delay requests by one signature each, and use
//! all of a core that has nothing else to do. Bytes of clients are waited for without the turn.

use crate::metrics;
use crate::pending::PendingHandshakes;
use crate::server_tls::ServerTls;
use crate::settings::ClientCertificates;
use std::io;
use std::time::Duration;
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::yield_now;
use tokio::time::timeout;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::rustls::server::Acceptor;

/// Socket of a client, behind its handshake.
pub type TlsStream = tokio_rustls::server::TlsStream<TcpStream>;

/// Bytes that wait for the socket beside those that the kernel has: more than these are not taken,
/// so that the pace of a client is seen.
const UNSENT_BYTES_MAX: usize = 16 << 10;

/// Limits of the handshakes of a listener.
#[derive(Clone, Copy, Debug)]
pub struct HandshakeLimits {
    /// Time of a handshake, from the first byte to the last.
    pub timeout: Duration,
    /// Handshakes at once; one more ends the oldest.
    pub count_max: usize,
}

/// Handshakes of one listener, or of one core's part of it.
#[derive(Debug)]
pub struct Handshaker {
    tls: ServerTls,
    /// Name of the listener in metrics.
    listener: &'static str,
    clients: ClientCertificates,
    timeout: Duration,
    pending: PendingHandshakes,
    /// Turn to sign.
    turn: Semaphore,
}

/// Reason why a connection has no TLS.
#[derive(Debug, Error)]
pub enum HandshakeError {
    /// The client speaks HTTP without TLS; here is its socket, of which nothing was read.
    #[error("the client speaks HTTP without TLS")]
    PlainHttp(TcpStream),
    /// It took too long.
    #[error("the handshake took too long")]
    TimedOut,
    /// Its place was needed for another one.
    #[error("the handshake gave way to others")]
    Displaced,
    /// The client went away, or does not agree.
    #[error("{0}")]
    Failed(#[from] io::Error),
}

impl Default for HandshakeLimits {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(10),
            count_max: 512,
        }
    }
}

// === impl Handshaker ===

impl Handshaker {
    /// Returns the handshakes of a listener; `listener` is its name in metrics.
    #[must_use]
    pub fn new(
        tls: ServerTls,
        listener: &'static str,
        clients: ClientCertificates,
        limits: HandshakeLimits,
    ) -> Self {
        Self {
            tls,
            listener,
            clients,
            timeout: limits.timeout,
            pending: PendingHandshakes::new(limits.count_max),
            turn: Semaphore::new(1),
        }
    }

    /// Makes the handshake of a connection that was accepted.
    ///
    /// # Errors
    /// When there is none in time. The client was told by an alert where it can be.
    pub async fn accept(&self, tcp: TcpStream) -> Result<TlsStream, HandshakeError> {
        let place = self.pending.begin();
        let done = tokio::select! {
            done = timeout(self.timeout, self.handshake(tcp)) => {
                done.unwrap_or(Err(HandshakeError::TimedOut))
            }
            () = place.displaced() => Err(HandshakeError::Displaced),
        };
        let outcome = match &done {
            Ok(_) => "done",
            Err(HandshakeError::PlainHttp(_)) => "plain_http",
            Err(HandshakeError::TimedOut) => "timeout",
            Err(HandshakeError::Displaced) => "displaced",
            Err(HandshakeError::Failed(_)) => "failed",
        };
        metrics::handshake(self.listener, outcome);
        done
    }

    async fn handshake(&self, tcp: TcpStream) -> Result<TlsStream, HandshakeError> {
        let mut first = [0];
        // A letter begins a method of HTTP, and no record of TLS.
        if tcp.peek(&mut first).await? > 0 && first.first().is_some_and(u8::is_ascii_uppercase) {
            return Err(HandshakeError::PlainHttp(tcp));
        }
        let hello = LazyConfigAcceptor::new(Acceptor::default(), tcp).await?;
        let accepting = {
            // Never closed, so this never fails.
            let turn = self.turn.acquire().await;
            let settings = self.tls.settings(self.clients);
            let accepting = hello.into_stream_with(settings, |connection| {
                connection.set_buffer_limit(Some(UNSENT_BYTES_MAX));
            });
            yield_now().await;
            drop(turn);
            accepting
        };
        Ok(accepting.await?)
    }
}
