//! Dead letters: a row that the table rejects among others that it accepts.

use super::test_env::TestEnv;
use crate::readme::{block_of, output};
use serde_json::{Value, json};
use std::process::Command;

#[test]
fn a_bad_row_becomes_a_dead_letter_with_its_reason_and_blocks_no_other() {
    let env = TestEnv::start(&[]);
    env.capture_with_one_bad();
    let dir = env.dir.path().join("ingest/dead-letters/live");
    let files = std::fs::read_dir(&dir).unwrap();
    let labels: Vec<_> = files
        .map(|file| file.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "json"))
        .collect();
    assert_eq!(labels.len(), 1, "{labels:?}");
    let label: Value = serde_json::from_slice(&std::fs::read(&labels[0]).unwrap()).unwrap();
    assert_eq!(
        (&label["rows"], &label["clickhouse_code"]),
        (&json!(1), &json!(469))
    );
    let row = std::fs::read(labels[0].with_extension("rowbinary")).unwrap();
    let holds = |text: &[u8]| row.windows(text.len()).any(|window| window == text);
    assert!(holds(b"bad") && holds(b"user-17"), "{row:?}");
    // Later events are not affected.
    env.server
        .capture(&json!([{"event": "good", "distinct_id": "me"}]));
    env.wait_for_rows(100);
    insert_as_the_runbook_says(&env);
    env.wait_for_rows(101);
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
