//! Plugin sources that would crash the process that parses them.

use crate::server::{Server, ask, get};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Size of a source that fits a request body.
const SOURCE_BYTES: usize = 1_000_000;
/// Longest response time: 2 s of CPU time on a shared core.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// Attempts on a machine without time for the source.
const TRIES_MAX: usize = 5;

/// Creates a plugin; returns the path of its sources.
fn plugin(server: &Server) -> String {
    let (_, organizations) = ask(server, "GET", "/api/organizations/", &Value::Null);
    let organization = organizations["results"][0]["id"].as_str().unwrap();
    let plugins = format!("/api/organizations/{organization}/plugins/");
    let body = json!({"plugin_type": "source", "name": "p"});
    let (status, made) = ask(server, "POST", &plugins, &body);
    assert_eq!(status, 201, "{made}");
    format!("{plugins}{}/update_source/", made["id"])
}

fn is_ready(server: &Server) -> bool {
    let url = format!("{}/_health/live", server.credential("health_url"));
    get(&url, &[]).0 == 200
}

/// Changes a source until there is time to parse it.
fn sent(server: &Server, path: &str, source: &Value) -> (u16, Value) {
    parsed(server, "PATCH", path, source)
}

/// Sends a request until there is time for the source that it needs parsed.
fn parsed(server: &Server, method: &str, path: &str, body: &Value) -> (u16, Value) {
    for _ in 1..TRIES_MAX {
        let started = Instant::now();
        let (status, answer) = ask(server, method, path, body);
        assert!(started.elapsed() < ANSWER_MAX, "{:?}", started.elapsed());
        if status != 503 {
            return (status, answer);
        }
    }
    ask(server, method, path, body)
}

/// Limits of a parser process, as the kernel reports them.
#[derive(Debug)]
struct ChildLimits {
    limits: String,
    environment: Vec<u8>,
    nice: i32,
    folder: PathBuf,
}

impl ChildLimits {
    /// Reads the limits of this process's only child; `None` if there is none, or it has ended
    /// meanwhile.
    fn of_child(pid: i32) -> Option<Self> {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        let of_each = tasks
            .map_while(|task| std::fs::read_to_string(task.ok()?.path().join("children")).ok());
        let children = of_each.collect::<String>();
        let child = children.split_whitespace().next()?;
        let child = Path::new("/proc").join(child);
        let stat = std::fs::read_to_string(child.join("stat")).ok()?;
        let (_, fields) = stat.rsplit_once(") ")?;
        Some(Self {
            limits: std::fs::read_to_string(child.join("limits")).ok()?,
            environment: std::fs::read(child.join("environ")).ok()?,
            nice: fields.split(' ').nth(19 - 3)?.parse().ok()?,
            folder: std::fs::read_link(child.join("cwd")).ok()?,
        })
    }

    /// Hard limit of a resource; `None` for unlimited.
    fn hard(&self, name: &str) -> Option<u64> {
        let line = self.limits.lines().find(|line| line.starts_with(name))?;
        line[name.len()..].split_whitespace().nth(1)?.parse().ok()
    }
}

/// Responses cannot show this: without limits a source could exhaust the machine, and with an
/// environment an exploited parser would have its secrets.
#[test]
fn the_parser_process_has_minimal_rights() {
    const ADDRESSES_MAX: u64 = 8 << 30;
    let dir = TempDir::new().unwrap();
    let server = Server::start_mode("admin", dir.path(), &["--export-runs-max", "0"]);
    let (path, pid) = (plugin(&server), server.pid().as_raw_nonzero().get());
    let source = "a<b<c>>(".repeat(SOURCE_BYTES / "a<b<c>>(".len());
    let seen = std::thread::scope(|scope| {
        let sender = scope.spawn(|| sent(&server, &path, &json!({"index.ts": source})));
        // The last observation: the process lowers its limits one after the other, before it
        // parses.
        let mut seen = None;
        while !sender.is_finished() {
            seen = ChildLimits::of_child(pid).or(seen);
            std::thread::sleep(Duration::from_millis(1));
        }
        sender.join().unwrap();
        seen.unwrap()
    });
    let bounds = [
        ("Max cpu time", Some(3)),
        ("Max core file size", Some(0)),
        ("Max file size", Some(0)),
        ("Max open files", Some(0)),
    ];
    for (name, most) in bounds {
        assert_eq!(seen.hard(name), most, "{name}: {}", seen.limits);
    }
    // The mappings at its start, which are small, and 640 MiB.
    let mapped_max = seen.hard("Max address space");
    let is_bounded = mapped_max.is_some_and(|it| (640 << 20..ADDRESSES_MAX).contains(&it));
    assert!(is_bounded, "{}", seen.limits);
    assert_eq!(seen.environment, b"", "its environment");
    assert_eq!(seen.nice, 10);
    assert_eq!(seen.folder, Path::new("/"));
}

#[test]
fn no_source_ends_the_server() {
    let dir = TempDir::new().unwrap();
    let server = Server::start_mode("admin", dir.path(), &["--export-runs-max", "0"]);
    let (path, pid) = (plugin(&server), server.pid());
    // Ambiguous pieces overflow the parser's stack; the others take its time or its memory.
    let pieces = [
        "x?(y):z=>",
        "a<b<c>>(",
        "(a,b)=>",
        "<T>(x)=>",
        "(",
        "[",
        "{",
        "<",
        "{a:",
        "(a,",
        "`${",
        "a=>",
        "if(1)",
        "async(",
        "a?b:",
        "/*",
        "\u{e000}",
    ];
    for piece in pieces {
        let source = piece.repeat(SOURCE_BYTES / piece.len());
        let (status, answer) = sent(&server, &path, &json!({"index.ts": source}));
        let told = (&answer["code"], &answer["attr"]);
        let is_refused = status == 400 && told == (&json!("invalid_input"), &json!("index.ts"));
        assert!(status == 200 || is_refused, "{piece}: {status} {answer}");
        // This source crashed servers once.
        assert!(is_refused || piece != "x?(y):z=>", "{answer}");
        assert!(is_ready(&server), "{piece}");
    }
    assert_eq!(server.pid(), pid);
    let broken = json!({"index.ts": "export const a = 1\nexport functoin onEvent() {}"});
    let (status, answer) = ask(&server, "PATCH", &path, &broken);
    let told = (&answer["code"], &answer["attr"]);
    assert_eq!(
        (status, told),
        (400, (&json!("invalid_input"), &json!("index.ts")))
    );
    let detail = answer["detail"].as_str().unwrap();
    assert!(detail.contains("line 2, column 1"), "{detail}");
    let source = json!({"index.ts": "export const jobs = { retry() {} }, onEvent = () => {}"});
    let (status, answer) = ask(&server, "PATCH", &path, &source);
    let expected = json!({"methods": ["onEvent"], "jobs": ["retry"], "scheduled_tasks": []});
    assert_eq!(
        (status, &answer["capabilities"]),
        (200, &expected),
        "{answer}"
    );
}

/// Sources of the catalogue are parsed as well, when a plugin is created from it or upgraded.
#[test]
fn no_release_of_the_catalogue_ends_the_server() {
    const URL: &str = "https://c.example/sender";
    let (dir, catalogue) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let publish = |tag: &str, source: &str| {
        let index = json!([{
            "name": "Sender", "url": URL, "type": "data_out", "tag": tag, "path": "sender",
            "files": ["index.js"],
        }]);
        let inside = catalogue.path().join("sender");
        std::fs::create_dir_all(&inside).unwrap();
        std::fs::write(inside.join("index.js"), source).unwrap();
        std::fs::write(catalogue.path().join("plugins.json"), index.to_string()).unwrap();
    };
    let hostile = "x?(y):z=>".repeat(SOURCE_BYTES / "x?(y):z=>".len());
    let good = "export function onEvent() {}";
    let folder = catalogue.path().to_str().unwrap();
    let args = ["--export-runs-max", "0", "--plugin-catalogue", folder];
    let server = Server::start_mode("admin", dir.path(), &args);
    let (_, organizations) = ask(&server, "GET", "/api/organizations/", &Value::Null);
    let organization = organizations["results"][0]["id"].as_str().unwrap();
    let plugins = format!("/api/organizations/{organization}/pipeline_destinations/");
    let (new, same) = (json!({"plugin_type": "repository", "url": URL}), json!({}));
    let (mut path, pid) = (plugins.clone(), server.pid());
    // Release, its source, and the status of a request for it: first to create, then to upgrade.
    for (tag, source, status) in [
        ("1", hostile.as_str(), 400),
        ("2", good, 201),
        ("3", hostile.as_str(), 400),
        ("4", good, 200),
    ] {
        publish(tag, source);
        let body = if path == plugins { &new } else { &same };
        let (found, answer) = parsed(&server, "POST", &path, body);
        assert_eq!(found, status, "{tag}: {answer}");
        let is_blamed = answer["attr"] == "url";
        assert_eq!(is_blamed, status == 400, "{tag}: {answer}");
        if status == 201 {
            path = format!("{plugins}{}/upgrade/", answer["id"]);
        }
        assert!(is_ready(&server), "{tag}");
    }
    assert_eq!(server.pid(), pid);
}
