//! SMTP session that delivers one mail: `lettre`'s client over a connection with a read limit.
//!
//! `lettre` parses whole lines. A line that does not end would be buffered as long as the session
//! lasts, so the connection counts the bytes of the server, TLS included, and fails beyond
//! [`REPLY_BYTES_MAX`].

#![expect(
    deprecated,
    reason = "AsyncNetworkStream alone has TLS from the first byte over a connection of ours"
)]

use super::settings::Server;
use futures_util::io::{AsyncRead as FuturesRead, AsyncWrite as FuturesWrite};
use lettre::Message;
use lettre::transport::smtp::Error as SmtpError;
use lettre::transport::smtp::authentication::DEFAULT_MECHANISMS;
use lettre::transport::smtp::client::{
    AsyncNetworkStream, AsyncSmtpConnection, AsyncTokioStream, Tls,
};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

/// Most bytes that a server may send in a session; a real one sends some kilobytes.
const REPLY_BYTES_MAX: usize = 1 << 20;
/// Timeout of a connection to one address of the server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// Longest wait for the server's answer to `QUIT`.
const QUIT_TIMEOUT: Duration = Duration::from_secs(5);

/// Failure to deliver a mail in a session.
#[derive(Debug, Error)]
pub(super) enum SessionError {
    /// No address of the server could be connected.
    #[error("no connection: {0}")]
    Connection(#[from] io::Error),
    /// The server refused a command, or did not follow SMTP.
    #[error(transparent)]
    Smtp(#[from] SmtpError),
}

/// Delivers one mail over a connection of its own.
///
/// # Errors
///
/// The server cannot be reached, refuses, violates SMTP or TLS, or exceeds the read limit.
pub(super) async fn deliver(server: &Server, message: &Message) -> Result<(), SessionError> {
    let mut connection = log_in(server).await?;
    connection
        .send(message.envelope(), &message.formatted())
        .await?;
    // The mail is accepted: a server that does not answer `QUIT` must not get it again.
    drop(timeout(QUIT_TIMEOUT, connection.abort()).await);
    Ok(())
}

/// Connects, logs in as the settings say, and sends nothing.
///
/// # Errors
///
/// As those of [`deliver`].
pub(super) async fn try_login(server: &Server) -> Result<(), SessionError> {
    let mut connection = log_in(server).await?;
    drop(timeout(QUIT_TIMEOUT, connection.abort()).await);
    Ok(())
}

/// Opens a session, with TLS and a login as the settings say.
async fn log_in(server: &Server) -> Result<AsyncSmtpConnection, SessionError> {
    let stream = Bounded {
        stream: connect(server).await?,
        left: REPLY_BYTES_MAX,
    };
    let mut connection = greet(server, stream).await?;
    if let Some(credentials) = &server.credentials {
        connection.auth(DEFAULT_MECHANISMS, credentials).await?;
    }
    Ok(connection)
}

/// Tries the addresses of the server one after the other.
async fn connect(server: &Server) -> io::Result<TcpStream> {
    let addresses = lookup_host((server.host.as_str(), server.port)).await?;
    first_connected(addresses, TcpStream::connect).await
}

/// Connects to the first address that accepts, one after the other.
async fn first_connected<T, F: Future<Output = io::Result<T>>>(
    addresses: impl Iterator<Item = SocketAddr>,
    dial: impl Fn(SocketAddr) -> F,
) -> io::Result<T> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the server's name has no address");
    for address in addresses {
        match timeout(CONNECT_TIMEOUT, dial(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last = error,
            Err(late) => last = late.into(),
        }
    }
    Err(last)
}

/// Reads the server's greeting, and starts TLS as the settings require.
async fn greet(server: &Server, stream: Bounded) -> Result<AsyncSmtpConnection, SmtpError> {
    let name = &server.greets_as;
    if let Tls::Wrapper(tls) = &server.tls {
        let mut secured = AsyncNetworkStream::use_existing_tokio1(Box::new(stream));
        secured.upgrade_tls(tls.clone()).await?;
        return AsyncSmtpConnection::connect_with_transport(Box::new(Secured(secured)), name).await;
    }
    let mut connection =
        AsyncSmtpConnection::connect_with_transport(Box::new(stream), name).await?;
    match &server.tls {
        Tls::Required(tls) => connection.starttls(tls.clone(), name).await?,
        Tls::Opportunistic(tls) if connection.can_starttls() => {
            connection.starttls(tls.clone(), name).await?;
        }
        _ => {}
    }
    Ok(connection)
}

/// Connection with a limit on the bytes that are read from it.
#[derive(Debug)]
struct Bounded {
    stream: TcpStream,
    left: usize,
}

// === impl Bounded ===

impl AsyncRead for Bounded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.left == 0 {
            let why = format!("the server sent more than {REPLY_BYTES_MAX} bytes");
            return Poll::Ready(Err(io::Error::other(why)));
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        let read = buffer.filled().len() - before;
        self.left = self.left.saturating_sub(read);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Bounded {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

impl AsyncTokioStream for Bounded {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.stream.peer_addr()
    }
}

/// Connection with TLS from the first byte, for `lettre`, which makes one itself only over a
/// connection that it has opened.
#[derive(Debug)]
struct Secured(AsyncNetworkStream);

// === impl Secured ===

impl AsyncRead for Secured {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let unfilled = buffer.initialize_unfilled();
        let read = ready!(FuturesRead::poll_read(
            Pin::new(&mut self.0),
            context,
            unfilled
        ))?;
        buffer.advance(read);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Secured {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        FuturesWrite::poll_write(Pin::new(&mut self.0), context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        FuturesWrite::poll_flush(Pin::new(&mut self.0), context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        FuturesWrite::poll_close(Pin::new(&mut self.0), context)
    }
}

impl AsyncTokioStream for Secured {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.peer_addr()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;
    use tokio::time::Instant;

    #[tokio::test(start_paused = true)]
    async fn an_address_has_fifteen_seconds_to_be_connected() {
        const SILENT: u16 = 1;
        let dial = |address: SocketAddr| async move {
            match address.port() {
                SILENT => pending().await,
                port => Ok::<u16, io::Error>(port),
            }
        };
        // Ports of the addresses, the one that is connected, and the seconds until then.
        let table = [
            (vec![25], Some(25), 0),
            (vec![SILENT, 25, SILENT], Some(25), 15),
            (vec![SILENT, SILENT], None, 30),
            (vec![], None, 0),
        ];
        for (ports, expected, seconds) in table {
            let began = Instant::now();
            let addresses = ports
                .iter()
                .map(|port| SocketAddr::from(([192, 0, 2, 1], *port)));
            let connected = first_connected(addresses, dial).await;
            assert_eq!(connected.ok(), expected, "{ports:?}");
            assert_eq!(began.elapsed(), Duration::from_secs(seconds), "{ports:?}");
        }
    }
}
