//! Microsoft's emulator of Azure's storage. Tests share it.

use super::{ask, encoded, root, shared, unescaped};
use crate::support::tagged;
use crate::test_store::{CANARY, TestStore, fields};
use async_trait::async_trait;
use millrace_catalog::DestinationType;
use millrace_dial::Guard;
use object_store::azure::{AzureAccessKey, AzureAuthorizer, AzureCredential};
use object_store::client::HttpRequestBody;
use reqwest::Client;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::OnceLock;

const ACCOUNT: &str = "devstoreaccount1";
/// Key of the emulator, which is public.
const KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// Header without a meaning.
const PLAIN: (&str, &str) = ("x-ms-client-request-id", "test");

/// Container of a test's own.
pub struct Azurite {
    client: Client,
    container: String,
    url: String,
}

impl Azurite {
    /// Creates the container; the first caller starts the server.
    pub async fn start() -> Self {
        static PORT: OnceLock<u16> = OnceLock::new();
        let port = PORT.get_or_init(serve);
        let azurite = Self {
            client: Guard::new(true).unwrap().http_client(),
            container: shared::new_bucket(),
            url: format!("http://127.0.0.1:{port}/{ACCOUNT}"),
        };
        azurite
            .signed("PUT", "?restype=container", PLAIN, b"")
            .await;
        azurite
    }

    /// Sends a signed request for a path in the container, with one more header.
    async fn signed(
        &self,
        method: &str,
        path: &str,
        header: (&'static str, &str),
        body: &[u8],
    ) -> Vec<u8> {
        let mut request = http::Request::builder()
            .method(method)
            .uri(format!("{}/{}{path}", self.url, self.container))
            .header("content-length", body.len().to_string())
            .header(header.0, header.1)
            .body(HttpRequestBody::empty())
            .unwrap();
        let credential = AzureCredential::AccessKey(AzureAccessKey::try_new(KEY).unwrap());
        AzureAuthorizer::new(&credential, ACCOUNT)
            .try_authorize(&mut request)
            .unwrap();
        let (parts, _) = request.into_parts();
        let request = self.client.request(parts.method, parts.uri.to_string());
        ask(request.headers(parts.headers).body(body.to_vec())).await
    }

    async fn listed(&self) -> Vec<String> {
        let listed = self
            .signed("GET", "?restype=container&comp=list", PLAIN, b"")
            .await;
        let listed = String::from_utf8(listed).unwrap();
        tagged(&listed, "Name").into_iter().map(unescaped).collect()
    }
}

#[async_trait]
impl TestStore for Azurite {
    fn kind(&self) -> DestinationType {
        DestinationType::AzureBlob
    }

    fn config(&self, prefix: &str) -> Map<String, Value> {
        fields(json!({"container_name": self.container, "prefix": prefix}))
    }

    fn secrets(&self) -> BTreeMap<String, String> {
        let url = &self.url;
        let text = format!("AccountName={ACCOUNT};AccountKey={KEY};BlobEndpoint={url};X={CANARY}");
        [("connection_string".to_owned(), text)].into()
    }

    async fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let mut files = BTreeMap::new();
        for key in self.listed().await {
            let bytes = self
                .signed("GET", &format!("/{}", encoded(&key)), PLAIN, b"")
                .await;
            files.insert(key, bytes);
        }
        files
    }

    async fn unfinished(&self) -> usize {
        0
    }

    /// Blocks that are in no blob are not listed, and cannot be deleted: Azure drops them after a
    /// week.
    fn lists_unfinished(&self) -> bool {
        false
    }

    async fn put(&self, key: &str, bytes: &[u8]) {
        let path = format!("/{}", encoded(key));
        self.signed("PUT", &path, ("x-ms-blob-type", "BlockBlob"), bytes)
            .await;
    }

    async fn remove(&self, key: &str) {
        let path = format!("/{}", encoded(key));
        self.signed("DELETE", &path, PLAIN, b"").await;
    }
}

/// Starts the server, which keeps everything in memory; returns its port.
fn serve() -> u16 {
    let program = root().join("admin/exports/tests/npm/node_modules/azurite/dist/src/blob/main.js");
    assert!(
        program.exists(),
        "azurite is not there: make test-setup installs it"
    );
    let mut command = shared::ending_with_us("node");
    // It only looks whether its folder is there.
    command.arg(program).current_dir(std::env::temp_dir());
    command.args(["--blobHost", "127.0.0.1", "--blobPort", "0"]);
    command.args([
        "--inMemoryPersistence",
        "--skipApiVersionCheck",
        "--disableTelemetry",
    ]);
    shared::start(command, "listens on http://127.0.0.1:")
}
