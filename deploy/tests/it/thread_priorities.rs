//! Priorities of threads: those that serve requests go first on a saturated core.

use crate::server::{Server, eventually};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;
use tempfile::TempDir;

/// Name of SQLite's threads, which inherit the niceness of the thread that opened the connection.
const OF_EITHER: &str = "sqlx-sqlite-wor";

/// Names and niceness of threads.
type Threads = Vec<(String, i32)>;

fn threads(pid: i32) -> Threads {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    tasks
        .filter_map(|task| thread(&task.unwrap().path()))
        .collect()
}

/// Name and niceness of a thread; `None` if it has ended meanwhile.
fn thread(task: &Path) -> Option<(String, i32)> {
    let stat = std::fs::read_to_string(task.join("stat")).ok()?;
    // A name may hold spaces and brackets; fields are counted from behind it. Niceness is the
    // nineteenth field; the first one behind the name is the third.
    let (name, fields) = stat.rsplit_once(") ")?;
    let (_, name) = name.split_once('(')?;
    let nice = fields.split(' ').nth(19 - 3)?.parse().unwrap();
    Some((name.to_owned(), nice))
}

fn children(pid: i32) -> Vec<i32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let of_each = tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("children")));
    let all: Vec<String> = of_each.map_while(Result::ok).collect();
    let pids = all.iter().flat_map(|text| text.split_whitespace());
    pids.map(|pid| pid.parse().unwrap()).collect()
}

#[test]
fn background_threads_have_a_lower_priority_than_requests() {
    let home = TempDir::new().unwrap();
    let server = Server::start(home.path());
    // Shipped, so that the threads of shipping have started.
    server.capture(&json!([{"event": "e", "distinct_id": "a"}]));
    server.wait_for("SELECT count() FROM millrace.events", "1");
    let pid = server.pid().as_raw_nonzero().get();

    let nice_of = BTreeMap::from([
        ("background", 5),
        // Large bodies are decoded and parsed here.
        ("offload", 5),
        ("exports", 5),
        ("persons", 5),
        ("ingest-", 0),
        ("commit-live", 0),
        ("commit-historic", 0),
        ("health", 0),
        ("live", 5),
        ("admin", 5),
        ("clickhouse-supe", 0),
        ("millrace", 0),
    ]);
    let long = "x".repeat(700 << 10);
    let large = vec![json!({"event": "e", "distinct_id": "a", "properties": {"long": long}}); 8];
    let seen = eventually("every kind of thread", || {
        server.capture(&json!(large));
        let seen = threads(pid);
        let is_there = |kind: &&str| seen.iter().any(|(name, _)| name.starts_with(kind));
        nice_of.keys().all(is_there).then_some(seen)
    });
    let seen = seen.into_iter().filter(|(name, _)| name != OF_EITHER);
    let seen: Threads = seen.collect();
    for (name, nice) in &seen {
        let kind = nice_of.keys().find(|kind| name.starts_with(**kind));
        let kind = kind.unwrap_or_else(|| panic!("who is {name:?}? {seen:?}"));
        assert_eq!(*nice, nice_of[kind], "{name}: {seen:?}");
    }

    let engines = children(pid);
    assert!(!engines.is_empty());
    for engine in engines {
        let seen = threads(engine);
        // ClickHouse raises the priority of a thread that watches memory, where it may.
        assert!(seen.iter().all(|(_, nice)| *nice <= 5), "{seen:?}");
        let lowered = seen.iter().filter(|(_, nice)| *nice == 5).count();
        assert!(lowered + 2 >= seen.len(), "{seen:?}");
    }
}
