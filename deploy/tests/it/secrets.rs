//! Secrets: in no log line at the most verbose level, in no file but their own, and no file is
//! readable by others.

use crate::server::{Server, ask, get, on_own_ports, run};
use serde_json::json;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tempfile::TempDir;

const CLICKHOUSE_PASSWORD: &str = "canary-clickhouse-5e8d";
const SMTP_PASSWORD: &str = "canary-smtp-91ab";
const SECRET_KEY: &str = "Y2FuYXJ5LWNhbmFyeS1jYW5hcnktY2FuYXJ5LTEyMyE=";
const EXPORT_TOKEN: &str = "canary-export-07f3";
const WRONG_KEY: &str = "phx_canaryWrongKey000000000000000000000000000";

/// Writes a configuration with a secret in every setting that may have one.
fn configuration(dir: &Path) -> PathBuf {
    let path = dir.join("millrace.toml");
    let text = format!(
        r#"
clickhouse_password = "{CLICKHOUSE_PASSWORD}"
secret_key = "{SECRET_KEY}"
smtp_url = "smtp://mailer:{SMTP_PASSWORD}@127.0.0.1:9"
mail_from = "millrace@example.com"
admin_public_url = "https://millrace.example.com"
log_level = "trace"
"#
    );
    fs::write(&path, text).unwrap();
    path
}

/// All files below a folder, in no order.
fn below(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() {
            found.extend(below(&path));
        }
        found.push(path);
    }
    found
}

/// Lets the server handle every secret; returns those that it generated.
fn meet_secrets(server: &Server, data_dir: &Path) -> Vec<(&'static str, String)> {
    let key = json!({"label": "Reports", "scopes": ["organization:read"]});
    let (status, made) = ask(server, "POST", "/api/personal_api_keys/", &key);
    assert_eq!(status, 201, "{made}");
    let config = json!({"url": "https://in.example.com/", "token": EXPORT_TOKEN});
    let export = json!({"name": "Hourly", "interval": "hour", "destination": {"type": "HTTP", "config": config}});
    let exports = "/api/organizations/@current/batch_exports/";
    let (status, answer) = ask(server, "POST", exports, &export);
    assert_eq!(status, 201, "{answer}");
    assert!(!answer.to_string().contains(EXPORT_TOKEN), "{answer}");
    // The mail cannot be sent, which is logged.
    let invite = json!({"target_email": "grace@example.com", "level": 1});
    let invites = "/api/organizations/@current/invites/";
    assert_eq!(ask(server, "POST", invites, &invite).0, 201);
    let args = ["invites", "create", "--email", "ada@example.com"];
    let dir = ["--data-dir", data_dir.to_str().unwrap()];
    let url = ["--admin-addr", "127.0.0.1:1"];
    let link = run(&[&args[..], &dir, &url].concat());
    assert!(link.status.success(), "{link:?}");
    let link = String::from_utf8(link.stdout).unwrap();
    let token = link
        .lines()
        .next()
        .unwrap()
        .rsplit('/')
        .find(|part| !part.is_empty());
    let bearer = format!("Bearer {WRONG_KEY}");
    let url = format!("{}/api/organizations/", server.credential("admin_url"));
    assert_eq!(get(&url, &[("authorization", &bearer)]).0, 401);
    server.capture(&json!([{"event": "e", "distinct_id": "a"}]));
    server.wait_for("SELECT count() FROM millrace.events", "1");
    vec![
        (
            "the first personal key",
            server.credential("personal_api_key"),
        ),
        ("a personal key", made["value"].as_str().unwrap().to_owned()),
        ("the token of an invite", token.unwrap().to_owned()),
    ]
}

#[test]
fn no_secret_is_in_the_log_or_where_it_does_not_belong() {
    let home = TempDir::new().unwrap();
    let data_dir = home.path().join("data");
    let log = home.path().join("stderr");
    let mut command = on_own_ports("serve", &data_dir);
    command.arg("--config").arg(configuration(home.path()));
    command.stderr(Stdio::from(fs::File::create(&log).unwrap()));
    let server = Server::start_command(&mut command, &data_dir);
    let mut secrets = meet_secrets(&server, &data_dir);
    // Output of a service goes to the journal, as its log does.
    let printed = server.banner().to_owned();
    assert!(server.stop().success());
    secrets.extend(
        [
            ("ClickHouse's password", CLICKHOUSE_PASSWORD),
            ("the mail server's password", SMTP_PASSWORD),
            ("the key of secrets", SECRET_KEY),
            ("an export's token", EXPORT_TOKEN),
            ("a wrong key", WRONG_KEY),
        ]
        .map(|(name, secret)| (name, secret.to_owned())),
    );
    let logged = printed + &fs::read_to_string(&log).unwrap();
    assert!(
        logged.contains("TRACE") && logged.contains("DEBUG"),
        "the log says all it can"
    );
    let credentials = data_dir.join("credentials.json");
    let files: Vec<_> = below(&data_dir)
        .into_iter()
        .filter(|path| path.is_file())
        .collect();
    assert!(files.len() > 10, "{files:?}");
    // As text, which is searched fast.
    let files: Vec<_> = files
        .into_iter()
        .filter(|file| *file != credentials)
        .map(|file| {
            (
                String::from_utf8_lossy(&fs::read(&file).unwrap()).into_owned(),
                file,
            )
        })
        .collect();
    for (name, secret) in &secrets {
        let line = logged.lines().find(|line| line.contains(secret));
        assert_eq!(line, None, "{name} is in the log");
        for (text, file) in &files {
            assert!(!text.contains(secret), "{name} is in {}", file.display());
        }
    }
}

#[test]
fn every_file_is_readable_by_its_owner_only_even_in_an_open_folder() {
    let home = TempDir::new().unwrap();
    let data_dir = home.path().join("data");
    fs::create_dir(&data_dir).unwrap();
    fs::set_permissions(&data_dir, fs::Permissions::from_mode(0o755)).unwrap();
    let server = Server::start(&data_dir);
    server.capture(&json!([{"event": "e", "distinct_id": "a"}, {"event": "rejected"}]));
    server.wait_for("SELECT count() FROM millrace.events", "1");
    let wide: Vec<_> = below(&data_dir)
        .into_iter()
        .filter(|path| !path.is_symlink())
        .filter(|path| {
            fs::metadata(path).is_ok_and(|found| found.permissions().mode() & 0o077 != 0)
        })
        .collect();
    assert!(wide.is_empty(), "others may read {wide:?}");
    let files = below(&data_dir).len();
    assert!(files > 10, "{files} files");
}
