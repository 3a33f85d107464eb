//! Tests of a whole run: its files, their names, their manifest.

use crate::support::{STEM, deliver, lines, run, written};
use crate::test_store::TestStore;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::io::Read;

on_each!(
    files_of_every_compression_are_read_back_and_match_the_manifest,
    several_files_are_numbered_and_invisible_until_they_are_published,
    a_window_without_rows_is_an_empty_file,
    prefixes_of_any_letters_are_unchanged_in_keys,
);

fn decoded(suffix: &str, file: &[u8]) -> String {
    let mut text = String::new();
    let mut reader: Box<dyn Read> = match suffix {
        ".gz" => Box::new(flate2::read::GzDecoder::new(file)),
        ".br" => Box::new(brotli::Decompressor::new(file, 4096)),
        ".zst" => Box::new(zstd::stream::read::Decoder::new(file).unwrap()),
        _ => Box::new(file),
    };
    reader.read_to_string(&mut text).unwrap();
    text
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

async fn files_of_every_compression_are_read_back_and_match_the_manifest(store: &dyn TestStore) {
    let text = lines("whole", 5_000);
    let table = [
        (json!({"compression": null}), ".jsonl", ""),
        (json!({"compression": "gzip"}), ".jsonl", ".gz"),
        (json!({"compression": "brotli"}), ".jsonl", ".br"),
        (json!({"compression": "zstd"}), ".jsonl", ".zst"),
        (
            json!({"compression": "zstd", "file_format": "CSV"}),
            ".csv",
            ".zst",
        ),
        (
            json!({"compression": "zstd", "file_format": "Parquet"}),
            ".parquet",
            "",
        ),
    ];
    for (n, (files, extension, suffix)) in table.into_iter().enumerate() {
        let prefix = format!("whole/{n}/{{year}}/{{table}}");
        let destination = store.open(&prefix, files);
        let delivered = deliver(destination.as_ref(), &run(0), &[&text])
            .await
            .unwrap();
        let key = format!("whole/{n}/2026/events/{STEM}{extension}{suffix}");
        let all = store.files().await;
        let file = &all[&key];
        assert_eq!(decoded(suffix, file), text, "{key}");
        assert_eq!(delivered.bytes, file.len() as u64);
        let manifest = &all[&format!("whole/{n}/2026/events/{STEM}_manifest.json")];
        let manifest: Value = serde_json::from_slice(manifest).unwrap();
        let expected = json!({
            "export_id": run(0).export_id,
            "model": "events",
            "data_interval_start": "2026-11-20T14:00:00Z",
            "data_interval_end": "2026-11-20T15:00:00Z",
            "rows": 5_000,
            "bytes": file.len(),
            "files": [{"key": key, "rows": 5_000, "bytes": file.len(), "sha256": sha256(file)}],
        });
        assert_eq!(manifest, expected);
    }
}

async fn several_files_are_numbered_and_invisible_until_they_are_published(store: &dyn TestStore) {
    let destination = store.open("many", json!({"max_file_size_mb": 1}));
    assert_eq!(destination.parts(0), 1);
    assert_eq!(destination.parts((3 << 20) + 1), 4);
    // Each file is a statement that reads the whole window.
    assert_eq!(destination.parts(1 << 40), 100);
    assert_eq!(destination.parts(200 * (64 << 30)), 200, "what stores take");
    let texts = [lines("a", 100), lines("b", 200), String::new()];
    let texts = texts.each_ref().map(String::as_str);
    let delivery = written(destination.as_ref(), &run(0), &texts)
        .await
        .unwrap();
    assert_eq!(store.files().await.len(), 0);
    delivery.publish().await.unwrap();
    let all = store.files().await;
    let keys: Vec<_> = all.keys().map(String::as_str).collect();
    let numbered = [0, 1, 2].map(|n| format!("many/{STEM}-{n}.jsonl"));
    assert_eq!(keys[..3], numbered.each_ref().map(String::as_str));
    assert_eq!(keys[3..], [format!("many/{STEM}_manifest.json")]);
    for (key, text) in numbered.iter().zip(texts) {
        assert_eq!(all[key], text.as_bytes(), "{key}");
    }
    assert_eq!(store.unfinished().await, 0);
}

async fn a_window_without_rows_is_an_empty_file(store: &dyn TestStore) {
    deliver(store.open("empty", json!({})).as_ref(), &run(0), &[""])
        .await
        .unwrap();
    let all = store.files().await;
    assert_eq!(all[&format!("empty/{STEM}.jsonl")], b"");
    assert_eq!(all.len(), 2);
}

async fn prefixes_of_any_letters_are_unchanged_in_keys(store: &dyn TestStore) {
    for prefix in [
        "a b",
        "é/ü",
        "a+b&c=d",
        "100%",
        "a%20b",
        "a:b@c",
        "#a",
        "a'b(c)!*~",
    ] {
        let destination = store.open(prefix, json!({}));
        deliver(destination.as_ref(), &run(0), &["row\n"])
            .await
            .unwrap();
        let all = store.files().await;
        let key = format!("{prefix}/{STEM}.jsonl");
        assert_eq!(
            all.get(&key).map(Vec::as_slice),
            Some(&b"row\n"[..]),
            "{all:?}"
        );
        // A retry overwrites the same key.
        deliver(destination.as_ref(), &run(0), &["new\n"])
            .await
            .unwrap();
        assert_eq!(store.files().await[&key], b"new\n");
    }
}
