//! Clients that take their time, and clients that come all at once.

use crate::listener::{Listener, NAME};
use futures_util::future::join_all;
use millrace_tls::testing::TestAuthority;
use millrace_tls::{ClientCertificates, HandshakeError, HandshakeLimits};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio_rustls::rustls::version::TLS13;

/// Beginning of a record of TLS with a message of 256 bytes.
const HALF_A_HELLO: &[u8] = &[0x16, 3, 1, 1, 0, 1, 0, 0, 0xfc];
/// Time that no test waits for.
const LONG: Duration = Duration::from_secs(600);

async fn listener(authority: &TestAuthority, limits: HandshakeLimits) -> Listener {
    let required = ClientCertificates::Required;
    Listener::new(authority.files(NAME), required, limits).await
}

#[tokio::test]
async fn slow_clients_are_ended_in_time_and_hold_nobody_up() {
    let authority = TestAuthority::new();
    let limits = HandshakeLimits {
        timeout: Duration::from_secs(2),
        ..HandshakeLimits::default()
    };
    let listener = listener(&authority, limits).await;
    for sent in [&[][..], HALF_A_HELLO] {
        let (mut slow, accepted) = listener.plain().await;
        slow.write_all(sent).await.unwrap();
        let client = authority.client(&[&TLS13]);
        let quick = async {
            let (client, server) = listener.shake_hands(&client).await;
            (client.is_ok(), server.is_ok())
        };
        let mut slow_ends = std::pin::pin!(listener.handshaker.accept(accepted));
        tokio::select! {
            biased;
            _ = &mut slow_ends => panic!("the slow one is done first"),
            quick = quick => assert_eq!(quick, (true, true)),
        }
        let ended = slow_ends.await;
        assert!(matches!(ended, Err(HandshakeError::TimedOut)), "{ended:?}");
    }
}

#[tokio::test]
async fn one_slow_client_too_many_ends_the_oldest() {
    let authority = TestAuthority::new();
    let limits = HandshakeLimits {
        timeout: LONG,
        count_max: 2,
    };
    let listener = listener(&authority, limits).await;
    let (_first, first) = listener.plain().await;
    let (_second, second) = listener.plain().await;
    let client = authority.client(&[&TLS13]);
    let mut second_ends = std::pin::pin!(listener.handshaker.accept(second));
    let (first_ended, done) = tokio::select! {
        biased;
        both = async {
            tokio::join!(
                biased;
                listener.handshaker.accept(first),
                listener.shake_hands(&client),
            )
        } => both,
        _ = &mut second_ends => panic!("the second one goes on"),
    };
    let is_displaced = matches!(first_ended, Err(HandshakeError::Displaced));
    assert!(is_displaced, "{first_ended:?}");
    assert!(done.0.is_ok() && done.1.is_ok());
}

#[tokio::test]
async fn clients_that_come_all_at_once_are_all_served() {
    let authority = TestAuthority::new();
    let listener = listener(&authority, HandshakeLimits::default()).await;
    let client = authority.client(&[&TLS13]);
    let all = join_all((0..100).map(|_| listener.shake_hands(&client))).await;
    for (client, server) in all {
        client.unwrap();
        server.unwrap();
    }
}

#[tokio::test]
async fn a_client_that_goes_away_or_speaks_nonsense_ends_its_handshake() {
    let authority = TestAuthority::new();
    let limits = HandshakeLimits {
        timeout: LONG,
        ..HandshakeLimits::default()
    };
    let listener = listener(&authority, limits).await;
    let table: [(&str, &[u8]); 4] = [
        ("nothing", &[]),
        ("half a hello", HALF_A_HELLO),
        ("another protocol", b"\0\x01\x02\x03nonsense"),
        (
            "a record of no TLS",
            &[0x16, 0xff, 0xff, 0xff, 0xff, 0, 0, 0],
        ),
    ];
    for (what, sent) in table {
        let (mut client, accepted) = listener.plain().await;
        client.write_all(sent).await.unwrap();
        client.shutdown().await.unwrap();
        let ended = listener.handshaker.accept(accepted).await;
        assert!(matches!(ended, Err(HandshakeError::Failed(_))), "{what}");
    }
}
