//! Tests that no path leads out of the folder for exports.

use crate::support::{STEM, deliver, run};
use crate::test_store::{LocalFolder, TestStore, fields, tree};
use millrace_exports::destination::TestStep;
use millrace_exports::{ExportError, ExportErrorKind};
use serde_json::json;
use std::os::unix::fs::symlink;
use std::path::Path;

/// Delivers to a path.
async fn delivered(store: &LocalFolder, path: &str) -> Result<(), ExportError> {
    let store: &dyn TestStore = store;
    let destination = store.open_with(&fields(json!({"path": path})), &store.secrets())?;
    deliver(destination.as_ref(), &run(0), &["row\n"])
        .await
        .map(drop)
}

fn assert_permanent(error: &ExportError, outside: &Path) {
    assert_eq!(error.kind, ExportErrorKind::Permanent, "{error}");
    let outside = outside.to_str().unwrap();
    assert!(!error.message.contains(outside), "{error}");
}

/// Id of an attempt in temporary names.
const ATTEMPT_ID: &str = "0123456789abcdef0123456789abcdef";

#[tokio::test]
async fn paths_that_lead_out_are_refused() {
    let store = LocalFolder::new();
    let outside = tempfile::tempdir().unwrap();
    let paths = [
        "..",
        "../x",
        "a/../../x",
        "/",
        "/tmp",
        outside.path().to_str().unwrap(),
        "{table}/../../x",
    ];
    for path in paths {
        let error = delivered(&store, path).await.unwrap_err();
        assert_permanent(&error, outside.path());
    }
    let inside = [store.path().join("a"), "b/./c".into(), "".into()];
    for path in &inside {
        delivered(&store, path.to_str().unwrap()).await.unwrap();
    }
    let keys: Vec<_> = tree(store.path())
        .into_keys()
        .filter(|key| key.ends_with(".jsonl"))
        .collect();
    let expected = ["", "a/", "b/c/"].map(|folder| format!("{folder}{STEM}.jsonl"));
    assert_eq!(keys.len(), 3);
    assert!(expected.iter().all(|key| keys.contains(key)), "{keys:?}");
}

#[tokio::test]
async fn links_are_not_followed_at_any_depth() {
    let store = LocalFolder::new();
    let outside = tempfile::tempdir().unwrap();
    std::fs::create_dir(store.path().join("a")).unwrap();
    symlink(outside.path(), store.path().join("link")).unwrap();
    symlink(outside.path(), store.path().join("a/link")).unwrap();
    symlink("a", store.path().join("within")).unwrap();
    symlink("..", store.path().join("a/up")).unwrap();
    symlink("/proc/self/cwd", store.path().join("magic")).unwrap();
    for path in [
        "link",
        "link/x",
        "a/link",
        "a/link/x/y",
        "within",
        "a/up/b",
        "magic/x",
    ] {
        let error = delivered(&store, path).await.unwrap_err();
        assert_permanent(&error, outside.path());
    }
    assert_eq!(tree(outside.path()).len(), 0);
}

#[tokio::test]
async fn a_link_in_place_of_a_file_is_replaced_and_its_target_unchanged() {
    let store = LocalFolder::new();
    let outside = tempfile::tempdir().unwrap();
    let secret = outside.path().join("secret");
    std::fs::write(&secret, "secret").unwrap();
    let names = [
        format!("{STEM}.jsonl"),
        format!(".{STEM}.jsonl.{ATTEMPT_ID}.part"),
        format!("{STEM}_manifest.json"),
    ];
    for name in &names {
        symlink(&secret, store.path().join(name)).unwrap();
    }
    // The earlier manifest would have been read through its link.
    let error = delivered(&store, "").await.unwrap_err();
    assert_permanent(&error, outside.path());
    std::fs::remove_file(store.path().join(&names[2])).unwrap();
    delivered(&store, "").await.unwrap();
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), "secret");
    assert_eq!(
        std::fs::read_to_string(store.path().join(&names[0])).unwrap(),
        "row\n"
    );
}

#[tokio::test]
async fn temporary_files_of_a_killed_try_are_deleted() {
    let store = LocalFolder::new();
    for name in [
        format!(".{STEM}.jsonl.{ATTEMPT_ID}.part"),
        format!(".{STEM}-7.jsonl.{ATTEMPT_ID}.part"),
        format!(".{STEM}_manifest.json.{ATTEMPT_ID}.part"),
    ] {
        std::fs::write(store.path().join(name), "half").unwrap();
    }
    let other = format!(".2026-11-20T15:00:00Z-2026-11-20T16:00:00Z.jsonl.{ATTEMPT_ID}.part");
    std::fs::write(store.path().join(&other), "another run's").unwrap();
    delivered(&store, "").await.unwrap();
    let left: Vec<_> = tree(store.path())
        .into_keys()
        .filter(|key| key.ends_with(".part"))
        .collect();
    assert_eq!(left, [other]);
}

#[tokio::test]
async fn a_missing_folder_or_a_file_in_its_place_is_an_error() {
    let store = LocalFolder::new();
    let root = store.path().to_owned();
    let gone: &dyn TestStore = &store;
    let destination = gone.open("x", json!({}));
    std::fs::remove_dir_all(&root).unwrap();
    let error = destination.test(TestStep::Write).await.unwrap_err();
    assert_permanent(&error, &root);
    std::fs::create_dir(&root).unwrap();
    std::fs::write(root.join("x"), "a file").unwrap();
    let error = destination.test(TestStep::Write).await.unwrap_err();
    assert_permanent(&error, &root);
}
