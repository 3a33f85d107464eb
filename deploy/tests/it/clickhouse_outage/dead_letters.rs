//! Dead letters: a row that the table rejects among others that it accepts.

use super::test_env::TestEnv;
use crate::readme::{block_of, output};
use crate::server::eventually;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Labels of the dead letters in a folder.
fn labels(dir: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(dir).unwrap();
    files
        .map(|file| file.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "json"))
        .collect()
}

/// Gives the files of a dead letter the name that an earlier version would have given them: without
/// the salt of the log.
fn rename_as_earlier(label: &Path) {
    let name = label.file_stem().unwrap().to_str().unwrap();
    let parts: Vec<&str> = name.splitn(3, '-').collect();
    let [table, salt, place] = parts[..] else {
        panic!("{name}");
    };
    assert!(u32::from_str_radix(salt, 16).is_ok() && salt.len() == 8);
    for extension in ["rowbinary", "json"] {
        let earlier = label.with_file_name(format!("{table}-{place}.{extension}"));
        std::fs::rename(label.with_extension(extension), earlier).unwrap();
    }
}

#[test]
fn a_bad_row_becomes_a_dead_letter_with_its_reason_and_blocks_no_other() {
    let env = TestEnv::start(&[]);
    env.capture_with_one_bad();
    let dir = env.dir.path().join("ingest/dead-letters/live");
    let found = labels(&dir);
    assert_eq!(found.len(), 1, "{found:?}");
    let label: Value = serde_json::from_slice(&std::fs::read(&found[0]).unwrap()).unwrap();
    assert_eq!(
        (&label["rows"], &label["clickhouse_code"]),
        (&json!(1), &json!(469))
    );
    let row = std::fs::read(found[0].with_extension("rowbinary")).unwrap();
    let holds = |text: &[u8]| row.windows(text.len()).any(|window| window == text);
    assert!(holds(b"bad") && holds(b"user-17"), "{row:?}");
    // Later events are not affected.
    env.server
        .capture(&json!([{"event": "good", "distinct_id": "me"}]));
    env.wait_for_rows(100);
    rename_as_earlier(&found[0]);
    env.server
        .capture(&json!([{"event": "bad", "distinct_id": "user-18"}]));
    eventually("another dead letter", || {
        (labels(&dir).len() == 2).then_some(())
    });
    insert_as_the_runbook_says(&env);
    env.wait_for_rows(102);
    let left = std::fs::read_dir(dir).unwrap();
    assert_eq!(left.count(), 0, "files of rows that are stored");
}

fn insert_as_the_runbook_says(env: &TestEnv) {
    let insert = block_of("deploy/RUNBOOK.md", "dead letters", &env.server);
    let mut shell = Command::new("bash");
    shell.args(["-ec", &insert]);
    shell.env("MILLRACE_DATA_DIR", env.dir.path().join("ingest"));
    let refused = shell.output().unwrap();
    let said = String::from_utf8_lossy(&refused.stdout);
    assert!(said.contains("VIOLATED_CONSTRAINT"), "{refused:?}");
    env.engine
        .query("ALTER TABLE millrace.events DROP CONSTRAINT good");
    assert_eq!(output(&mut shell), "");
}
