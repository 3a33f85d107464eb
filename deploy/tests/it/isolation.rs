//! Isolation of the embedded ClickHouse: its password gives access to the events and nothing else
//! of the server, no files, keys or environment. All statements go through the port of a real
//! server; `storage/embedded` has the rest of the list.

use crate::server::{Server, ask, on_own_ports};
use serde_json::{Value, json};
use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use tempfile::TempDir;

const SECRET_KEY: &str = "Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5Y2E=";
/// Texts that no response may hold: beginnings of that key, of another variable, of personal keys,
/// of SQLite's files.
const CANARIES: [&str; 5] = ["Y2FuYXJ5", "CANARYSMTP", "phx_", "SQLite format", "root:x:"];

fn serve(dir: &Path, args: &[&str]) -> Server {
    let mut command = on_own_ports("serve", dir);
    command
        .args(args)
        .env("MILLRACE_SECRET_KEY", SECRET_KEY)
        .env("MILLRACE_SMTP_URL", "smtp://u:CANARYSMTP@localhost")
        .env("MILLRACE_MAIL_FROM", "a@example.com")
        .env("MILLRACE_ADMIN_PUBLIC_URL", "https://millrace.example");
    Server::start_command(&mut command, dir)
}

/// Runs a statement in ClickHouse; returns status and text of the response.
fn answer(server: &Server, sql: &str) -> (u16, String) {
    let answered = ureq::post(&server.credential("clickhouse_url"))
        .header("X-ClickHouse-User", server.credential("clickhouse_user"))
        .header("X-ClickHouse-Key", server.credential("clickhouse_password"))
        .config()
        .http_status_as_error(false)
        .build()
        .send(sql);
    let mut answered = answered.unwrap();
    let text = answered.body_mut().read_to_string().unwrap();
    (answered.status().as_u16(), text)
}

/// Process ids of the server's children.
fn children(server: &Server) -> Vec<String> {
    let pid = server.pid().as_raw_nonzero();
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let of_task =
        tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("children")).unwrap());
    of_task
        .collect::<String>()
        .split_whitespace()
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_password_of_clickhouse_opens_no_file_and_no_key_of_the_server() {
    let home = TempDir::new().unwrap();
    for (name, sources) in [("closed", ""), ("opened", "file,sqlite")] {
        let dir = home.path().join(name);
        let server = serve(&dir, &["--clickhouse-sources", sources]);
        server.wait_for("EXISTS millrace.events", "1");
        let (data, parent) = (dir.display(), server.pid().as_raw_nonzero());
        let key =
            "unhex('00'), 1, 'evil', repeat('a', 64), 'phx_...evil', '[\"*\",\"operator\"]', now()";
        for sql in [
            "SELECT * FROM file('/etc/passwd', 'LineAsString')".to_owned(),
            format!("SELECT * FROM file('{data}/credentials.json', 'RawBLOB')"),
            format!("SELECT file('{data}/credentials.json')"),
            format!("SELECT * FROM file('{data}/catalog.db', 'RawBLOB')"),
            "SELECT * FROM file('/proc/self/environ', 'RawBLOB')".to_owned(),
            "SELECT file('/proc/self/environ')".to_owned(),
            "SELECT `fi\\x6ce`('/proc/self/environ')".to_owned(),
            "SELECT * FROM format(JSONEachRow, 'a Int8, b String DEFAULT file(''/proc/self/environ'')', '{\"a\":1}')"
                .to_owned(),
            format!("SELECT file('/proc/{parent}/environ')"),
            format!("SELECT * FROM sqlite('{data}/catalog.db', 'personal_api_keys')"),
            format!(
                "INSERT INTO FUNCTION sqlite('{data}/catalog.db', 'personal_api_keys') \
                 (id, user_id, label, key_hash, mask_value, scopes, created_at) SELECT {key}"
            ),
            format!("INSERT INTO FUNCTION file('{data}/evil', 'TSV') SELECT 1"),
            format!("SELECT * FROM url('{}/_health/live', 'LineAsString')", server.credential("health_url")),
            format!("BACKUP DATABASE millrace TO File('{data}/evil')"),
        ] {
            let (status, text) = answer(&server, &sql);
            assert_ne!(status, 200, "{name}: {sql}: {text}");
            assert!(!CANARIES.iter().any(|canary| text.contains(canary)), "{name}: {sql}: {text}");
        }
        assert!(!dir.join("evil").exists());
        let keys = ask(&server, "GET", "/api/organizations/", &Value::Null);
        assert_eq!(keys.0, 200, "the catalog is as it was");
        // A file that it cannot read seems absent.
        let children = children(&server);
        assert!(!children.is_empty());
        for pid in children {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap();
            let environment = String::from_utf8_lossy(&environment).into_owned();
            let names: Vec<_> = environment
                .split_terminator('\0')
                .filter_map(|it| it.split_once('='))
                .collect();
            let allowed = [
                "MILLRACE_CLICKHOUSE_PASSWORD",
                "LD_LIBRARY_PATH",
                "RUST_BACKTRACE",
                "TERM",
            ];
            assert!(
                names.iter().all(|(name, _)| allowed.contains(name)),
                "{environment}"
            );
        }
    }
}

/// More than the engine itself has places for, as anybody may open them.
#[test]
fn connections_to_clickhouse_that_send_nothing_keep_no_event_out() {
    const CONNECTIONS: usize = 1_100;
    let dir = TempDir::new().unwrap();
    let server = Server::start(dir.path());
    server.wait_for_tables();
    let url = server.credential("clickhouse_url");
    let address = url.trim_start_matches("http://");
    let held: Vec<TcpStream> = (0..CONNECTIONS)
        .map(|_| {
            let mut stream = TcpStream::connect(address).unwrap();
            // One that was ended meanwhile is of no use to anybody.
            let _ = stream.write_all(b"GET /ping HTTP/1.1\r\nHost: ch\r\n\r\n");
            stream
        })
        .collect();
    server.capture(&json!([{"event": "stored", "distinct_id": "a"}]));
    server.wait_for("SELECT event FROM millrace.events", "stored");
    drop(held);
}
