//! Fake of the part of Google's XML API that an export uses, in memory: with its login by a signed
//! token, whose key is looked up by its id, as Google does. There is no such server to install.

use crate::test_store::{CANARY, TestStore, fields};
use async_trait::async_trait;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use millrace_catalog::DestinationType;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use url::Url;

const EMAIL: &str = "exporter@project.iam.gserviceaccount.com";
const KEY_ID: &str = "canary-key-id";
/// Private key of no account, created for these tests.
const PRIVATE_KEY: &str = include_str!("../fixtures/service_account.pem");

pub struct Gcs {
    bucket: Arc<Mutex<Bucket>>,
    port: u16,
    server: JoinHandle<()>,
}

#[derive(Default)]
struct Bucket {
    objects: BTreeMap<String, Bytes>,
    /// Uploads by id: the key, and the parts by number.
    uploads: BTreeMap<String, (String, BTreeMap<u32, Bytes>)>,
    uploads_count: usize,
}

impl Gcs {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let bucket = Arc::<Mutex<Bucket>>::default();
        let server = tokio::spawn(serve(listener, Arc::clone(&bucket)));
        Self {
            bucket,
            port,
            server,
        }
    }
}

impl Drop for Gcs {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn serve(listener: TcpListener, bucket: Arc<Mutex<Bucket>>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let bucket = Arc::clone(&bucket);
        let service = service_fn(move |request| {
            let bucket = Arc::clone(&bucket);
            async move { Ok::<_, Infallible>(answer(request, &bucket).await) }
        });
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

async fn answer(request: Request<Incoming>, bucket: &Mutex<Bucket>) -> Response<Full<Bytes>> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let token = parts
        .headers
        .get("authorization")
        .and_then(|value| value.to_str().ok());
    if !token.is_some_and(is_known) {
        return refused(StatusCode::UNAUTHORIZED, "AuthenticationRequired");
    }
    let url = Url::parse(&format!("http://gcs{}", parts.uri)).unwrap();
    let path = url
        .path()
        .strip_prefix("/exports")
        .map(|path| path.trim_start_matches('/'));
    let Some(path) = path else {
        return refused(StatusCode::NOT_FOUND, "NoSuchBucket");
    };
    let key = percent_decoded(path);
    let query: BTreeMap<_, _> = url.query_pairs().into_owned().collect();
    bucket
        .lock()
        .unwrap()
        .answer(&parts.method, key, &query, body)
}

impl Bucket {
    fn answer(
        &mut self,
        method: &Method,
        key: String,
        query: &BTreeMap<String, String>,
        body: Bytes,
    ) -> Response<Full<Bytes>> {
        let upload = query.get("uploadId");
        match (method.as_str(), upload) {
            ("GET", _) if key.is_empty() => self.list(query),
            ("GET", _) => match self.objects.get(&key) {
                Some(object) => done(object.clone()),
                None => refused(StatusCode::NOT_FOUND, "NoSuchKey"),
            },
            ("POST", None) => {
                self.uploads_count += 1;
                let id = format!("upload/{}", self.uploads_count);
                self.uploads.insert(id.clone(), (key, BTreeMap::new()));
                xml(&format!(
                    "<InitiateMultipartUploadResult><UploadId>{id}</UploadId>\
                     </InitiateMultipartUploadResult>"
                ))
            }
            ("POST", Some(id)) => {
                let Some((key, parts)) = self.uploads.remove(id) else {
                    return refused(StatusCode::NOT_FOUND, "NoSuchUpload");
                };
                let named = String::from_utf8(body.to_vec())
                    .unwrap()
                    .matches("<Part>")
                    .count();
                assert_eq!(named, parts.len());
                let whole: Vec<_> = parts.into_values().collect();
                self.objects.insert(key, whole.concat().into());
                xml(
                    "<CompleteMultipartUploadResult><ETag>\"e\"</ETag></CompleteMultipartUploadResult>",
                )
            }
            ("PUT", Some(id)) => {
                // A part that was in flight when its upload was aborted is too late.
                let Some((_, parts)) = self.uploads.get_mut(id) else {
                    return refused(StatusCode::NOT_FOUND, "NoSuchUpload");
                };
                parts.insert(query["partNumber"].parse().unwrap(), body);
                done(Bytes::new())
            }
            ("PUT", None) => {
                self.objects.insert(key, body);
                done(Bytes::new())
            }
            ("DELETE", Some(id)) => {
                self.uploads.remove(id);
                done(Bytes::new())
            }
            ("DELETE", None) => match self.objects.remove(&key) {
                Some(_) => done(Bytes::new()),
                None => refused(StatusCode::NOT_FOUND, "NoSuchKey"),
            },
            other => panic!("{other:?}"),
        }
    }

    fn list(&self, query: &BTreeMap<String, String>) -> Response<Full<Bytes>> {
        let prefix = query.get("prefix").map_or("", String::as_str);
        let delimiter = query.get("delimiter");
        let below = |key: &str| {
            let rest = key.strip_prefix(prefix).unwrap_or_default();
            let (name, _) = rest.split_once(delimiter?.as_str())?;
            Some(format!("{prefix}{name}{}", delimiter?))
        };
        let found = self.objects.iter();
        let found: Vec<_> = found.filter(|(key, _)| key.starts_with(prefix)).collect();
        let prefixes: BTreeSet<String> = found.iter().filter_map(|(key, _)| below(key)).collect();
        let prefixes: String = prefixes
            .iter()
            .map(|it| format!("<CommonPrefixes><Prefix>{it}</Prefix></CommonPrefixes>"))
            .collect();
        let contents = found.into_iter().filter(|(key, _)| below(key).is_none());
        let contents = contents.map(|(key, object)| {
            let key = key.replace('&', "&amp;").replace('<', "&lt;");
            let size = object.len();
            format!(
                "<Contents><Key>{key}</Key><Size>{size}</Size><ETag>\"e\"</ETag>\
                 <LastModified>2026-11-20T14:00:00Z</LastModified></Contents>"
            )
        });
        let contents: String = contents.collect();
        xml(&format!(
            "<ListBucketResult>{contents}{prefixes}</ListBucketResult>"
        ))
    }
}

/// Returns true if a token is of the account and names its key.
fn is_known(token: &str) -> bool {
    let token = token.strip_prefix("Bearer ").unwrap_or_default();
    let said = |part: &str| -> Option<Value> {
        let json = BASE64_URL_SAFE_NO_PAD.decode(part).ok()?;
        serde_json::from_slice(&json).ok()
    };
    let mut parts = token.split('.');
    let head = parts.next().and_then(said).unwrap_or_default();
    let claims = parts.next().and_then(said).unwrap_or_default();
    let signature = parts.next().unwrap_or_default();
    head["kid"] == KEY_ID && claims["iss"] == EMAIL && signature.len() == 342
}

fn done(body: Bytes) -> Response<Full<Bytes>> {
    let answer = Response::builder()
        .header("etag", "\"e\"")
        .header("last-modified", "Fri, 20 Nov 2026 14:00:00 GMT")
        .header("x-goog-generation", "1");
    answer.body(body.into()).unwrap()
}

fn xml(text: &str) -> Response<Full<Bytes>> {
    done(text.to_owned().into())
}

/// Error with the details that Google repeats: the server's name, and the request's.
fn refused(status: StatusCode, code: &str) -> Response<Full<Bytes>> {
    let body = format!("<Error><Code>{code}</Code><Details>{CANARY} 127.0.0.1</Details></Error>");
    Response::builder()
        .status(status)
        .body(body.into_bytes().into())
        .unwrap()
}

fn percent_decoded(path: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = path.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        let hex = (*first == b'%').then(|| std::str::from_utf8(&after[..2]).unwrap());
        match hex {
            Some(hex) => {
                bytes.push(u8::from_str_radix(hex, 16).unwrap());
                rest = &after[2..];
            }
            None => bytes.push(*first),
        }
    }
    String::from_utf8(bytes).unwrap()
}

#[async_trait]
impl TestStore for Gcs {
    fn kind(&self) -> DestinationType {
        DestinationType::Gcs
    }

    fn config(&self, prefix: &str) -> Map<String, Value> {
        fields(json!({"bucket_name": "exports", "prefix": prefix}))
    }

    fn secrets(&self) -> BTreeMap<String, String> {
        let key = json!({
            "type": "service_account",
            "private_key_id": KEY_ID,
            "private_key": PRIVATE_KEY,
            "client_email": EMAIL,
            "gcs_base_url": format!("http://127.0.0.1:{}", self.port),
        });
        [("service_account_key".to_owned(), key.to_string())].into()
    }

    async fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let bucket = self.bucket.lock().unwrap();
        let objects = bucket.objects.iter();
        objects
            .map(|(key, object)| (key.clone(), object.to_vec()))
            .collect()
    }

    async fn unfinished(&self) -> usize {
        self.bucket.lock().unwrap().uploads.len()
    }

    async fn put(&self, key: &str, bytes: &[u8]) {
        let bytes = Bytes::copy_from_slice(bytes);
        self.bucket
            .lock()
            .unwrap()
            .objects
            .insert(key.to_owned(), bytes);
    }

    async fn remove(&self, key: &str) {
        self.bucket.lock().unwrap().objects.remove(key).unwrap();
    }
}
