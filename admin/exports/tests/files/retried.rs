//! Runs that are tried again.

use crate::place::Place;
use crate::support::{STEM, deliver, lines, run, written};
use millrace_exports::{ExportError, Outlook};
use serde_json::json;
use std::collections::BTreeMap;

on_each!(
    a_run_that_is_tried_again_makes_the_same_files,
    fewer_files_than_before_leave_none_of_the_others,
    a_try_that_ended_between_files_and_manifest_is_overwritten,
    files_of_another_format_go_if_they_were_this_exports_own,
    files_of_another_export_are_not_overwritten,
    what_is_not_this_windows_stays,
    keys_that_nobody_can_have_paths_for_keep_no_window_back,
    a_slow_try_takes_nothing_from_the_one_that_came_after_it,
);

async fn texts(place: &dyn Place, folder: &str) -> BTreeMap<String, String> {
    let files = place.files().await.into_iter();
    let ours = files.filter_map(|(key, bytes)| {
        let name = key.strip_prefix(folder)?.trim_start_matches('/').to_owned();
        Some((name.replace(STEM, "W"), String::from_utf8(bytes).unwrap()))
    });
    ours.collect()
}

async fn names(place: &dyn Place, folder: &str) -> Vec<String> {
    texts(place, folder).await.into_keys().collect()
}

async fn a_run_that_is_tried_again_makes_the_same_files(place: &dyn Place) {
    let destination = place.open("same", json!({"compression": "gzip"}));
    let text = lines("same", 1_000);
    deliver(destination.as_ref(), &run(0), &[&text])
        .await
        .unwrap();
    let first = place.files().await;
    deliver(destination.as_ref(), &run(0), &[&text])
        .await
        .unwrap();
    assert!(place.files().await == first);
    deliver(destination.as_ref(), &run(0), &["other\n"])
        .await
        .unwrap();
    let last = place.files().await;
    assert_eq!(last.len(), first.len());
    assert!(
        last.values()
            .zip(first.values())
            .all(|(last, first)| last != first)
    );
}

async fn fewer_files_than_before_leave_none_of_the_others(place: &dyn Place) {
    let destination = place.open("fewer", json!({"max_file_size_mb": 1}));
    deliver(destination.as_ref(), &run(0), &["a\n", "b\n", "c\n"])
        .await
        .unwrap();
    assert_eq!(
        names(place, "fewer").await,
        ["W-0.jsonl", "W-1.jsonl", "W-2.jsonl", "W_manifest.json"]
    );
    deliver(destination.as_ref(), &run(0), &["d\n"])
        .await
        .unwrap();
    assert_eq!(
        names(place, "fewer").await,
        ["W-0.jsonl", "W_manifest.json"]
    );
    assert_eq!(texts(place, "fewer").await["W-0.jsonl"], "d\n");
    // The same without a limit, when the estimate was another one.
    let unlimited = place.open("fewer", json!({}));
    deliver(unlimited.as_ref(), &run(0), &["e\n"])
        .await
        .unwrap();
    assert_eq!(names(place, "fewer").await, ["W.jsonl", "W_manifest.json"]);
}

async fn a_try_that_ended_between_files_and_manifest_is_overwritten(place: &dyn Place) {
    let destination = place.open("cut", json!({"max_file_size_mb": 1}));
    deliver(destination.as_ref(), &run(0), &["a\n", "b\n", "c\n"])
        .await
        .unwrap();
    // As if it had been killed before.
    place.remove(&format!("cut/{STEM}_manifest.json")).await;
    deliver(destination.as_ref(), &run(0), &["d\n", "e\n"])
        .await
        .unwrap();
    let found = texts(place, "cut").await;
    assert_eq!(
        names(place, "cut").await,
        ["W-0.jsonl", "W-1.jsonl", "W_manifest.json"]
    );
    assert_eq!(
        (found["W-0.jsonl"].as_str(), found["W-1.jsonl"].as_str()),
        ("d\n", "e\n")
    );
}

async fn files_of_another_format_go_if_they_were_this_exports_own(place: &dyn Place) {
    let lines = place.open("format", json!({}));
    let csv = place.open("format", json!({"file_format": "CSV"}));
    deliver(lines.as_ref(), &run(0), &["a\n"]).await.unwrap();
    deliver(csv.as_ref(), &run(0), &["b\n"]).await.unwrap();
    assert_eq!(names(place, "format").await, ["W.csv", "W_manifest.json"]);
}

async fn files_of_another_export_are_not_overwritten(place: &dyn Place) {
    let destination = place.open("shared", json!({}));
    let mut other = run(0);
    other.export_id = uuid::Uuid::from_u128(8);
    let refusal = |outcome: Result<(), ExportError>| {
        let error = outcome.unwrap_err();
        assert_eq!(error.outlook, Outlook::Hopeless);
        assert!(error.message.contains("prefix"), "{error}");
    };
    // It has begun before, and would end after.
    let late = written(destination.as_ref(), &other, &["b\n"]).await;
    deliver(destination.as_ref(), &run(0), &["a\n"])
        .await
        .unwrap();
    let first = place.files().await;
    refusal(late.unwrap().publish().await.map(drop));
    refusal(
        deliver(destination.as_ref(), &other, &["c\n"])
            .await
            .map(drop),
    );
    assert!(place.files().await == first);
    // Nor is what nobody knows.
    let key = format!("shared/{STEM}_manifest.json");
    place.put(&key, b"precious").await;
    refusal(
        deliver(destination.as_ref(), &run(0), &["d\n"])
            .await
            .map(drop),
    );
    place.remove(&key).await;
    deliver(destination.as_ref(), &other, &["e\n"])
        .await
        .unwrap();
    assert_eq!(texts(place, "shared").await["W.jsonl"], "e\n");
}

async fn keys_that_nobody_can_have_paths_for_keep_no_window_back(place: &dyn Place) {
    let destination = place.open("odd", json!({}));
    place.put(&format!("odd/{STEM}//x"), b"odd").await;
    for _ in 0..2 {
        let delivered = deliver(destination.as_ref(), &run(0), &["a\n"]).await;
        delivered.unwrap();
    }
    let files = place.files().await;
    let text = &files[&format!("odd/{STEM}.jsonl")];
    assert_eq!((files.len(), text.as_slice()), (3, &b"a\n"[..]));
}

async fn what_is_not_this_windows_stays(place: &dyn Place) {
    let destination = place.open("near", json!({"max_file_size_mb": 1}));
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
        place.put(key, b"precious").await;
    }
    // Whoever may write there may write this, too.
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
    place.put(&manifest, forged.to_string().as_bytes()).await;
    deliver(destination.as_ref(), &run(1), &["next\n"])
        .await
        .unwrap();
    deliver(destination.as_ref(), &run(0), &["a\n"])
        .await
        .unwrap();
    let all = place.files().await;
    for key in &foreign {
        assert_eq!(
            all.get(key).map(Vec::as_slice),
            Some(&b"precious"[..]),
            "{key}"
        );
    }
    assert_eq!(all.len(), foreign.len() + 4, "{:?}", all.keys());
}

async fn a_slow_try_takes_nothing_from_the_one_that_came_after_it(place: &dyn Place) {
    let destination = place.open("slow", json!({}));
    let slow = written(destination.as_ref(), &run(0), &["a\n"]).await;
    let next = written(destination.as_ref(), &run(0), &["b\n"]).await;
    slow.unwrap().abort().await;
    next.unwrap().publish().await.unwrap();
    assert_eq!(names(place, "slow").await, ["W.jsonl", "W_manifest.json"]);
    assert_eq!(texts(place, "slow").await["W.jsonl"], "b\n");
}
