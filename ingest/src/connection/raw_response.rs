//! Error responses that are written without hyper.

use millrace_parse::ApiError;
use millrace_tls::{HandshakeError, Handshaker};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Time that a refused connection may take to read its response.
const RESPOND_TIMEOUT: Duration = Duration::from_secs(1);

/// Responds to a connection whose request is not looked at, behind its handshake where there is
/// TLS, and closes it.
pub async fn respond_and_close(tcp: TcpStream, handshaker: Option<&Handshaker>, response: &[u8]) {
    let responding = async {
        let Some(handshaker) = handshaker else {
            return respond(tcp, response).await;
        };
        match handshaker.accept(tcp).await {
            Ok(stream) => respond(stream, response).await,
            Err(HandshakeError::PlainHttp(tcp)) => respond(tcp, &https_required()).await,
            Err(error) => Err(io::Error::other(error)),
        }
    };
    // Neither a slow nor a broken peer changes anything here.
    let _ = timeout(RESPOND_TIMEOUT, responding).await;
}

async fn respond(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    response: &[u8],
) -> io::Result<()> {
    stream.write_all(response).await?;
    stream.shutdown().await?;
    // Closing before the request was read would reset the connection, and the response with it.
    let mut scratch = [0; 4 << 10];
    while stream.read(&mut scratch).await? > 0 {}
    Ok(())
}

/// Builds the response to HTTP without TLS, where there is TLS.
pub fn https_required() -> Vec<u8> {
    let detail = "This port takes HTTPS only: begin the URL with https.";
    raw_error_response("400 Bad Request", "https_required", detail, "")
}

/// Builds the whole response to a connection that may not come in.
pub fn raw_rejection(error: &ApiError) -> Vec<u8> {
    let retry_after = error
        .retry_after_seconds
        .map_or_else(String::new, |seconds| format!("retry-after: {seconds}\r\n"));
    let status = error.status.to_string();
    raw_error_response(&status, error.code, &error.detail, &retry_after)
}

/// Builds a whole response with an error body.
pub fn raw_error_response(status: &str, code: &str, detail: &str, headers: &str) -> Vec<u8> {
    let kind = if status.starts_with('5') {
        "server_error"
    } else {
        "invalid_request"
    };
    let body = format!(r#"{{"type":"{kind}","code":"{code}","detail":"{detail}","attr":null}}"#);
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nconnection: close\r\n\
         {headers}content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_raw_response_has_its_length_its_headers_and_an_error_body() {
        let text = String::from_utf8(raw_error_response(
            "503 Service Unavailable",
            "c",
            "d",
            "retry-after: 1\r\n",
        ))
        .unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(
            head.contains(&format!("content-length: {}", body.len())),
            "{head}"
        );
        assert!(head.contains("\r\nretry-after: 1\r\n"), "{head}");
        assert_eq!(
            body,
            r#"{"type":"server_error","code":"c","detail":"d","attr":null}"#
        );
    }
}
