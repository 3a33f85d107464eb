//! Tests of settings that only S3 has.

use crate::servers::moto::Moto;
use crate::servers::s3s::S3s;
use crate::support::{STEM, deliver, lines, run};
use crate::test_store::TestStore;
use async_trait::async_trait;
use millrace_dial::{Guard, Resolver};
use millrace_exports::destination::files::open;
use reqwest::Method;
use serde_json::{Value, json};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

/// Resolver that resolves buckets before names of this domain to this machine.
struct Buckets;

#[async_trait]
impl Resolver for Buckets {
    async fn addresses(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        assert_eq!(name, "exports.s3.example");
        Ok(vec![[127, 0, 0, 1].into()])
    }
}

#[tokio::test]
async fn the_bucket_may_be_part_of_the_servers_name() {
    let store = S3s::start().await;
    let mut config = store.config("virtual");
    config.insert(
        "endpoint_url".to_owned(),
        json!(format!("http://s3.example:{}", store.port)),
    );
    config.insert("use_virtual_style_addressing".to_owned(), json!(true));
    let guard = Guard::with_resolver(true, Arc::new(Buckets)).unwrap();
    let config = Value::Object(config);
    let destination = open(store.kind(), &config, &store.secrets(), &guard, None).unwrap();
    let text = lines("virtual", 10);
    deliver(destination.as_ref(), &run(0), &[&text])
        .await
        .unwrap();
    let all = store.files().await;
    assert_eq!(all[&format!("virtual/{STEM}.jsonl")], text.as_bytes());
}

#[tokio::test]
async fn files_are_encrypted_as_configured() {
    let moto = Moto::start().await;
    let store: &dyn TestStore = &moto;
    let table = [
        (json!({}), None, None),
        (json!({"encryption": "AES256"}), Some("AES256"), None),
        (
            json!({"encryption": "aws:kms", "kms_key_id": "key-1"}),
            Some("aws:kms"),
            Some("key-1"),
        ),
    ];
    // A file that is sent at once, and one in parts.
    let small = lines("small", 10);
    let large = lines("large", 270_000);
    assert!(large.len() > 16 << 20);
    for (n, (config, encryption, key)) in table.into_iter().enumerate() {
        for (m, text) in [&small, &large].into_iter().enumerate() {
            let prefix = format!("{n}/{m}");
            let destination = store.open(&prefix, config.clone());
            deliver(destination.as_ref(), &run(0), &[text])
                .await
                .unwrap();
            for name in [format!("{STEM}.jsonl"), format!("{STEM}_manifest.json")] {
                let asked = moto.request(Method::HEAD, &format!("/{prefix}/{name}"));
                let answer = asked.send().await.unwrap();
                let header = |name| answer.headers().get(name).map(|v| v.to_str().unwrap());
                assert_eq!(header("x-amz-server-side-encryption"), encryption, "{name}");
                let found = header("x-amz-server-side-encryption-aws-kms-key-id");
                assert_eq!(
                    found.map(|id| id.contains("key-1")),
                    key.map(|_| true),
                    "{name}"
                );
            }
        }
    }
}
