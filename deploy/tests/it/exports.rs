//! The options of batch exports, and the key of their secrets, in the real binary.

use crate::server::{Server, ask};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use tempfile::TempDir;

const ALL: &str = "/api/organizations/@current/batch_exports/";

fn to(destination: &Value) -> Value {
    json!({ "name": "Hourly", "interval": "hour", "destination": destination })
}

#[test]
fn exports_go_where_the_operator_lets_them() {
    let private = to(&json!({
        "type": "HTTP", "config": { "url": "http://127.0.0.1:9/", "token": "canary" },
    }));
    let files = to(&json!({ "type": "FileSystem", "config": { "path": "daily" } }));
    let lenient = [
        "--export-root",
        "/tmp/exports",
        "--allow-private-destinations=true",
    ];
    for (args, expected) in [(&[][..], 400), (&lenient[..], 201)] {
        let dir = TempDir::new().unwrap();
        let server = Server::start_mode("admin", dir.path(), args);
        for new in [&private, &files] {
            let (status, answer) = ask(&server, "POST", ALL, new);
            assert_eq!(status, expected, "{args:?} {new}: {answer}");
        }
        let key = dir.path().join("secret.key");
        let mode = std::fs::metadata(&key).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        drop(server);
        for file in std::fs::read_dir(dir.path()).unwrap() {
            let path = file.unwrap().path();
            if path.is_file() {
                let bytes = std::fs::read(&path).unwrap();
                let found = bytes.windows(6).any(|window| window == b"canary");
                assert!(!found, "{} holds the secret", path.display());
            }
        }
    }
}

#[test]
fn a_key_that_is_configured_is_not_kept() {
    let dir = TempDir::new().unwrap();
    let key = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";
    let server = Server::start_mode("admin", dir.path(), &["--secret-key", key]);
    let token = json!({ "url": "https://in.example.com/", "token": "t" });
    let new = to(&json!({ "type": "HTTP", "config": token }));
    assert_eq!(ask(&server, "POST", ALL, &new).0, 201);
    assert!(!dir.path().join("secret.key").exists());
}
