//! S3 server in Rust, on a folder: it checks signatures.

use super::{ServerProcess, root};
use crate::test_store::{CANARY, TestStore, fields, tree};
use async_trait::async_trait;
use millrace_catalog::DestinationType;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::process::Command;

const ID: &str = "canary-id";

pub struct S3s {
    _server: ServerProcess,
    folder: tempfile::TempDir,
    pub port: u16,
}

impl S3s {
    pub async fn start() -> Self {
        let program = root().join(".test-env/s3s-fs/bin/s3s-fs");
        assert!(
            program.exists(),
            "s3s-fs is not there: make test-setup installs it"
        );
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("exports")).unwrap();
        // It needs its own name with the port.
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let mut command = Command::new(program);
        command
            .env("RUST_LOG", "info")
            .env("NO_COLOR", "1")
            .arg(folder.path());
        command.args(["--host", "127.0.0.1", "--port", &port.to_string()]);
        command.args([
            "--access-key",
            ID,
            "--secret-key",
            &format!("{CANARY}-secret"),
        ]);
        command.args(["--domain", &format!("s3.example:{port}")]);
        let (server, said) = ServerProcess::start(command, "http://127.0.0.1:");
        assert_eq!(said, port);
        Self {
            _server: server,
            folder,
            port,
        }
    }
}

#[async_trait]
impl TestStore for S3s {
    fn kind(&self) -> DestinationType {
        DestinationType::S3
    }

    fn config(&self, prefix: &str) -> Map<String, Value> {
        fields(json!({
            "bucket_name": "exports", "region": "us-east-1", "prefix": prefix,
            "endpoint_url": format!("http://127.0.0.1:{}", self.port),
        }))
    }

    fn secrets(&self) -> BTreeMap<String, String> {
        let secrets = [
            ("aws_access_key_id", ID.to_owned()),
            ("aws_secret_access_key", format!("{CANARY}-secret")),
        ];
        secrets
            .map(|(name, secret)| (name.to_owned(), secret))
            .into()
    }

    async fn files(&self) -> BTreeMap<String, Vec<u8>> {
        tree(&self.folder.path().join("exports"))
    }

    async fn unfinished(&self) -> usize {
        let names = tree(self.folder.path()).into_keys();
        names.filter(|name| name.starts_with(".upload-")).count()
    }

    async fn put(&self, key: &str, bytes: &[u8]) {
        let path = self.folder.path().join("exports").join(key);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    async fn remove(&self, key: &str) {
        std::fs::remove_file(self.folder.path().join("exports").join(key)).unwrap();
    }
}
