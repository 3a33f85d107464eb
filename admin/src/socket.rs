//! Socket of a connection, behind its handshake where there is TLS.

use crate::stopping::Stopping;
use millrace_tls::{
    ClientCertificates, HandshakeError, HandshakeLimits, Handshaker, ServerTls, TlsStream,
};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_util::either::Either;

/// Time that a client without TLS may take to read its response.
const RESPOND_TIMEOUT: Duration = Duration::from_secs(1);
/// Body of the response to HTTP without TLS, where there is TLS.
const HTTPS_REQUIRED: &str = r#"{"type":"invalid_request","code":"https_required","detail":"This port takes HTTPS only: begin the URL with https.","attr":null}"#;

/// Socket with TLS or without.
pub(crate) type Socket = Either<TcpStream, TlsStream>;

/// Handshakes of the API.
pub(crate) fn handshaker(tls: ServerTls) -> Handshaker {
    let limits = HandshakeLimits::default();
    Handshaker::new(tls, "admin", ClientCertificates::Required, limits)
}

/// Makes the handshake of a connection, if there is TLS; `None` if there is no use in it. One that
/// stalls while the server stops is not waited for.
pub(crate) async fn socket(
    tcp: TcpStream,
    handshaker: Option<&Handshaker>,
    stopping: &Stopping,
) -> Option<Socket> {
    let Some(handshaker) = handshaker else {
        return Some(Either::Left(tcp));
    };
    let done = tokio::select! {
        done = handshaker.accept(tcp) => done,
        () = stopping.stalled() => return None,
    };
    match done {
        Ok(stream) => return Some(Either::Right(stream)),
        Err(HandshakeError::PlainHttp(tcp)) => {
            // Neither a slow nor a broken client changes anything here.
            let _ = timeout(RESPOND_TIMEOUT, require_https(tcp)).await;
        }
        Err(error) => tracing::debug!(%error, "a TLS handshake with the admin API failed"),
    }
    None
}

/// Answers 400 to a client that speaks HTTP without TLS.
async fn require_https(mut tcp: TcpStream) -> io::Result<()> {
    let response = format!(
        "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{HTTPS_REQUIRED}",
        HTTPS_REQUIRED.len()
    );
    tcp.write_all(response.as_bytes()).await?;
    tcp.shutdown().await?;
    // Closing before the request was read would reset the connection, and the response with it.
    let mut scratch = [0; 4 << 10];
    while tcp.read(&mut scratch).await? > 0 {}
    Ok(())
}
