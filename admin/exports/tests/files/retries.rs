//! Tests of runs that are tried again.

use crate::support::{STEM, deliver, lines, run, written};
use crate::test_store::TestStore;
use millrace_exports::{ExportError, ExportErrorKind};
use serde_json::json;
use std::collections::BTreeMap;

on_each!(
    a_retried_run_creates_the_same_files,
    files_beyond_a_smaller_number_are_deleted,
    a_try_that_ended_between_files_and_manifest_is_overwritten,
    files_of_another_format_are_deleted_if_they_are_this_exports,
    files_of_another_export_are_not_overwritten,
    files_of_other_windows_and_of_others_stay,
    keys_that_are_no_valid_paths_do_not_block_a_window,
    a_slow_try_deletes_nothing_of_a_later_one,
);

async fn texts(store: &dyn TestStore, folder: &str) -> BTreeMap<String, String> {
    let files = store.files().await.into_iter();
    let ours = files.filter_map(|(key, bytes)| {
        let name = key.strip_prefix(folder)?.trim_start_matches('/').to_owned();
        Some((name.replace(STEM, "W"), String::from_utf8(bytes).unwrap()))
    });
    ours.collect()
}

async fn names(store: &dyn TestStore, folder: &str) -> Vec<String> {
    texts(store, folder).await.into_keys().collect()
}

async fn a_retried_run_creates_the_same_files(store: &dyn TestStore) {
    let destination = store.open("same", json!({"compression": "gzip"}));
    let text = lines("same", 1_000);
    deliver(destination.as_ref(), &run(0), &[&text])
        .await
        .unwrap();
    let first = store.files().await;
    deliver(destination.as_ref(), &run(0), &[&text])
        .await
        .unwrap();
    assert!(store.files().await == first);
    deliver(destination.as_ref(), &run(0), &["other\n"])
        .await
        .unwrap();
    let last = store.files().await;
    assert_eq!(last.len(), first.len());
    assert!(
        last.values()
            .zip(first.values())
            .all(|(last, first)| last != first)
    );
}

async fn files_beyond_a_smaller_number_are_deleted(store: &dyn TestStore) {
    let destination = store.open("fewer", json!({"max_file_size_mb": 1}));
    deliver(destination.as_ref(), &run(0), &["a\n", "b\n", "c\n"])
        .await
        .unwrap();
    assert_eq!(
        names(store, "fewer").await,
        ["W-0.jsonl", "W-1.jsonl", "W-2.jsonl", "W_manifest.json"]
    );
    deliver(destination.as_ref(), &run(0), &["d\n"])
        .await
        .unwrap();
    assert_eq!(
        names(store, "fewer").await,
        ["W-0.jsonl", "W_manifest.json"]
    );
    assert_eq!(texts(store, "fewer").await["W-0.jsonl"], "d\n");
    // Without a limit, when the estimate was another one.
    let unlimited = store.open("fewer", json!({}));
    deliver(unlimited.as_ref(), &run(0), &["e\n"])
        .await
        .unwrap();
    assert_eq!(names(store, "fewer").await, ["W.jsonl", "W_manifest.json"]);
}

async fn a_try_that_ended_between_files_and_manifest_is_overwritten(store: &dyn TestStore) {
    let destination = store.open("cut", json!({"max_file_size_mb": 1}));
    deliver(destination.as_ref(), &run(0), &["a\n", "b\n", "c\n"])
        .await
        .unwrap();
    // As if the process had been killed before.
    store.remove(&format!("cut/{STEM}_manifest.json")).await;
    deliver(destination.as_ref(), &run(0), &["d\n", "e\n"])
        .await
        .unwrap();
    let found = texts(store, "cut").await;
    assert_eq!(
        names(store, "cut").await,
        ["W-0.jsonl", "W-1.jsonl", "W_manifest.json"]
    );
    assert_eq!(
        (found["W-0.jsonl"].as_str(), found["W-1.jsonl"].as_str()),
        ("d\n", "e\n")
    );
}

async fn files_of_another_format_are_deleted_if_they_are_this_exports(store: &dyn TestStore) {
    let lines = store.open("format", json!({}));
    let csv = store.open("format", json!({"file_format": "CSV"}));
    deliver(lines.as_ref(), &run(0), &["a\n"]).await.unwrap();
    deliver(csv.as_ref(), &run(0), &["b\n"]).await.unwrap();
    assert_eq!(names(store, "format").await, ["W.csv", "W_manifest.json"]);
}

async fn files_of_another_export_are_not_overwritten(store: &dyn TestStore) {
    let destination = store.open("shared", json!({}));
    let mut other = run(0);
    other.export_id = uuid::Uuid::from_u128(8);
    let refusal = |outcome: Result<(), ExportError>, owner: &str| {
        let error = outcome.unwrap_err();
        assert_eq!(error.kind, ExportErrorKind::Permanent);
        assert!(error.message.contains("prefix"), "{error}");
        assert!(error.message.starts_with(owner), "{error}");
    };
    let first_export = format!("The export {} has", run(0).export_id);
    // This delivery begins before, and would end after.
    let late = written(destination.as_ref(), &other, &["b\n"]).await;
    deliver(destination.as_ref(), &run(0), &["a\n"])
        .await
        .unwrap();
    let first = store.files().await;
    refusal(late.unwrap().publish().await.map(drop), &first_export);
    refusal(
        deliver(destination.as_ref(), &other, &["c\n"])
            .await
            .map(drop),
        &first_export,
    );
    assert!(store.files().await == first);
    // Nor are unknown files.
    let key = format!("shared/{STEM}_manifest.json");
    store.put(&key, b"precious").await;
    refusal(
        deliver(destination.as_ref(), &run(0), &["d\n"])
            .await
            .map(drop),
        "Somebody else has",
    );
    store.remove(&key).await;
    deliver(destination.as_ref(), &other, &["e\n"])
        .await
        .unwrap();
    assert_eq!(texts(store, "shared").await["W.jsonl"], "e\n");
}

async fn keys_that_are_no_valid_paths_do_not_block_a_window(store: &dyn TestStore) {
    let destination = store.open("odd", json!({}));
    store.put(&format!("odd/{STEM}//x"), b"odd").await;
    for _ in 0..2 {
        let delivered = deliver(destination.as_ref(), &run(0), &["a\n"]).await;
        delivered.unwrap();
    }
    let files = store.files().await;
    let text = &files[&format!("odd/{STEM}.jsonl")];
    assert_eq!((files.len(), text.as_slice()), (3, &b"a\n"[..]));
}

async fn files_of_other_windows_and_of_others_stay(store: &dyn TestStore) {
    let destination = store.open("near", json!({"max_file_size_mb": 1}));
    let foreign = [
        "precious.txt".to_owned(),
        format!("near/{STEM}"),
        format!("near/{STEM}-0.jsonl.gz"),
        format!("near/{STEM}-0.jsonl.bak"),
        format!("near/{STEM}-x.jsonl"),
        format!("near/{STEM}-1-2.jsonl"),
        format!("near/{STEM}.d/0.jsonl"),
        format!("nearer/{STEM}-1.jsonl"),
        format!("near/sub/{STEM}-1.jsonl"),
    ];
    for key in &foreign {
        store.put(key, b"precious").await;
    }
    // Anybody with access to the store may write this, too.
    let keys = [
        "precious.txt",
        "../precious.txt",
        "near/../precious.txt",
        "/precious.txt",
    ];
    let of_all = keys.map(str::to_owned).into_iter().chain(foreign.clone());
    let files: Vec<_> = of_all
        .filter(|key| !key.ends_with(".gz") && !key.ends_with(".bak"))
        .map(|key| json!({"key": key, "rows": 1, "bytes": 1, "sha256": ""}))
        .collect();
    let forged = json!({
        "export_id": run(0).export_id, "model": "events", "data_interval_start": null,
        "data_interval_end": "", "rows": 1, "bytes": 1, "files": files,
    });
    let manifest = format!("near/{STEM}_manifest.json");
    store.put(&manifest, forged.to_string().as_bytes()).await;
    deliver(destination.as_ref(), &run(1), &["next\n"])
        .await
        .unwrap();
    deliver(destination.as_ref(), &run(0), &["a\n"])
        .await
        .unwrap();
    let all = store.files().await;
    for key in &foreign {
        assert_eq!(
            all.get(key).map(Vec::as_slice),
            Some(&b"precious"[..]),
            "{key}"
        );
    }
    assert_eq!(all.len(), foreign.len() + 4, "{:?}", all.keys());
}

async fn a_slow_try_deletes_nothing_of_a_later_one(store: &dyn TestStore) {
    let destination = store.open("slow", json!({}));
    let slow = written(destination.as_ref(), &run(0), &["a\n"]).await;
    let next = written(destination.as_ref(), &run(0), &["b\n"]).await;
    slow.unwrap().abort().await;
    next.unwrap().publish().await.unwrap();
    assert_eq!(names(store, "slow").await, ["W.jsonl", "W_manifest.json"]);
    assert_eq!(texts(store, "slow").await["W.jsonl"], "b\n");
}
