//! Options of batch exports, and the key of their secrets, in the real binary.

use crate::server::{Server, ask, millrace};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use tempfile::TempDir;

const ALL: &str = "/api/organizations/@current/batch_exports/";

fn to(destination: &Value) -> Value {
    json!({ "name": "Hourly", "interval": "hour", "destination": destination })
}

#[test]
fn exports_connect_only_to_allowed_destinations() {
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
fn a_configured_secret_key_is_not_stored() {
    let dir = TempDir::new().unwrap();
    let key = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";
    let server = Server::start_mode("admin", dir.path(), &["--secret-key", key]);
    let token = json!({ "url": "https://in.example.com/", "token": "t" });
    let new = to(&json!({ "type": "HTTP", "config": token }));
    assert_eq!(ask(&server, "POST", ALL, &new).0, 201);
    assert!(!dir.path().join("secret.key").exists());
}

#[test]
fn secrets_are_resealed_with_a_new_key() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("secret.key");
    let server = Server::start_mode("admin", dir.path(), &[]);
    let token = json!({ "url": "https://in.example.com/", "token": "t" });
    let new = to(&json!({ "type": "HTTP", "config": token }));
    let (status, made) = ask(&server, "POST", ALL, &new);
    assert_eq!(status, 201, "{made}");
    drop(server);
    let before = std::fs::read_to_string(&path).unwrap();
    let rotate = || {
        let mut command = millrace();
        command.arg("--data-dir").arg(dir.path());
        let output = command.args(["secrets", "rotate"]).output().unwrap();
        (
            output.status.success(),
            String::from_utf8(output.stdout).unwrap(),
        )
    };
    let (done, printed) = rotate();
    assert!(
        done && printed.contains("The secrets of 1 export are encrypted with the new key"),
        "{printed}"
    );
    let after = std::fs::read_to_string(&path).unwrap();
    assert_ne!(after, before);
    let server = Server::start_mode("admin", dir.path(), &[]);
    // A field that is not given keeps its secret, which opens with the new key.
    let renamed = json!({ "name": "Renamed", "destination": { "type": "HTTP" } });
    let one = format!("{ALL}{}/", made["id"].as_str().unwrap());
    assert_eq!(ask(&server, "PATCH", &one, &renamed).0, 200);
    let test = json!({ "batch_export": made["id"] });
    let (status, tested) = ask(&server, "POST", &format!("{ALL}test/"), &test);
    assert_eq!(status, 200, "{tested}");
    // The replaced key opens secrets that a server sealed with it meanwhile, until the next
    // rotation.
    let kept: Vec<&str> = after.lines().collect();
    assert_eq!(kept.get(1..), Some(&[before.trim()][..]));
    assert!(rotate().0);
    drop(server);
    std::fs::write(&path, before).unwrap();
    assert!(!rotate().0, "it is the wrong key");
}
