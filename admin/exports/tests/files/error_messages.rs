//! Tests that error messages help, and reveal no secret and nothing of the network.

use crate::servers::azurite::Azurite;
use crate::servers::gcs::Gcs;
use crate::servers::moto::Moto;
use crate::servers::s3s::S3s;
use crate::support::{deliver, run};
use crate::test_store::{CANARY, TestStore};
use async_trait::async_trait;
use bytes::Bytes;
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use millrace_catalog::DestinationType;
use millrace_dial::{Guard, Resolver};
use millrace_exports::destination::files::open;
use millrace_exports::destination::{Destination, TestStep};
use millrace_exports::{ExportError, ExportErrorKind};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::net::TcpListener;

fn assert_message(error: &ExportError, kind: ExportErrorKind, words: &str) {
    assert_eq!(error.kind, kind, "{error}");
    assert!(error.message.contains(words), "{error}");
    for secret in [CANARY, "127.0.0.1", "localhost", "http", "StringToSign"] {
        assert!(!error.message.contains(secret), "{error}");
    }
}

/// Changes one field or secret, and expects this error from a run and from a step of the test.
async fn assert_fails_with(
    store: &dyn TestStore,
    change: (&str, Value),
    step: TestStep,
    told: (ExportErrorKind, &str),
) {
    let (mut config, mut secrets) = (store.config("p"), store.secrets());
    match secrets.get_mut(change.0) {
        Some(secret) => *secret = change.1.as_str().unwrap().to_owned(),
        None => drop(config.insert(change.0.to_owned(), change.1)),
    }
    let destination = store.open_with(&config, &secrets).unwrap();
    let error = deliver(destination.as_ref(), &run(0), &["row\n"])
        .await
        .unwrap_err();
    assert_message(&error, told.0, told.1);
    for before in destination
        .test_steps()
        .iter()
        .take_while(|before| **before != step)
    {
        destination
            .test(*before)
            .await
            .unwrap_or_else(|error| panic!("{before:?}: {error}"));
    }
    assert_message(&destination.test(step).await.unwrap_err(), told.0, told.1);
}

fn replaced(store: &dyn TestStore, name: &str, from: &str, to: &str) -> Value {
    let secret = &store.secrets()[name];
    assert!(secret.contains(from), "{from}");
    json!(secret.replace(from, to))
}

#[tokio::test]
async fn wrong_credentials_are_named_in_the_error() {
    let known = (
        ExportErrorKind::Permanent,
        "does not accept the credentials",
    );
    let s3 = S3s::start().await;
    let wrong = json!("canary-wrong");
    let step = TestStep::Authenticate;
    assert_fails_with(&s3, ("aws_secret_access_key", wrong.clone()), step, known).await;
    assert_fails_with(&s3, ("aws_access_key_id", wrong), step, known).await;
    let azure = Azurite::start().await;
    let wrong = replaced(&azure, "connection_string", "AccountKey=E", "AccountKey=F");
    assert_fails_with(&azure, ("connection_string", wrong), step, known).await;
    let gcs = Gcs::start().await;
    let wrong = replaced(
        &gcs,
        "service_account_key",
        "canary-key-id",
        "canary-other-id",
    );
    assert_fails_with(&gcs, ("service_account_key", wrong), step, known).await;
}

#[tokio::test]
async fn missing_buckets_are_named_in_the_error() {
    let step = TestStep::Authenticate;
    let missing = (
        ExportErrorKind::Permanent,
        "Create it, or change bucket_name",
    );
    let change = || ("bucket_name", json!("missing"));
    // s3s-fs creates missing buckets.
    assert_fails_with(&Moto::start().await, change(), step, missing).await;
    assert_fails_with(&Gcs::start().await, change(), step, missing).await;
    let missing = (
        ExportErrorKind::Permanent,
        "Create it, or change container_name",
    );
    let change = ("container_name", json!("missing"));
    assert_fails_with(&Azurite::start().await, change, step, missing).await;
}

#[tokio::test]
async fn an_unavailable_server_is_retried() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nobody = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let told = (
        ExportErrorKind::Retryable,
        "No connection could be made to S3: connection refused. Check region or endpoint_url.",
    );
    let store = Moto::start().await;
    assert_fails_with(
        &store,
        ("endpoint_url", json!(nobody)),
        TestStep::Reach,
        told,
    )
    .await;
}

#[tokio::test]
async fn missing_credentials_are_not_replaced_by_those_of_this_machine() {
    let guard = Guard::new(true).unwrap();
    let table = [
        (DestinationType::S3, "aws_access_key_id"),
        (DestinationType::AzureBlob, "connection_string"),
        (DestinationType::Gcs, "service_account_key"),
    ];
    let config = json!({
        "bucket_name": "b", "container_name": "b", "region": "r", "prefix": "p", "path": "p",
    });
    for (kind, secret) in table {
        for given in [None, Some("AccountName=x"), Some("{}"), Some("")] {
            let secrets = given.map(|given| (secret.to_owned(), given.to_owned()));
            let secrets = secrets.into_iter().collect();
            let Err(error) = open(kind, &config, &secrets, &guard, None) else {
                panic!("{kind:?} takes {given:?}");
            };
            assert_message(&error, ExportErrorKind::Permanent, secret);
        }
    }
}

/// Resolver that resolves every name to this machine, or none.
struct Leading(bool);

#[async_trait]
impl Resolver for Leading {
    async fn addresses(&self, _name: &str) -> io::Result<Vec<IpAddr>> {
        let inside = self.0.then(|| IpAddr::from([127, 0, 0, 1]));
        Ok(inside.into_iter().collect())
    }
}

fn of_s3(endpoint: &str, guard: &Guard) -> Box<dyn Destination> {
    let config = json!({
        "bucket_name": "exports", "region": "r", "prefix": "p", "endpoint_url": endpoint,
    });
    let names = ["aws_access_key_id", "aws_secret_access_key"];
    let secrets = names
        .map(|name| (name.to_owned(), CANARY.to_owned()))
        .into();
    open(DestinationType::S3, &config, &secrets, guard, None).unwrap()
}

#[tokio::test]
async fn private_servers_have_the_error_of_names_that_do_not_resolve() {
    let server = Moto::start().await;
    let port = server.url.rsplit(':').next().unwrap();
    let guard = |inside| Guard::with_resolver(false, Arc::new(Leading(inside))).unwrap();
    let urls = [
        format!("http://127.0.0.1:{port}"),
        format!("http://[::ffff:127.0.0.1]:{port}"),
        format!("http://some.example:{port}"),
        format!("https://2130706433:{port}"),
        "http://169.254.169.254".to_owned(),
    ];
    let unknown = of_s3("http://some.example", &guard(false));
    let expected = deliver(unknown.as_ref(), &run(0), &["row\n"])
        .await
        .unwrap_err();
    assert_message(&expected, ExportErrorKind::Retryable, "leads to no address");
    for url in urls {
        let destination = of_s3(&url, &guard(true));
        let error = deliver(destination.as_ref(), &run(0), &["row\n"])
            .await
            .unwrap_err();
        assert_eq!(error, expected, "{url}");
        for step in destination.test_steps() {
            assert_eq!(
                destination.test(*step).await.err(),
                Some(expected.clone()),
                "{url}"
            );
        }
    }
    assert_eq!(server.files().await.len(), 0);
}

/// Starts a server that answers all requests with this.
async fn answering(status: u16, body: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let service = service_fn(move |_| async move {
                let body = Full::new(Bytes::from_static(body.as_bytes()));
                let answer = http::Response::builder()
                    .status(status)
                    .header("location", "http://127.0.0.1/canary");
                Ok::<_, Infallible>(answer.body(body).unwrap())
            });
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    });
    url
}

/// Status and body of an answer, the kind of the error, and words of its message.
const ANSWERS: [(u16, &str, ExportErrorKind, &str); 14] = [
    (
        403,
        "<Code>AccessDenied</Code> canary",
        ExportErrorKind::Permanent,
        "Grant them the rights",
    ),
    (
        403,
        "<Code>SignatureDoesNotMatch</Code> canary",
        ExportErrorKind::Permanent,
        "does not accept",
    ),
    (
        400,
        "<Code>ExpiredToken</Code> canary",
        ExportErrorKind::Permanent,
        "does not accept",
    ),
    (
        404,
        "<Code>NoSuchBucket</Code> canary",
        ExportErrorKind::Permanent,
        "bucket_name",
    ),
    (
        301,
        "<Code>PermanentRedirect</Code> canary",
        ExportErrorKind::Permanent,
        "region or endpoint_url",
    ),
    (
        307,
        "canary",
        ExportErrorKind::Permanent,
        "refused a request (307)",
    ),
    (
        400,
        "<Code>KMS.NotFoundException</Code> canary",
        ExportErrorKind::Permanent,
        "kms_key_id",
    ),
    (
        400,
        "canary",
        ExportErrorKind::Permanent,
        "refused a request (400)",
    ),
    (
        400,
        "<Code>KeyTooLongError</Code> canary",
        ExportErrorKind::Permanent,
        "refused a request (400 KeyTooLongError)",
    ),
    (
        400,
        "<Code>canary</Code>",
        ExportErrorKind::Permanent,
        "refused a request (400)",
    ),
    (
        400,
        "<Code>KMS.ThrottlingException</Code> canary",
        ExportErrorKind::Retryable,
        "busy or out of order (400)",
    ),
    (
        409,
        "<Code>OperationAborted</Code> canary",
        ExportErrorKind::Retryable,
        "busy or out of order (409)",
    ),
    (
        503,
        "<Code>SlowDown</Code> canary",
        ExportErrorKind::Retryable,
        "busy or out of order (503)",
    ),
    (
        429,
        "canary",
        ExportErrorKind::Retryable,
        "busy or out of order (429)",
    ),
];

#[tokio::test]
async fn a_servers_words_are_classified_but_not_repeated() {
    let guard = Guard::new(true).unwrap();
    let cases = ANSWERS.map(|(status, body, kind, words)| {
        let guard = guard.clone();
        tokio::spawn(async move {
            let destination = of_s3(&answering(status, body).await, &guard);
            destination.test(TestStep::Reach).await.unwrap();
            let error = deliver(destination.as_ref(), &run(0), &["row\n"])
                .await
                .unwrap_err();
            assert_message(&error, kind, words);
        })
    });
    for case in cases {
        case.await.unwrap();
    }
}
