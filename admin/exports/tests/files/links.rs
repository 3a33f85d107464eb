//! No way leads out of the folder for exports.

use crate::place::{LocalFolder, Place, fields, tree};
use crate::support::{STEM, deliver, run};
use millrace_exports::destination::TestStep;
use millrace_exports::{ExportError, Outlook};
use serde_json::json;
use std::os::unix::fs::symlink;
use std::path::Path;

/// Delivers to a path, whatever it is.
async fn delivered(place: &LocalFolder, path: &str) -> Result<(), ExportError> {
    let place: &dyn Place = place;
    let destination = place.open_with(&fields(json!({"path": path})), &place.secrets())?;
    deliver(destination.as_ref(), &run(0), &["row\n"])
        .await
        .map(drop)
}

fn assert_hopeless(error: &ExportError, outside: &Path) {
    assert_eq!(error.outlook, Outlook::Hopeless, "{error}");
    let outside = outside.to_str().unwrap();
    assert!(!error.message.contains(outside), "{error}");
}

/// What a try is known by in temporary names.
const TRY: &str = "0123456789abcdef0123456789abcdef";

#[tokio::test]
async fn paths_that_lead_out_are_refused() {
    let place = LocalFolder::new();
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
        let error = delivered(&place, path).await.unwrap_err();
        assert_hopeless(&error, outside.path());
    }
    let inside = [place.path().join("a"), "b/./c".into(), "".into()];
    for path in &inside {
        delivered(&place, path.to_str().unwrap()).await.unwrap();
    }
    let keys: Vec<_> = tree(place.path())
        .into_keys()
        .filter(|key| key.ends_with(".jsonl"))
        .collect();
    let expected = ["", "a/", "b/c/"].map(|folder| format!("{folder}{STEM}.jsonl"));
    assert_eq!(keys.len(), 3);
    assert!(expected.iter().all(|key| keys.contains(key)), "{keys:?}");
}

#[tokio::test]
async fn links_are_not_followed_wherever_they_are() {
    let place = LocalFolder::new();
    let outside = tempfile::tempdir().unwrap();
    std::fs::create_dir(place.path().join("a")).unwrap();
    symlink(outside.path(), place.path().join("link")).unwrap();
    symlink(outside.path(), place.path().join("a/link")).unwrap();
    symlink("a", place.path().join("within")).unwrap();
    symlink("..", place.path().join("a/up")).unwrap();
    symlink("/proc/self/cwd", place.path().join("magic")).unwrap();
    for path in [
        "link",
        "link/x",
        "a/link",
        "a/link/x/y",
        "within",
        "a/up/b",
        "magic/x",
    ] {
        let error = delivered(&place, path).await.unwrap_err();
        assert_hopeless(&error, outside.path());
    }
    assert_eq!(tree(outside.path()).len(), 0);
}

#[tokio::test]
async fn a_file_that_is_a_link_is_replaced_and_what_it_led_to_is_not_touched() {
    let place = LocalFolder::new();
    let outside = tempfile::tempdir().unwrap();
    let secret = outside.path().join("secret");
    std::fs::write(&secret, "secret").unwrap();
    let names = [
        format!("{STEM}.jsonl"),
        format!(".{STEM}.jsonl.{TRY}.part"),
        format!("{STEM}_manifest.json"),
    ];
    for name in &names {
        symlink(&secret, place.path().join(name)).unwrap();
    }
    // The manifest of before would have been read through its link.
    let error = delivered(&place, "").await.unwrap_err();
    assert_hopeless(&error, outside.path());
    std::fs::remove_file(place.path().join(&names[2])).unwrap();
    delivered(&place, "").await.unwrap();
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), "secret");
    assert_eq!(
        std::fs::read_to_string(place.path().join(&names[0])).unwrap(),
        "row\n"
    );
}

#[tokio::test]
async fn what_a_killed_try_left_under_temporary_names_goes() {
    let place = LocalFolder::new();
    for name in [
        format!(".{STEM}.jsonl.{TRY}.part"),
        format!(".{STEM}-7.jsonl.{TRY}.part"),
        format!(".{STEM}_manifest.json.{TRY}.part"),
    ] {
        std::fs::write(place.path().join(name), "half").unwrap();
    }
    let other = format!(".2026-11-20T15:00:00Z-2026-11-20T16:00:00Z.jsonl.{TRY}.part");
    std::fs::write(place.path().join(&other), "another run's").unwrap();
    delivered(&place, "").await.unwrap();
    let left: Vec<_> = tree(place.path())
        .into_keys()
        .filter(|key| key.ends_with(".part"))
        .collect();
    assert_eq!(left, [other]);
}

#[tokio::test]
async fn a_server_without_a_folder_or_with_a_full_one_says_so() {
    let place = LocalFolder::new();
    let root = place.path().to_owned();
    let gone: &dyn Place = &place;
    let destination = gone.open("x", json!({}));
    std::fs::remove_dir_all(&root).unwrap();
    let error = destination.test(TestStep::Write).await.unwrap_err();
    assert_hopeless(&error, &root);
    std::fs::create_dir(&root).unwrap();
    std::fs::write(root.join("x"), "a file").unwrap();
    let error = destination.test(TestStep::Write).await.unwrap_err();
    assert_hopeless(&error, &root);
}
