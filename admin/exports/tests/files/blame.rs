//! What went wrong, in words that help, and that tell no secret and nothing of the network.

use crate::place::{CANARY, Place};
use crate::servers::azurite::Azurite;
use crate::servers::gcs::Gcs;
use crate::servers::moto::Moto;
use crate::servers::s3s::S3s;
use crate::support::{deliver, run};
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
use millrace_exports::{ExportError, Outlook};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::net::TcpListener;

fn assert_told(error: &ExportError, outlook: Outlook, words: &str) {
    assert_eq!(error.outlook, outlook, "{error}");
    assert!(error.message.contains(words), "{error}");
    for secret in [CANARY, "127.0.0.1", "localhost", "http", "StringToSign"] {
        assert!(!error.message.contains(secret), "{error}");
    }
}

/// Changes one field or secret, and expects a run and a step of the test to say this.
async fn assert_blamed(
    place: &dyn Place,
    change: (&str, Value),
    step: TestStep,
    told: (Outlook, &str),
) {
    let (mut config, mut secrets) = (place.config("p"), place.secrets());
    match secrets.get_mut(change.0) {
        Some(secret) => *secret = change.1.as_str().unwrap().to_owned(),
        None => drop(config.insert(change.0.to_owned(), change.1)),
    }
    let destination = place.open_with(&config, &secrets).unwrap();
    let error = deliver(destination.as_ref(), &run(0), &["row\n"])
        .await
        .unwrap_err();
    assert_told(&error, told.0, told.1);
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
    assert_told(&destination.test(step).await.unwrap_err(), told.0, told.1);
}

fn replaced(place: &dyn Place, name: &str, from: &str, to: &str) -> Value {
    let secret = &place.secrets()[name];
    assert!(secret.contains(from), "{from}");
    json!(secret.replace(from, to))
}

#[tokio::test]
async fn credentials_that_are_wrong_are_told_as_such() {
    let known = (Outlook::Hopeless, "does not accept the credentials");
    let s3 = S3s::start().await;
    let wrong = json!("canary-wrong");
    let step = TestStep::Authenticate;
    assert_blamed(&s3, ("aws_secret_access_key", wrong.clone()), step, known).await;
    assert_blamed(&s3, ("aws_access_key_id", wrong), step, known).await;
    let azure = Azurite::start().await;
    let wrong = replaced(&azure, "connection_string", "AccountKey=E", "AccountKey=F");
    assert_blamed(&azure, ("connection_string", wrong), step, known).await;
    let gcs = Gcs::start().await;
    let wrong = replaced(
        &gcs,
        "service_account_key",
        "canary-key-id",
        "canary-other-id",
    );
    assert_blamed(&gcs, ("service_account_key", wrong), step, known).await;
}

#[tokio::test]
async fn buckets_that_are_not_there_are_told_as_such() {
    let step = TestStep::Authenticate;
    let missing = (Outlook::Hopeless, "Make it, or change bucket_name");
    let change = || ("bucket_name", json!("missing"));
    // s3s-fs makes buckets that are not there.
    assert_blamed(&Moto::start().await, change(), step, missing).await;
    assert_blamed(&Gcs::start().await, change(), step, missing).await;
    let missing = (Outlook::Hopeless, "Make it, or change container_name");
    let change = ("container_name", json!("missing"));
    assert_blamed(&Azurite::start().await, change, step, missing).await;
}

#[tokio::test]
async fn a_server_that_is_away_is_tried_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nobody = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let told = (
        Outlook::Retry,
        "No connection could be made to S3: connection refused. Check region or endpoint_url.",
    );
    let place = Moto::start().await;
    assert_blamed(
        &place,
        ("endpoint_url", json!(nobody)),
        TestStep::Reach,
        told,
    )
    .await;
}

#[tokio::test]
async fn without_credentials_those_of_this_machine_are_not_looked_for() {
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
            assert_told(&error, Outlook::Hopeless, secret);
        }
    }
}

/// Leads every name to this machine, or none.
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
async fn inner_servers_are_told_as_names_that_do_not_resolve() {
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
    assert_told(&expected, Outlook::Retry, "leads to no address");
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

/// Answers everything with this.
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

/// Status and body of an answer, what it means for a run, and words of what is said of it.
const ANSWERS: [(u16, &str, Outlook, &str); 12] = [
    (
        403,
        "<Code>AccessDenied</Code> canary",
        Outlook::Hopeless,
        "Grant them the rights",
    ),
    (
        403,
        "<Code>SignatureDoesNotMatch</Code> canary",
        Outlook::Hopeless,
        "does not accept",
    ),
    (
        400,
        "<Code>ExpiredToken</Code> canary",
        Outlook::Hopeless,
        "does not accept",
    ),
    (
        404,
        "<Code>NoSuchBucket</Code> canary",
        Outlook::Hopeless,
        "bucket_name",
    ),
    (
        301,
        "<Code>PermanentRedirect</Code> canary",
        Outlook::Hopeless,
        "region or endpoint_url",
    ),
    (307, "canary", Outlook::Hopeless, "refused a request (307)"),
    (
        400,
        "<Code>KMS.NotFoundException</Code> canary",
        Outlook::Hopeless,
        "kms_key_id",
    ),
    (400, "canary", Outlook::Hopeless, "refused a request (400)"),
    (
        400,
        "<Code>KeyTooLongError</Code> canary",
        Outlook::Hopeless,
        "refused a request (400 KeyTooLongError)",
    ),
    (
        400,
        "<Code>canary</Code>",
        Outlook::Hopeless,
        "refused a request (400)",
    ),
    (
        503,
        "<Code>SlowDown</Code> canary",
        Outlook::Retry,
        "busy or out of order (503)",
    ),
    (429, "canary", Outlook::Retry, "busy or out of order (429)"),
];

#[tokio::test]
async fn what_a_server_says_decides_but_is_not_repeated() {
    let guard = Guard::new(true).unwrap();
    let cases = ANSWERS.map(|(status, body, outlook, words)| {
        let guard = guard.clone();
        tokio::spawn(async move {
            let destination = of_s3(&answering(status, body).await, &guard);
            destination.test(TestStep::Reach).await.unwrap();
            let error = deliver(destination.as_ref(), &run(0), &["row\n"])
                .await
                .unwrap_err();
            assert_told(&error, outlook, words);
        })
    });
    for case in cases {
        case.await.unwrap();
    }
}
