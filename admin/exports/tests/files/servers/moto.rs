//! S3 server in Python: it accepts any secret, and supports encryption. Tests share it.

use super::{ask, encoded, root, shared, unescaped};
use crate::support::tagged;
use crate::test_store::{CANARY, TestStore, fields};
use async_trait::async_trait;
use millrace_catalog::DestinationType;
use millrace_dial::Guard;
use reqwest::{Client, Method, RequestBuilder};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::OnceLock;

/// Any signature, as one is required.
const SIGNATURE: &str = "AWS4-HMAC-SHA256 \
    Credential=canary/20261120/eu-central-1/s3/aws4_request, SignedHeaders=host, Signature=0";

/// Bucket of a test's own.
pub struct Moto {
    client: Client,
    bucket: String,
    /// URL of the server.
    pub url: String,
}

impl Moto {
    /// Creates the bucket; the first caller starts the server.
    pub async fn start() -> Self {
        static PORT: OnceLock<u16> = OnceLock::new();
        let port = PORT.get_or_init(serve);
        let moto = Self {
            client: Guard::new(true).unwrap().http_client(),
            bucket: shared::new_bucket(),
            url: format!("http://127.0.0.1:{port}"),
        };
        let location = "<CreateBucketConfiguration><LocationConstraint>eu-central-1\
                        </LocationConstraint></CreateBucketConfiguration>";
        let url = format!("{}/{}", moto.url, moto.bucket);
        ask(moto.client.put(url).body(location)).await;
        moto
    }

    /// Request for a path in the bucket.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let url = format!("{}/{}{path}", self.url, self.bucket);
        self.client
            .request(method, url)
            .header("authorization", SIGNATURE)
    }

    async fn get(&self, path: &str) -> Vec<u8> {
        ask(self.request(Method::GET, path)).await
    }
}

#[async_trait]
impl TestStore for Moto {
    fn kind(&self) -> DestinationType {
        DestinationType::S3
    }

    fn config(&self, prefix: &str) -> Map<String, Value> {
        fields(json!({
            "bucket_name": self.bucket, "region": "eu-central-1", "prefix": prefix,
            "endpoint_url": self.url,
        }))
    }

    fn secrets(&self) -> BTreeMap<String, String> {
        let names = ["aws_access_key_id", "aws_secret_access_key"];
        names
            .map(|name| (name.to_owned(), format!("{CANARY}-{name}")))
            .into()
    }

    async fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let listed = String::from_utf8(self.get("?list-type=2").await).unwrap();
        let mut files = BTreeMap::new();
        for key in tagged(&listed, "Key") {
            let key = unescaped(key);
            let bytes = self.get(&format!("/{}", encoded(&key))).await;
            files.insert(key, bytes);
        }
        files
    }

    async fn unfinished(&self) -> usize {
        let listed = String::from_utf8(self.get("?uploads").await).unwrap();
        tagged(&listed, "UploadId").len()
    }

    async fn put(&self, key: &str, bytes: &[u8]) {
        let request = self.request(Method::PUT, &format!("/{}", encoded(key)));
        ask(request.body(bytes.to_vec())).await;
    }

    async fn remove(&self, key: &str) {
        ask(self.request(Method::DELETE, &format!("/{}", encoded(key)))).await;
    }
}

/// Starts the server; returns its port.
fn serve() -> u16 {
    let mut command = shared::ending_with_us(python());
    // Its own program cannot choose a free port.
    command.args([
        "-c",
        "from moto.server import main; main(['-H', '127.0.0.1', '-p', '0'])",
    ]);
    shared::start(command, "http://127.0.0.1:")
}

/// Python of the tests' environment; the first caller creates it.
fn python() -> &'static PathBuf {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    PYTHON.get_or_init(|| {
        let script = root().join("deploy/test-python.sh");
        let made = std::process::Command::new(script).output().unwrap();
        let said = String::from_utf8_lossy(&made.stderr);
        assert!(made.status.success(), "{said}");
        String::from_utf8(made.stdout).unwrap().trim().into()
    })
}
