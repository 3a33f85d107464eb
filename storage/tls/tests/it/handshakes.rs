//! Handshakes that succeed, and those that must not.

use crate::listener::{Listener, NAME};
use millrace_tls::testing::{TestAuthority, renew};
use millrace_tls::{ClientCertificates, HandshakeError, HandshakeLimits, Reload, TlsFiles};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{ClientConfig, HandshakeKind, ProtocolVersion};

async fn listener(files: TlsFiles) -> Listener {
    let limits = HandshakeLimits::default();
    Listener::new(files, ClientCertificates::Required, limits).await
}

#[tokio::test]
async fn both_versions_carry_bytes_both_ways() {
    let authority = TestAuthority::new();
    let listener = listener(authority.files(NAME)).await;
    let table = [
        (&TLS12, ProtocolVersion::TLSv1_2),
        (&TLS13, ProtocolVersion::TLSv1_3),
    ];
    for (version, expected) in table {
        let client = authority.client(&[version]);
        let (client, server) = listener.shake_hands(&client).await;
        let (mut client, mut server) = (client.unwrap(), server.unwrap());
        assert_eq!(server.get_ref().1.protocol_version(), Some(expected));
        client.write_all(b"ping").await.unwrap();
        client.flush().await.unwrap();
        let mut read = [0; 4];
        server.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"ping");
        server.write_all(b"pong").await.unwrap();
        server.shutdown().await.unwrap();
        let mut answer = Vec::new();
        // An end without the alert of TLS would be an error.
        client.read_to_end(&mut answer).await.unwrap();
        assert_eq!(answer, b"pong");
    }
}

#[tokio::test]
async fn a_client_that_asks_for_protocols_gets_http_1_1_or_no_connection() {
    let authority = TestAuthority::new();
    let listener = listener(authority.files(NAME)).await;
    let table: [(&[&str], Option<&str>, bool); 4] = [
        (&[], None, true),
        (&["http/1.1"], Some("http/1.1"), true),
        (&["h2", "http/1.1"], Some("http/1.1"), true),
        (&["h2"], None, false),
    ];
    for (asked, expected, succeeds) in table {
        let mut client = authority.client(&[&TLS13]);
        client.alpn_protocols = asked.iter().map(|name| name.as_bytes().to_vec()).collect();
        let (_client, server) = listener.shake_hands(&client).await;
        assert_eq!(server.is_ok(), succeeds, "{asked:?}");
        if let Ok(server) = server {
            let protocol = server.get_ref().1.alpn_protocol();
            assert_eq!(protocol, expected.map(str::as_bytes), "{asked:?}");
        }
    }
}

#[tokio::test]
async fn a_client_needs_a_certificate_where_there_is_an_authority_for_it() {
    let (ours, clients, others) = (
        TestAuthority::new(),
        TestAuthority::new(),
        TestAuthority::new(),
    );
    let mut files = ours.files(NAME);
    files.client_authority = Some(clients.certificate());
    for version in [&TLS12, &TLS13] {
        let none = ours.client(&[version]);
        let known = ours.client_known_to(&clients, &[version]);
        let unknown = ours.client_known_to(&others, &[version]);
        let table: [(&str, &ClientConfig, ClientCertificates, bool); 4] = [
            ("none", &none, ClientCertificates::Required, false),
            ("known", &known, ClientCertificates::Required, true),
            ("unknown", &unknown, ClientCertificates::Required, false),
            ("none, not asked", &none, ClientCertificates::NotAsked, true),
        ];
        for (what, client, required, expected) in table {
            let limits = HandshakeLimits::default();
            let listener = Listener::new(files.clone(), required, limits).await;
            let (_client, server) = listener.shake_hands(client).await;
            assert_eq!(server.is_ok(), expected, "{what}, {version:?}");
        }
    }
}

#[tokio::test]
async fn a_new_certificate_is_for_new_connections_and_ends_none() {
    let (former, present) = (TestAuthority::new(), TestAuthority::new());
    let files = former.files(NAME);
    let new = present.files(NAME);
    let listener = listener(files.clone()).await;
    let [trusts_former, trusts_present] = [&former, &present].map(|it| it.client(&[&TLS13]));
    let (client, server) = listener.shake_hands(&trusts_former).await;
    let (mut client, mut server) = (client.unwrap(), server.unwrap());

    renew(&files, &new);
    assert!(matches!(listener.tls.reload(), Reload::Done));
    let (refusing, _) = listener.shake_hands(&trusts_former).await;
    assert!(refusing.is_err(), "it still has the former certificate");
    let (accepting, _) = listener.shake_hands(&trusts_present).await;
    assert!(accepting.is_ok());

    server.write_all(b"still here").await.unwrap();
    server.shutdown().await.unwrap();
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).await.unwrap();
    assert_eq!(answer, b"still here");
}

#[tokio::test]
async fn a_client_comes_back_by_a_ticket_until_the_certificate_changes() {
    let authority = TestAuthority::new();
    let (files, new) = (authority.files(NAME), authority.files(NAME));
    let listener = listener(files.clone()).await;
    let client = authority.client(&[&TLS12]);
    let mut kinds = Vec::new();
    for round in 0..3 {
        if round == 2 {
            renew(&files, &new);
            assert!(matches!(listener.tls.reload(), Reload::Done));
        }
        let (_client, server) = listener.shake_hands(&client).await;
        kinds.push(server.unwrap().get_ref().1.handshake_kind());
    }
    let expected = [
        HandshakeKind::Full,
        HandshakeKind::Resumed,
        HandshakeKind::Full,
    ];
    assert_eq!(kinds, expected.map(Some));
}

#[tokio::test]
async fn http_without_tls_is_given_back_unread() {
    let authority = TestAuthority::new();
    let listener = listener(authority.files(NAME)).await;
    let (mut client, accepted) = listener.plain().await;
    client.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let refused = listener.handshaker.accept(accepted).await;
    let mut tcp = match refused {
        Err(HandshakeError::PlainHttp(tcp)) => tcp,
        other => panic!("{other:?}"),
    };
    client.shutdown().await.unwrap();
    let mut read = Vec::new();
    tcp.read_to_end(&mut read).await.unwrap();
    assert_eq!(read, b"GET / HTTP/1.1\r\n\r\n");
}
