//! Rotation of the secret key while a server runs exports and stores secrets, in the real binary.

use crate::export_runs::store_past;
use crate::server::{DEADLINE, Server, ask, eventually, eventually_within, millrace};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use tempfile::TempDir;

const ALL: &str = "/api/organizations/@current/batch_exports/";
const NEW_KEY: &str = "YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXoxMjM0NTY=";
const OLD_KEY: &str = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";
const UNTHROTTLED: [&str; 5] = [
    "--allow-private-destinations=true",
    "--admin-requests-per-minute-max",
    "0",
    "--admin-requests-per-hour-max",
    "0",
];

/// Starts a server that accepts all requests; returns its URL.
fn sink() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || take_all(stream));
        }
    });
    url
}

/// Answers the requests of a connection until it ends. Bodies have a length.
fn take_all(stream: TcpStream) -> Option<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            let line = line.trim().to_ascii_lowercase();
            if let Some(told) = line.strip_prefix("content-length:") {
                length = told.trim().parse().ok()?;
            }
            if line.is_empty() {
                break;
            }
        }
        reader.read_exact(&mut vec![0; length]).ok()?;
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
        reader.get_mut().write_all(answer).ok()?;
    }
}

fn rotate(dir: &Path, args: &[&str]) {
    let mut command = millrace();
    command.arg("--data-dir").arg(dir).args(args);
    let output = command.args(["secrets", "rotate"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

fn export_to(server: &Server, name: &str, url: &str) -> String {
    let new = json!({
        "name": name, "interval": "every 5 minutes",
        "destination": { "type": "HTTP", "config": { "url": url, "token": "t" } },
    });
    let (status, made) = ask(server, "POST", ALL, &new);
    assert_eq!(status, 201, "{made}");
    made["id"].as_str().unwrap().to_owned()
}

/// Opens the secrets of an export, and presents them.
fn assert_opens(server: &Server, id: &str) {
    let path = format!("{ALL}test/");
    let (status, tested) = ask(server, "POST", &path, &json!({ "batch_export": id }));
    assert_eq!(status, 200, "{tested}");
    for step in tested["steps"].as_array().unwrap() {
        assert_eq!(step["result"]["status"], "Passed", "{tested}");
    }
}

fn one(server: &Server, path: &str) -> Value {
    let (status, answer) = ask(server, "GET", &format!("{ALL}{path}"), &Value::Null);
    assert_eq!(status, 200, "{answer}");
    answer
}

#[test]
fn secret_keys_are_rotated_while_a_server_exports_and_stores_secrets() {
    let dir = TempDir::new().unwrap();
    let url = sink();
    let server = Server::start_with(dir.path(), &UNTHROTTLED);
    store_past(&server);
    let first = export_to(&server, "First", &url);
    let backfill = format!("{ALL}{first}/backfill/");
    let (status, asked) = ask(&server, "POST", &backfill, &json!({}));
    assert_eq!(status, 200, "{asked}");
    let mut kept = vec![first.clone()];
    eventually("the end of the backfill", || {
        rotate(dir.path(), &[]);
        kept.push(export_to(&server, "Made meanwhile", &url));
        let renamed = json!({ "name": "Renamed", "destination": { "config": { "token": "t2" } } });
        let path = format!("{ALL}{first}/");
        assert_eq!(ask(&server, "PATCH", &path, &renamed).0, 200);
        assert_opens(&server, &first);
        let backfills = one(&server, &format!("{first}/backfills/"));
        let status = &backfills["results"][0]["status"];
        assert!(["Starting", "Running", "Completed"].contains(&status.as_str().unwrap()));
        (status == "Completed" && kept.len() > 4).then_some(())
    });
    assert_eq!(one(&server, &format!("{first}/"))["paused"], false);
    let runs = one(&server, &format!("{first}/runs/?limit=1000"));
    let mut made = 0;
    for run in runs["results"].as_array().unwrap() {
        assert_eq!(run["latest_error"], Value::Null, "{run}");
        made += usize::from(run["status"] == "Completed");
    }
    assert!(made > 0);
    println!("{} rotations beside {made} runs", kept.len() - 1);
    let key = std::fs::read_to_string(dir.path().join("secret.key")).unwrap();
    assert_eq!(key.lines().count(), 2, "the key before stays");
    drop(server);
    // As after a failure between two rotations, and for a server that missed both.
    let server = Server::start_with(dir.path(), &UNTHROTTLED);
    for id in &kept {
        assert_opens(&server, id);
    }
    rotate(dir.path(), &[]);
    rotate(dir.path(), &[]);
    for id in &kept {
        assert_opens(&server, id);
    }
}

#[test]
fn exports_wait_on_a_server_without_the_new_key() {
    let dir = TempDir::new().unwrap();
    let url = sink();
    let with = |key| [&UNTHROTTLED[..], &["--secret-key", key]].concat();
    let server = Server::start_with(dir.path(), &with(OLD_KEY));
    store_past(&server);
    let id = export_to(&server, "First", &url);
    let both = format!("{NEW_KEY},{OLD_KEY}");
    // Too early: the server does not have both keys yet.
    rotate(dir.path(), &["--secret-key", &both]);
    let (status, asked) = ask(&server, "POST", &format!("{ALL}{id}/backfill/"), &json!({}));
    assert_eq!(status, 200, "{asked}");
    let failing = |server: &Server| {
        let runs = one(server, &format!("{id}/runs/?limit=1000"));
        let runs = runs["results"].as_array().unwrap().clone();
        let failed = runs
            .into_iter()
            .filter(|run| run["latest_error"] != Value::Null);
        failed.collect::<Vec<_>>()
    };
    // The first failed run delays all runs of the export until it is retried.
    let runs = eventually("a run that waits", || {
        let runs = failing(&server);
        (!runs.is_empty()).then_some(runs)
    });
    for run in &runs {
        assert_eq!(run["status"], "FailedRetryable", "{run}");
        let error = run["latest_error"].as_str().unwrap();
        assert!(error.contains("does not have"), "{error}");
    }
    assert_eq!(one(&server, &format!("{id}/"))["paused"], false);
    let backfills = one(&server, &format!("{id}/backfills/"));
    assert_eq!(backfills["results"][0]["status"], "Running");
    drop(server);
    let server = Server::start_with(dir.path(), &with(&both));
    assert_opens(&server, &id);
    let waited: Vec<&Value> = runs.iter().map(|run| &run["id"]).collect();
    // The pause before a retry is as long as the deadline.
    let runs = eventually_within(3 * DEADLINE, "the end of the backfill", || {
        let backfills = one(&server, &format!("{id}/backfills/"));
        let is_done = backfills["results"][0]["status"] == "Completed";
        is_done.then(|| one(&server, &format!("{id}/runs/?limit=1000")))
    });
    let runs = runs["results"].as_array().unwrap();
    for run_id in waited {
        let run = runs.iter().find(|run| run["id"] == *run_id).unwrap();
        assert_eq!(run["status"], "Completed", "{run}");
        assert_eq!(run["latest_error"], Value::Null, "{run}");
    }
    assert_eq!(one(&server, &format!("{id}/"))["paused"], false);
}
