//! Tests of organizations that export to files of one server.

use crate::support::{STEM, deliver, run};
use crate::test_store::{fields, tree};
use millrace_catalog::DestinationType;
use millrace_dial::Guard;
use millrace_exports::destination::Destination;
use millrace_exports::destination::files::{ExportRoot, open};
use millrace_exports::{ExportError, ExportErrorKind};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::path::Path;
use uuid::Uuid;

const ACME: Uuid = Uuid::from_u128(1);
const EVE: Uuid = Uuid::from_u128(2);

fn to(root: &Path, files_of: Uuid, path: &str) -> Result<Box<dyn Destination>, ExportError> {
    let config = Value::Object(fields(json!({"path": path})));
    let root = ExportRoot {
        path: root,
        files_of: Some(files_of),
    };
    let guard = Guard::new(true).unwrap();
    open(
        DestinationType::FileSystem,
        &config,
        &BTreeMap::new(),
        &guard,
        Some(root),
    )
}

async fn delivered(
    root: &Path,
    files_of: Uuid,
    path: &str,
    export: u128,
) -> Result<(), ExportError> {
    let mut run = run(0);
    run.export_id = Uuid::from_u128(export);
    let rows = format!("row of {export}\n");
    deliver(to(root, files_of, path)?.as_ref(), &run, &[&rows])
        .await
        .map(drop)
}

#[tokio::test]
async fn the_same_path_of_two_organizations_is_two_folders() {
    let root = tempfile::tempdir().unwrap();
    // In any order.
    for (files_of, export) in [(EVE, 20), (ACME, 10), (EVE, 20)] {
        delivered(root.path(), files_of, "lake/acme", export)
            .await
            .unwrap();
    }
    let files = tree(root.path());
    assert_eq!(files.len(), 4, "{:?}", files.keys());
    for (files_of, row) in [(ACME, "row of 10\n"), (EVE, "row of 20\n")] {
        let key = format!("{files_of}/lake/acme/{STEM}.jsonl");
        assert_eq!(files[&key], row.as_bytes());
    }
}

#[tokio::test]
async fn no_path_leads_out_of_the_organizations_folder_or_reveals_other_files() {
    let root = tempfile::tempdir().unwrap();
    delivered(root.path(), ACME, "lake", 10).await.unwrap();
    let acme = root.path().join(ACME.to_string());
    let eve = root.path().join(EVE.to_string());
    std::fs::create_dir(&eve).unwrap();
    symlink(&acme, eve.join("link")).unwrap();
    let there = acme.join("lake").to_str().unwrap().to_owned();
    let absent = acme.join("pond").to_str().unwrap().to_owned();
    let before = tree(&acme);
    let mut told = Vec::new();
    for path in [
        &format!("../{ACME}/lake"),
        &format!("../{ACME}/pond"),
        &there,
        &absent,
        root.path().to_str().unwrap(),
        "a/../../x",
        "link/lake",
        "link/pond",
    ] {
        let error = delivered(root.path(), EVE, path, 20).await.unwrap_err();
        assert_eq!(error.kind, ExportErrorKind::Permanent, "{path}: {error}");
        let says = error.message.contains("acme") || error.message.contains(&ACME.to_string());
        assert!(!says, "{error}");
        told.push(error.message);
    }
    // Existing and missing paths have the same error.
    for pair in [(0, 1), (2, 3), (6, 7)] {
        assert_eq!(told[pair.0], told[pair.1]);
    }
    // A path that looks like the other organization's is a folder of one's own.
    delivered(root.path(), EVE, &format!("{ACME}/lake"), 20)
        .await
        .unwrap();
    assert_eq!(tree(&acme), before);
}
