//! A run as a whole: its files, their names, their manifest.

use crate::place::Place;
use crate::support::{STEM, deliver, lines, run, written};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::io::Read;

on_each!(
    files_are_read_back_in_every_compression_and_the_manifest_describes_them,
    several_files_are_numbered_and_nothing_is_seen_before_they_are_published,
    a_window_without_rows_is_an_empty_file,
    prefixes_of_any_letters_are_the_same_in_keys,
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

async fn files_are_read_back_in_every_compression_and_the_manifest_describes_them(
    place: &dyn Place,
) {
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
        let destination = place.open(&prefix, files);
        let delivered = deliver(destination.as_ref(), &run(0), &[&text])
            .await
            .unwrap();
        let key = format!("whole/{n}/2026/events/{STEM}{extension}{suffix}");
        let all = place.files().await;
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

async fn several_files_are_numbered_and_nothing_is_seen_before_they_are_published(
    place: &dyn Place,
) {
    let destination = place.open("many", json!({"max_file_size_mb": 1}));
    assert_eq!(destination.parts(0), 1);
    assert_eq!(destination.parts((3 << 20) + 1), 4);
    // So many statements are made, each of which reads the whole window.
    assert_eq!(destination.parts(1 << 40), 100);
    assert_eq!(destination.parts(200 * (64 << 30)), 200, "what stores take");
    let texts = [lines("a", 100), lines("b", 200), String::new()];
    let texts = texts.each_ref().map(String::as_str);
    let delivery = written(destination.as_ref(), &run(0), &texts)
        .await
        .unwrap();
    assert_eq!(place.files().await.len(), 0);
    delivery.publish().await.unwrap();
    let all = place.files().await;
    let keys: Vec<_> = all.keys().map(String::as_str).collect();
    let numbered = [0, 1, 2].map(|n| format!("many/{STEM}-{n}.jsonl"));
    assert_eq!(keys[..3], numbered.each_ref().map(String::as_str));
    assert_eq!(keys[3..], [format!("many/{STEM}_manifest.json")]);
    for (key, text) in numbered.iter().zip(texts) {
        assert_eq!(all[key], text.as_bytes(), "{key}");
    }
    assert_eq!(place.unfinished().await, 0);
}

async fn a_window_without_rows_is_an_empty_file(place: &dyn Place) {
    deliver(place.open("empty", json!({})).as_ref(), &run(0), &[""])
        .await
        .unwrap();
    let all = place.files().await;
    assert_eq!(all[&format!("empty/{STEM}.jsonl")], b"");
    assert_eq!(all.len(), 2);
}

async fn prefixes_of_any_letters_are_the_same_in_keys(place: &dyn Place) {
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
        let destination = place.open(prefix, json!({}));
        deliver(destination.as_ref(), &run(0), &["row\n"])
            .await
            .unwrap();
        let all = place.files().await;
        let key = format!("{prefix}/{STEM}.jsonl");
        assert_eq!(
            all.get(&key).map(Vec::as_slice),
            Some(&b"row\n"[..]),
            "{all:?}"
        );
        // What is found again is what was written.
        deliver(destination.as_ref(), &run(0), &["new\n"])
            .await
            .unwrap();
        assert_eq!(place.files().await[&key], b"new\n");
    }
}
