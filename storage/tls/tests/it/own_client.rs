//! Clients of the same machine, which know the file of the certificate.

use crate::listener::Listener;
use millrace_tls::testing::{TestAuthority, renew};
use millrace_tls::{ClientCertificates, HandshakeLimits, Reload, own_client};

#[tokio::test]
async fn the_certificate_in_the_file_is_accepted_for_any_name_and_no_other_is() {
    let authority = TestAuthority::new();
    let (files, other) = (authority.files("a.example"), authority.files("a.example"));
    let (required, limits) = (ClientCertificates::Required, HandshakeLimits::default());
    let listener = Listener::new(files.clone(), required, limits).await;
    let table = [(&files.certificate, true), (&other.certificate, false)];
    for (certificate, expected) in table {
        let client = own_client(certificate.clone()).unwrap();
        let (client, _server) = listener.shake_hands(&client).await;
        assert_eq!(client.is_ok(), expected, "{client:?}");
    }
    let client = own_client(files.certificate.clone()).unwrap();
    renew(&files, &other);
    assert!(matches!(listener.tls.reload(), Reload::Done));
    let (client, _server) = listener.shake_hands(&client).await;
    client.unwrap();
    let missing = own_client(authority.dir().join("missing.pem")).unwrap();
    let (client, _server) = listener.shake_hands(&missing).await;
    assert!(client.is_err());
}
