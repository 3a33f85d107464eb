//! Tests of TLS to PostgreSQL. The gateway speaks it, as the tests' server listens on a socket
//! only.

use super::fixture::{Fixture, PASSWORD, refusal};
use crate::rows::{delivered, lines, row, run};
use millrace_exports::ExportErrorKind;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

fn self_signed() -> TlsAcceptor {
    let made = generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let CertifiedKey { cert, signing_key } = made;
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

#[tokio::test]
async fn a_self_signed_certificate_is_accepted_only_if_the_customer_allows_it() {
    let mut fixture = Fixture::behind(Some(self_signed())).await;
    let error = refusal(delivered(&fixture.postgres(), &run(0), "").await);
    assert_eq!(error.kind, ExportErrorKind::Permanent);
    assert!(error.message.contains("has_self_signed_cert"), "{error}");
    fixture.set("has_self_signed_cert", true);
    let outcome = delivered(&fixture.postgres(), &run(0), &lines([row(1)]))
        .await
        .unwrap();
    assert_eq!(outcome.rows, Some(1));
}

#[tokio::test]
async fn a_password_is_never_sent_in_plain_text() {
    let fixture = Fixture::new().await;
    delivered(&fixture.postgres(), &run(0), &lines([row(1)]))
        .await
        .unwrap();
    let seen = fixture.gateway.seen();
    let has = |text: &[u8]| seen.windows(text.len()).any(|window| window == text);
    assert!(has(b"SCRAM-SHA-256"));
    assert!(!has(PASSWORD.as_bytes()));
}
