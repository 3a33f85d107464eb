//! Exports in object stores: fetched whole, resumed after any interruption, and fetched anew when
//! they change.

use super::TestEnv;
use super::faulty_proxy::{FaultyProxy, ResponseFault, serve};
use super::object_stores::{SECRET, Store};
use crate::server::{eventually, free_address, millrace};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// Command `millrace import` in a folder, with the environment for a store at this address.
fn command(home: &Path, store: &Store, url: &str, args: &[&str]) -> Command {
    let mut command = millrace();
    command.current_dir(home).arg("import").args(args);
    command.envs(store.environment(url));
    command
}

pub fn fetch(home: &Path, store: &Store, url: &str, prefix: &str, more: &[&str]) -> Output {
    let prefix = format!("{}://{}/{prefix}", store.scheme, store.bucket);
    let args = [&["fetch", "objects", &prefix], more].concat();
    command(home, store, url, &args).output().unwrap()
}

/// Fetches a prefix successfully; returns the JSON result.
pub fn fetched(home: &Path, store: &Store, url: &str, prefix: &str) -> Value {
    let output = fetch(home, store, url, prefix, &["--json", "--silence", "1"]);
    assert!(output.status.success(), "{}: {output:?}", store.name);
    let text = String::from_utf8_lossy(&output.stdout);
    let last: Value = serde_json::from_str(text.lines().next_back().unwrap()).unwrap();
    last["result"].clone()
}

/// Error text of a failed command.
pub fn complaint(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!text.contains(SECRET), "{text}");
    text
}

/// Content of the staged files.
pub fn staged(home: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(home.join("millrace-import/data")).unwrap();
    let file = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        (name, std::fs::read(path).unwrap())
    };
    entries.map(file).collect()
}

pub fn event(number: usize) -> Vec<u8> {
    let event = serde_json::json!({
        "event": "moved", "distinct_id": format!("user {number}"), "timestamp": "2024-03-01T00:00:00Z",
        "properties": { "number": number },
    });
    format!("{event}\n").into_bytes()
}

#[test]
fn a_prefix_selects_a_folder_an_object_or_a_name_prefix() {
    let keys = [
        "day=01/a.ndjson",
        "day=01/b.ndjson",
        "day=02/a b.ndjson",
        "day=02/deep/er.ndjson",
        "day=021/a.ndjson",
    ];
    let table: [(&str, &[&str]); 6] = [
        ("day=01", &["a.ndjson", "b.ndjson"]),
        ("day=02/", &["a b.ndjson", "deep~er.ndjson"]),
        ("day=02/deep/er.ndjson", &["er.ndjson"]),
        (
            "day=02*",
            &[
                "day=021~a.ndjson",
                "day=02~a b.ndjson",
                "day=02~deep~er.ndjson",
            ],
        ),
        ("day=01/b*", &["b.ndjson"]),
        (
            "",
            &[
                "day=01~a.ndjson",
                "day=01~b.ndjson",
                "day=021~a.ndjson",
                "day=02~a b.ndjson",
                "day=02~deep~er.ndjson",
            ],
        ),
    ];
    on_each(Store::all(), |store| {
        let mut place = 0..;
        // For moto, a space must be encoded as in URLs.
        let spaced = |key: &str| match store.name {
            "moto" | "azurite" => key.replace(' ', "%20"),
            _ => key.to_owned(),
        };
        keys.iter()
            .for_each(|key| store.put(&spaced(key), &event(place.next().unwrap())));
        store.put("day=01/_SUCCESS", b"");
        store.put("day=01/.a.ndjson.crc", b"crc");
        for (prefix, expected) in table {
            let home = TempDir::new().unwrap();
            let result = fetched(home.path(), &store, &store.url, prefix);
            let found: Vec<_> = staged(home.path()).into_keys().collect();
            assert_eq!(found, expected, "{prefix} of {}", store.name);
            assert_eq!(result["parts_fetched"], expected.len());
            let again = fetched(home.path(), &store, &store.url, prefix);
            assert_eq!(
                (&again["parts_known"], &again["bytes"]),
                (&expected.len().into(), &0.into()),
                "{prefix} of {}",
                store.name
            );
        }
        let home = TempDir::new().unwrap();
        let output = fetch(home.path(), &store, &store.url, "day=03", &[]);
        let text = complaint(&output);
        assert!(text.contains("nothing below"), "{text}");
    });
}

#[test]
fn a_listing_of_many_pages_is_fetched_to_its_end_and_imported() {
    const OBJECTS: usize = 1_050;
    let (store, env) = (Store::s3s(), TestEnv::start());
    for number in 0..OBJECTS {
        let key = format!("segment-logs/{}/{number}.ndjson", number % 7);
        store.put(&key, &event(number));
    }
    let home = env.home.path();
    let result = fetched(home, &store, &store.url, "segment-logs");
    assert_eq!(result["parts_fetched"], OBJECTS);
    let (checked, code) = env.result(&["check"]);
    assert_eq!((&checked["records"], code), (&OBJECTS.into(), Some(0)));
    let (loaded, code) = env.result(&["load"]);
    assert_eq!((&loaded["accepted"], code), (&OBJECTS.into(), Some(0)));
    env.wait_for_events(OBJECTS as u64);
    let (reconciled, code) = env.result(&["reconcile"]);
    assert_eq!(code, Some(0), "{reconciled}");
}

/// Large object without repetitions.
fn large() -> Vec<u8> {
    (0..3_000_000_u32)
        .flat_map(|number| number.wrapping_mul(2_654_435_761).to_be_bytes())
        .take(3_000_000)
        .collect()
}

/// Runs a test on each of these stores, beside each other, as it waits for most of its time.
pub fn on_each<const STORES: usize>(stores: [Store; STORES], test: impl Fn(Store) + Sync) {
    let test = &test;
    std::thread::scope(|scope| {
        for store in stores {
            scope.spawn(move || test(store));
        }
    });
}

/// Stores that support ranges and tags.
pub fn exact() -> [Store; 3] {
    [Store::moto(), Store::azurite(), Store::google()]
}

#[test]
fn a_broken_or_stalled_transfer_is_resumed() {
    const BUSY: &str = "HTTP/1.1 503 Slow Down\r\ncontent-length: 36\r\nconnection: close\r\n\r\n\
                        <Error><Code>SlowDown</Code></Error>";
    let large = large();
    on_each(exact(), |store| {
        store.put("logs/large.json", &large);
        let between = FaultyProxy::start(&store.url, "large.json");
        between.expect([
            ResponseFault::Cut(1_000_000),
            ResponseFault::Replace(BUSY),
            ResponseFault::Stall(500_000),
        ]);
        let home = TempDir::new().unwrap();
        let result = fetched(home.path(), &store, &between.url, "logs");
        let ranges = [
            None,
            Some("bytes=1000000-"),
            Some("bytes=1000000-"),
            Some("bytes=1500000-"),
        ];
        let ranges = ranges.map(|range| range.map(str::to_owned));
        assert_eq!(between.ranges(), ranges, "{}", store.name);
        // Each byte was sent once.
        assert_eq!(result["bytes"], large.len(), "{}", store.name);
        assert!(staged(home.path())["large.json"] == large, "{}", store.name);
    });
}

#[test]
fn a_killed_fetch_resumes_within_an_unchanged_object() {
    let large = large();
    on_each(exact(), |store| {
        store.put("logs/large.json", &large);
        store.put("logs/small.json", b"small");
        for is_changed in [false, true] {
            let between = FaultyProxy::start(&store.url, "large.json");
            between.expect([ResponseFault::Stall(2_000_000)]);
            let home = TempDir::new().unwrap();
            let prefix = format!("{}://{}/logs", store.scheme, store.bucket);
            let mut child = command(
                home.path(),
                &store,
                &between.url,
                &["fetch", "objects", &prefix],
            )
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
            eventually("the first two megabytes", || {
                let data = home.path().join("millrace-import/data");
                let entries = std::fs::read_dir(data).ok()?;
                let mut lengths = entries.map(|entry| entry.unwrap().metadata().unwrap().len());
                lengths.any(|length| length == 2_000_000).then_some(())
            });
            child.kill().unwrap();
            child.wait().unwrap();
            let mut expected = large.clone();
            if is_changed {
                expected[7] ^= 1;
                store.put("logs/large.json", &expected);
            }
            fetched(home.path(), &store, &between.url, "logs");
            let files = staged(home.path());
            assert_eq!(files.len(), 2, "{}", store.name);
            assert!(files["large.json"] == expected, "{}", store.name);
            let range = between.ranges().pop().unwrap();
            assert_eq!(range.is_none(), is_changed, "{}: {range:?}", store.name);
        }
    });
}

#[test]
fn a_changed_object_is_fetched_anew() {
    on_each(Store::all(), |store| {
        store.put("logs/a.ndjson", &event(1));
        store.put("logs/b.ndjson", &event(2));
        let home = TempDir::new().unwrap();
        fetched(home.path(), &store, &store.url, "logs");
        // Of another length, so that it is detected in stores without tags, too.
        let changed = event(1_000);
        store.put("logs/a.ndjson", &changed);
        let again = fetched(home.path(), &store, &store.url, "logs");
        let counts = ["parts_fetched", "parts_changed", "parts_known"].map(|it| &again[it]);
        assert_eq!(counts, [1, 1, 1], "{}", store.name);
        assert_eq!(staged(home.path())["a.ndjson"], changed);
    });
}

#[test]
fn an_object_that_changes_during_a_fetch_is_not_mixed_with_its_old_content() {
    on_each(exact(), |store| {
        let store = std::sync::Arc::new(store);
        store.put("logs/a.ndjson", &event(1));
        let between = FaultyProxy::start(&store.url, "logs/a.ndjson");
        let other = std::sync::Arc::clone(&store);
        between.expect([ResponseFault::After(Box::new(move || {
            other.put("logs/a.ndjson", &event(2));
        }))]);
        let home = TempDir::new().unwrap();
        let output = fetch(home.path(), &store, &between.url, "logs", &[]);
        let text = complaint(&output);
        assert!(text.contains("has changed since"), "{}: {text}", store.name);
        fetched(home.path(), &store, &between.url, "logs");
        assert_eq!(staged(home.path())["a.ndjson"], event(2));
    });
}

#[test]
fn a_failed_fetch_from_a_store_prints_its_reason_and_advice() {
    let home = TempDir::new().unwrap();
    let gone = format!("http://{}", free_address());
    let denying = b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    let denying = serve(move |_, _| (denying.to_vec(), ResponseFault::None));
    let (s3s, azurite) = (Store::s3s(), Store::azurite());
    let wrong = |store: &Store, changes: &[(&str, &str)], removed: &[&str], url: &str| {
        let mut command = command(home.path(), store, &store.url, &["fetch", "objects", url]);
        removed.iter().for_each(|name| {
            command.env_remove(name);
        });
        complaint(&command.envs(changes.iter().copied()).output().unwrap())
    };
    let keys = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"];
    let bucket = "s3://exports/logs";
    let secret = [("AWS_SECRET_ACCESS_KEY", "wrong")];
    let other_key = [("AZURE_STORAGE_ACCOUNT_KEY", "d3Jvbmc=")];
    let table = [
        (
            wrong(&s3s, &secret, &[], bucket),
            "does not accept the credentials (403 SignatureDoesNotMatch)",
        ),
        (wrong(&s3s, &secret, &[], bucket), "Check AWS_ACCESS_KEY_ID"),
        (
            wrong(&s3s, &[], &keys[1..], bucket),
            "Missing SecretAccessKey. Set AWS_ACCESS_KEY_ID",
        ),
        (
            wrong(&s3s, &[("AWS_METADATA_ENDPOINT", &gone)], &keys, bucket),
            "there are no credentials in the environment; set AWS_ACCESS_KEY_ID",
        ),
        (
            wrong(&s3s, &[("AWS_METADATA_ENDPOINT", &denying)], &keys, bucket),
            "there are no credentials in the environment; set AWS_ACCESS_KEY_ID",
        ),
        (
            wrong(&s3s, &[], &[], "s3://other/logs"),
            "has no bucket \"other\"",
        ),
        (
            wrong(&s3s, &[("AWS_ENDPOINT_URL", &gone)], &[], bucket),
            "S3 could not be reached; try 2 of 5",
        ),
        (
            wrong(&azurite, &other_key, &[], "az://exports/logs"),
            "AZURE_STORAGE_ACCOUNT_KEY",
        ),
        (
            wrong(&azurite, &[], &[], "az://other/logs"),
            "has no bucket \"other\"",
        ),
        (
            wrong(&s3s, &[], &[], "ftp://exports/logs"),
            "ftp:// is not a known object store",
        ),
        (
            wrong(&s3s, &[], &[], "exports/logs"),
            "name one such as s3://bucket",
        ),
    ];
    for (text, expected) in table {
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

#[test]
fn a_staging_folder_holds_parts_of_one_source_only() {
    let store = Store::s3s();
    store.put("one/a.ndjson", &event(1));
    store.put("other/a.ndjson", &event(2));
    let home = TempDir::new().unwrap();
    fetched(home.path(), &store, &store.url, "one");
    let text = complaint(&fetch(home.path(), &store, &store.url, "other", &[]));
    assert!(
        text.contains("s3://exports/one") && text.contains("another folder with --staging"),
        "{text}"
    );
    assert_eq!(staged(home.path())["a.ndjson"], event(1));
}
