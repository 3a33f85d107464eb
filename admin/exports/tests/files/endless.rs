//! A server that has no end of keys.

use crate::place::CANARY;
use crate::support::{deliver, run};
use bytes::Bytes;
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use millrace_catalog::DestinationType;
use millrace_dial::Guard;
use millrace_exports::Outlook;
use millrace_exports::destination::files::open;
use serde_json::json;
use std::convert::Infallible;
use tokio::net::TcpListener;

/// One page, and another one behind it.
const PAGE: &str = "<ListBucketResult><IsTruncated>true</IsTruncated>\
    <NextContinuationToken>next</NextContinuationToken></ListBucketResult>";

fn answer<T>(request: &Request<T>) -> Response<Full<Bytes>> {
    let (status, body) = match (request.method(), request.uri().query()) {
        (&Method::GET, Some(query)) if query.contains("list-type") => (200, PAGE),
        (&Method::GET, _) => (404, "<Error><Code>NoSuchKey</Code></Error>"),
        _ => (200, ""),
    };
    let answer = Response::builder().status(status).header("etag", "\"e\"");
    answer.body(body.into()).unwrap()
}

#[tokio::test]
async fn a_list_without_an_end_is_not_read_for_ever() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let service = service_fn(async |request| Ok::<_, Infallible>(answer(&request)));
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    });
    let config = json!({
        "bucket_name": "exports", "region": "r", "prefix": "p", "endpoint_url": endpoint,
    });
    let names = ["aws_access_key_id", "aws_secret_access_key"];
    let secrets = names.map(|name| (name.to_owned(), CANARY.to_owned()));
    let guard = Guard::new(true).unwrap();
    let s3 = open(DestinationType::S3, &config, &secrets.into(), &guard, None).unwrap();
    let error = deliver(s3.as_ref(), &run(0), &["row\n"]).await.unwrap_err();
    assert_eq!(error.outlook, Outlook::Hopeless);
    assert!(error.message.contains("no end of files"), "{error}");
}
