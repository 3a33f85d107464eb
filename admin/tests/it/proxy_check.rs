//! Checks of a reverse proxy's domain, from a missing alias to a valid certificate.

use crate::servers::dns::DnsServer;
use millrace_admin::proxy_check::{HttpsProbe, ProbeOptions, Progress, check};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

const ZONE: &str = "
right.example 60 CNAME target.example
other.example 60 CNAME target.example
elsewhere.example 60 CNAME wrong.example
nowhere.example 60 CNAME nothing.example
plain.example 60 A 127.0.0.1
target.example 60 A 127.0.0.1
nothing.example 60 TXT \"no address\"
";

/// Makes an acceptor of TLS with a certificate for one name, and the certificate.
fn acceptor(name: &str) -> (TlsAcceptor, Vec<u8>) {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed([name.to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    (acceptor, cert.pem().into_bytes())
}

/// Starts an HTTPS server with a certificate for one name; returns its port and the certificate.
pub async fn https_server(name: &str, says: &'static str) -> (u16, Vec<u8>) {
    let (acceptor, certificate) = acceptor(name);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // Some tests make the client abort the handshake.
            let Ok(mut stream) = acceptor.accept(stream).await else {
                continue;
            };
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(says.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    });
    (port, certificate)
}

/// Starts an HTTPS server that answers one request with a text and then without an end. Returns its
/// port, its certificate, and the number of bytes that were taken when the connection is closed.
async fn endless_server(begins: &'static str) -> (u16, Vec<u8>, JoinHandle<usize>) {
    const ENDLESS_BYTES: usize = 256 << 20;
    let (acceptor, certificate) = acceptor("right.example");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let sending = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut stream = acceptor.accept(stream).await.unwrap();
        let _ = stream.read(&mut [0; 4096]).await;
        let (piece, mut bytes) = ([b'x'; 1 << 14], 0);
        let mut sent = stream.write_all(begins.as_bytes()).await;
        while sent.is_ok() && bytes < ENDLESS_BYTES {
            sent = stream.write_all(&piece).await;
            bytes += piece.len();
        }
        bytes
    });
    (port, certificate, sending)
}

fn probe(port: u16, authority: Option<Vec<u8>>, allow_private: bool) -> HttpsProbe {
    HttpsProbe::new(&ProbeOptions {
        port,
        allow_private,
        authority,
    })
    .unwrap()
}

#[tokio::test]
async fn a_domain_goes_from_waiting_over_issuing_to_valid() {
    let server = DnsServer::start(ZONE).await;
    let dns = server.client();
    let answer = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
    let (port, authority) = https_server("right.example", answer).await;
    let (mute_port, mute_authority) = https_server("right.example", "hello\r\n\r\n").await;
    let trusting = probe(port, Some(authority.clone()), true);
    let stranger = probe(port, None, true);
    let careful = probe(port, Some(authority), false);
    let mute = probe(mute_port, Some(mute_authority), true);
    let closed = probe(1, None, true);
    let table = [
        (
            &trusting,
            "unset.example",
            Progress::Waiting,
            "no CNAME record; add one that leads to target.example",
        ),
        (
            &trusting,
            "plain.example",
            Progress::Waiting,
            "no CNAME record",
        ),
        (
            &trusting,
            "elsewhere.example",
            Progress::Waiting,
            "leads to wrong.example; let it lead to target.example",
        ),
        (
            &trusting,
            "other.example",
            Progress::Issuing,
            "certificate is not valid for it",
        ),
        (
            &stranger,
            "right.example",
            Progress::Issuing,
            "certificate is not valid for it",
        ),
        (
            &careful,
            "right.example",
            Progress::Issuing,
            "no public address",
        ),
        (
            &mute,
            "right.example",
            Progress::Issuing,
            "does not speak HTTP",
        ),
        (
            &closed,
            "right.example",
            Progress::Issuing,
            "no connection could be made",
        ),
        (&trusting, "right.example", Progress::Valid, ""),
    ];
    for (probe, domain, progress, needle) in table {
        let found = check(&dns, probe, domain, "target.example").await.unwrap();
        assert_eq!(found.progress, progress, "{domain}: {found:?}");
        let message = found.message.unwrap_or_default();
        assert_eq!(message.is_empty(), needle.is_empty(), "{domain}: {message}");
        assert!(message.contains(needle), "{domain}: {message}");
    }
}

#[tokio::test]
async fn an_alias_without_an_address_is_reported() {
    let server = DnsServer::start(ZONE).await;
    let probe = probe(443, None, true);
    let found = check(
        &server.client(),
        &probe,
        "nowhere.example",
        "nothing.example",
    )
    .await;
    let found = found.unwrap();
    assert_eq!(found.progress, Progress::Issuing);
    assert!(found.message.unwrap().contains("no address"));
}

#[tokio::test]
async fn an_unanswered_lookup_is_an_error_and_no_progress() {
    let server = DnsServer::start(ZONE).await;
    let dns = server.impatient_client();
    let probe = probe(443, None, false);
    assert!(
        check(&dns, &probe, "x.silent", "target.example")
            .await
            .is_err()
    );
}

#[tokio::test]
async fn an_endless_head_is_refused_and_an_endless_body_is_not_read() {
    let server = DnsServer::start(ZONE).await;
    let dns = server.client();
    let table = [
        ("HTTP/1.1 200 OK\r\n\r\n", Progress::Valid, ""),
        (
            "HTTP/1.1 200 OK\r\na: ",
            Progress::Issuing,
            "does not speak HTTP",
        ),
    ];
    for (begins, progress, needle) in table {
        let (port, authority, sending) = endless_server(begins).await;
        let probe = probe(port, Some(authority), true);
        let found = check(&dns, &probe, "right.example", "target.example").await;
        let found = found.unwrap();
        assert_eq!(found.progress, progress, "{begins:?}: {found:?}");
        let message = found.message.unwrap_or_default();
        assert!(message.contains(needle), "{begins:?}: {message}");
        let taken = timeout(Duration::from_secs(60), sending).await;
        let taken = taken.expect("the connection stays open").unwrap();
        // Some of it is in buffers.
        assert!(taken < 32 << 20, "{begins:?}: {taken}");
    }
}
