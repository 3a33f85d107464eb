//! Socket of a connection, with TLS or without.
//!
//! Whatever serves a connection is built once for each, so a plain connection costs what it would
//! cost without TLS.

use millrace_tls::{ClientCertificates, HandshakeLimits, Handshaker, ServerTls, TlsStream};
use std::fmt::Debug;
use std::pin::Pin;
use std::task::{Context, Waker};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// Socket that carries requests and responses.
pub trait Transport: AsyncRead + AsyncWrite + Unpin + Debug {
    /// True if requests lie in the kernel as they were sent, so that they can be looked at there.
    const IS_PLAIN: bool;

    /// Socket below.
    fn tcp(&mut self) -> &mut TcpStream;

    /// Writes as much as the socket takes at once.
    fn write_at_once(&mut self, bytes: &[u8]);
}

impl Transport for TcpStream {
    const IS_PLAIN: bool = true;

    fn tcp(&mut self) -> &mut TcpStream {
        self
    }

    fn write_at_once(&mut self, bytes: &[u8]) {
        let _ = self.try_write(bytes);
    }
}

impl Transport for TlsStream {
    const IS_PLAIN: bool = false;

    fn tcp(&mut self) -> &mut TcpStream {
        self.get_mut().0
    }

    fn write_at_once(&mut self, bytes: &[u8]) {
        // Nobody waits for the rest.
        let mut context = Context::from_waker(Waker::noop());
        let mut stream = Pin::new(self);
        let written = stream.as_mut().poll_write(&mut context, bytes);
        if written.is_ready() {
            let _ = stream.poll_flush(&mut context);
        }
    }
}

/// Handshakes of the listener for events.
pub fn handshaker(tls: ServerTls, limits: HandshakeLimits) -> Handshaker {
    Handshaker::new(tls, "ingest", ClientCertificates::Required, limits)
}
