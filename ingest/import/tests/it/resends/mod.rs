//! Resends of rejects: mended or not, from the import's own file or a copy, in any order, with
//! crashes in between. Each record is counted once, and an accepted one is stored once.

mod any_order;

use crate::server::{CannedResponse, ReceivedRequest, serve};
use flate2::Compression;
use flate2::write::GzEncoder;
use millrace_import::chunk::ChunkLimits;
use millrace_import::files::find;
use millrace_import::journal::Journal;
use millrace_import::load::{Load, Outcome, run};
use millrace_import::plan::Plan;
use millrace_import::rejected_records::Reject;
use millrace_import::staging::{LoadFolder, Staging};
use millrace_import::stats::StageStats;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;

const KEY: &str = "phc_x";

/// Stored events of the test's server, and the faults to come.
#[derive(Default)]
struct ServerState {
    /// Uuids by the number of the record.
    stored: BTreeMap<u64, BTreeSet<String>>,
    /// Number of requests that are still accepted; the next one ends the import.
    requests_left: Option<u32>,
    /// Number of requests until the import is killed before it gets the response. A kill restores
    /// the folder to its content at that time.
    killed_in: Option<u32>,
    folder: PathBuf,
    snapshot: Option<BTreeMap<String, Vec<u8>>>,
}

struct TestEnv {
    dir: TempDir,
    url: String,
    state: Arc<Mutex<ServerState>>,
}

/// Makes a record: the server refuses a `bad` one, the mapping one without a time.
fn record(number: u64, kind: Kind) -> Value {
    let mut record =
        json!({ "event": "a", "distinct_id": "b", "properties": { "number": number } });
    match kind {
        Kind::Good => record["timestamp"] = json!("2024-01-01"),
        Kind::Timeless => {}
        Kind::Bad => {
            record["timestamp"] = json!("2024-01-01");
            record["properties"]["bad"] = json!(true);
        }
    }
    record
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Good,
    Timeless,
    Bad,
}

fn kind_of(number: u64) -> Kind {
    [Kind::Good, Kind::Timeless, Kind::Bad, Kind::Good, Kind::Bad][number as usize % 5]
}

fn respond(state: &mut ServerState, request: &ReceivedRequest) -> CannedResponse {
    if state.requests_left == Some(0) {
        return (
            403,
            None,
            json!({ "code": "payment_required", "detail": "No." }),
        );
    }
    state.requests_left = state.requests_left.map(|left| left - 1);
    let mut refused = Vec::new();
    for (index, event) in request.events().iter().enumerate() {
        let properties = &event["properties"];
        if properties["bad"] == true {
            refused.push(
                json!({ "index": index, "code": "bad", "detail": "It is bad.", "attr": null }),
            );
        } else {
            let uuids = state
                .stored
                .entry(properties["number"].as_u64().unwrap())
                .or_default();
            uuids.insert(event["uuid"].as_str().unwrap().to_owned());
        }
    }
    match state.killed_in {
        Some(0) => {
            state.killed_in = None;
            state.snapshot = Some(contents(&state.folder));
        }
        left => state.killed_in = left.map(|left| left - 1),
    }
    let body = json!({ "status": "Ok", "rejected_count": refused.len(), "rejected": refused });
    (200, None, body)
}

/// Reads the files of a folder; the journal first, as it is written last.
fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let names = ["journal.ndjson", "rejects.ndjson", "resending.ndjson"];
    let read = |name: &str| Some((name.to_owned(), std::fs::read(folder.join(name)).ok()?));
    names.into_iter().filter_map(read).collect()
}

impl TestEnv {
    fn start() -> Self {
        let dir = TempDir::new().unwrap();
        let state = Arc::new(Mutex::new(ServerState::default()));
        let shared = Arc::clone(&state);
        let url = serve(move |request| respond(&mut shared.lock().unwrap(), request));
        let env = Self { dir, url, state };
        env.state.lock().unwrap().folder = env.rejects().parent().unwrap().to_owned();
        env
    }

    fn folder(&self) -> LoadFolder {
        Staging::open(&self.path("staging")).unwrap().load(KEY)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn rejects(&self) -> PathBuf {
        self.folder().rejects()
    }

    fn write(&self, name: &str, numbers: std::ops::Range<u64>) {
        let lines = numbers.map(|number| format!("{}\n", record(number, kind_of(number))));
        std::fs::write(self.path(name), lines.collect::<String>()).unwrap();
    }

    fn run(&self, files: &[&str], rejects: Option<&Path>) -> anyhow::Result<Outcome> {
        let names = files
            .iter()
            .map(|name| self.path(name).to_string_lossy().into_owned());
        let load = Load {
            url: self.url.clone(),
            project_key: KEY.to_owned(),
            plan: Plan {
                is_replay: rejects.is_some(),
                ..Plan::default()
            },
            files: find(&names.collect::<Vec<_>>()).unwrap(),
            rejects: rejects.map(Path::to_owned),
            staging: Staging::open(&self.path("staging")).unwrap(),
            is_restart: false,
            files_parallel: 2,
            requests_parallel: 3,
            compression: None,
            give_up_after: Duration::ZERO,
            limits: ChunkLimits {
                chunk_records: 3,
                request_events: 2,
                ..ChunkLimits::default()
            },
        };
        let outcome = run(&load, &Arc::new(StageStats::default()));
        let mut state = self.state.lock().unwrap();
        (state.requests_left, state.killed_in) = (None, None);
        if let Some(snapshot) = state.snapshot.take() {
            for path in ["journal.ndjson", "rejects.ndjson", "resending.ndjson"] {
                // The file may be missing.
                let _ = std::fs::remove_file(state.folder.join(path));
            }
            for (name, bytes) in snapshot {
                std::fs::write(state.folder.join(name), bytes).unwrap();
            }
        }
        outcome
    }

    fn lines(&self, path: &Path) -> Vec<Reject> {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
        lines.collect()
    }

    /// Mends the selected rejects of a file, as a person would.
    fn mend(&self, path: &Path, is_mended: impl Fn(u64) -> bool) {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let mend = |line: &str| {
            let mut line: Value = serde_json::from_str(line).unwrap();
            let number = line["raw"]["properties"]["number"].as_u64().unwrap();
            if is_mended(number) {
                line["raw"] = record(number, Kind::Good);
            }
            format!("{line}\n")
        };
        std::fs::write(path, text.lines().map(mend).collect::<String>()).unwrap();
    }

    /// Asserts that the journal's counts equal the server's, and the file of rejects both.
    fn check(&self, records: u64, label: &str) {
        let sum = Journal::read(&self.folder().journal()).unwrap().sum;
        let state = self.state.lock().unwrap();
        let stored = state.stored.len() as u64;
        assert!(
            state.stored.values().all(|uuids| uuids.len() == 1),
            "{label}: stored twice"
        );
        let rejected: u64 = sum.rejected.values().sum();
        let counts = (sum.records, sum.accepted.total(), rejected);
        assert_eq!(counts, (records, stored, records - stored), "{label}");
        let mut listed = BTreeSet::new();
        for reject in self.lines(&self.rejects()) {
            assert!(
                reject.file.ends_with(".ndjson") && reject.format == "captured",
                "{reject:?}"
            );
            let raw: Value = serde_json::from_str(&reject.raw).unwrap();
            let number = raw["properties"]["number"].as_u64().unwrap();
            assert!(listed.insert(number), "{label}: {number} is listed twice");
            assert!(
                !state.stored.contains_key(&number),
                "{label}: {number} was accepted"
            );
        }
        assert_eq!(listed.len() as u64, rejected, "{label}");
    }
}

#[test]
fn a_record_refused_again_is_listed_once_and_removed_once_it_is_mended() {
    let env = TestEnv::start();
    env.write("a.ndjson", 0..10);
    env.run(&["a.ndjson"], None).unwrap();
    env.check(10, "loaded");
    let copy = env.path("copy.ndjson.gz");
    let mut packed = GzEncoder::new(std::fs::File::create(&copy).unwrap(), Compression::fast());
    packed
        .write_all(&std::fs::read(env.rejects()).unwrap())
        .unwrap();
    packed.finish().unwrap();
    env.run(&[], Some(&copy)).unwrap();
    env.check(10, "a copy, not mended");
    env.mend(&env.rejects(), |number| number % 2 == 0);
    env.run(&[], Some(&env.rejects())).unwrap();
    env.check(10, "half of it mended");
    let outcome = env.run(&[], Some(&copy)).unwrap();
    assert_eq!(outcome.left_out, 3);
    env.check(10, "the copy once more");
    env.mend(&env.rejects(), |_| true);
    env.run(&[], Some(&env.rejects())).unwrap();
    env.check(10, "all mended");
    assert_eq!(std::fs::read(env.rejects()).unwrap(), b"");
}

#[test]
fn a_reject_with_too_long_a_line_is_reported_and_the_others_are_sent() {
    let env = TestEnv::start();
    // Each of these bytes takes six in JSON.
    let controls = "\u{1}".repeat(11 << 20);
    let lines = [0, 1].map(|number| record(number, kind_of(number)).to_string());
    let text = [&lines[0], &controls, &lines[1]].map(|line| format!("{line}\n"));
    std::fs::write(env.path("a.ndjson"), text.concat()).unwrap();
    env.run(&["a.ndjson"], None).unwrap();
    let rejects = std::fs::read_to_string(env.rejects()).unwrap();
    let mended = rejects.lines().map(|line| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        if line["raw"].is_object() {
            line["raw"] = record(1, Kind::Good);
        }
        format!("{line}\n")
    });
    let mended: String = mended.collect();
    std::fs::write(env.rejects(), &mended).unwrap();
    for _ in 0..2 {
        let outcome = env.run(&[], Some(&env.rejects())).unwrap();
        assert_eq!(outcome.passed_over.len(), 1);
        let name = env.rejects().to_string_lossy().into_owned();
        assert!(
            outcome.passed_over[0].starts_with(&name),
            "{:?}",
            outcome.passed_over
        );
        let sum = outcome.progress.sum;
        let counts = (
            sum.records,
            sum.accepted.total(),
            sum.rejected["invalid_json"],
        );
        assert_eq!(counts, (3, 2, 1));
        let left = env.lines(&env.rejects());
        assert_eq!(left.len(), 1);
        assert_eq!(left[0].raw, controls);
    }
}

#[test]
fn an_unreadable_file_of_rejects_is_refused_before_anything_is_sent() {
    let env = TestEnv::start();
    env.write("a.ndjson", 0..10);
    env.run(&["a.ndjson"], None).unwrap();
    let text = std::fs::read_to_string(env.rejects()).unwrap();
    let first = text.lines().next().unwrap();
    let other = first.replace("\"distinct_id\":\"b\"", "\"distinct_id\":\"c\"");
    let table = [
        (text.replacen("{\"file\"", "{file", 1), ":1 is not a reject"),
        (format!("{text}{first}\n"), ""),
        (
            format!("{text}{other}\n"),
            "twice, and not the same, in its lines 1 and 7",
        ),
    ];
    for (edited, needle) in table {
        std::fs::write(env.rejects(), &edited).unwrap();
        let outcome = env.run(&[], Some(&env.rejects()));
        if needle.is_empty() {
            outcome.unwrap();
            env.check(10, "the same line twice");
            continue;
        }
        let error = format!("{:#}", outcome.unwrap_err());
        assert!(
            error.contains(needle) && error.contains("nothing was sent"),
            "{error}"
        );
        let left = std::fs::read_to_string(env.rejects()).unwrap();
        assert!(left.lines().count() + 1 >= edited.lines().count(), "{left}");
    }
}
