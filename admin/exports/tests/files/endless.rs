//! Tests with a server whose answers do not end.

use crate::support::{deliver, run};
use crate::test_store::CANARY;
use bytes::Bytes;
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use millrace_catalog::DestinationType;
use millrace_dial::Guard;
use millrace_exports::destination::files::open;
use millrace_exports::{ExportError, ExportErrorKind};
use serde_json::json;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

/// Page of keys, with another one behind it.
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

/// Exports to this server, and returns the error.
async fn exported_to(listener: &TcpListener) -> ExportError {
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let config = json!({
        "bucket_name": "exports", "region": "r", "prefix": "p", "endpoint_url": endpoint,
    });
    let names = ["aws_access_key_id", "aws_secret_access_key"];
    let secrets = names.map(|name| (name.to_owned(), CANARY.to_owned()));
    let guard = Guard::new(true).unwrap();
    let s3 = open(DestinationType::S3, &config, &secrets.into(), &guard, None).unwrap();
    deliver(s3.as_ref(), &run(0), &["row\n"]).await.unwrap_err()
}

/// Sends a body for as long as somebody reads it; returns the number of bytes read.
async fn send_endless_body(mut stream: TcpStream) -> usize {
    let head = b"HTTP/1.1 200 OK\r\netag: \"e\"\r\ncontent-type: application/xml\r\n\r\n";
    let piece = vec![b'x'; 1 << 20];
    let mut sent = stream.write_all(head).await;
    let mut bytes = 0;
    while sent.is_ok() {
        sent = stream.write_all(&piece).await;
        bytes += piece.len();
    }
    bytes
}

#[tokio::test]
async fn an_endless_body_is_not_buffered() {
    let listener = Arc::new(TcpListener::bind("127.0.0.1:0").await.unwrap());
    let accepting = Arc::clone(&listener);
    let taken = Arc::new(AtomicUsize::new(0));
    let most = Arc::clone(&taken);
    tokio::spawn(async move {
        loop {
            let (stream, _) = accepting.accept().await.unwrap();
            let most = Arc::clone(&most);
            tokio::spawn(async move {
                let bytes = send_endless_body(stream).await;
                most.fetch_max(bytes, Ordering::Relaxed);
            });
        }
    });
    let error = exported_to(&listener).await;
    // Some of the bytes are in the kernel's buffers.
    let taken = taken.load(Ordering::Relaxed);
    assert!((1..=32 << 20).contains(&taken), "{taken}: {error}");
}

#[tokio::test]
async fn an_endless_list_is_given_up() {
    let listener = Arc::new(TcpListener::bind("127.0.0.1:0").await.unwrap());
    let accepting = Arc::clone(&listener);
    tokio::spawn(async move {
        loop {
            let (stream, _) = accepting.accept().await.unwrap();
            let service = service_fn(async |request| Ok::<_, Infallible>(answer(&request)));
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    });
    let error = exported_to(&listener).await;
    assert_eq!(error.kind, ExportErrorKind::Permanent);
    assert!(error.message.contains("no end of files"), "{error}");
}
