//! Tests of an engine that is killed and restarted.

use millrace_embedded::testing::TestEngine;

use crate::client::query;

#[test]
fn rows_of_answered_inserts_are_there_after_kill_9() {
    let mut engine = TestEngine::start();
    query(
        &engine,
        "CREATE TABLE t (a UInt64) ENGINE = MergeTree ORDER BY a SETTINGS fsync_after_insert=1, fsync_part_directory=1",
    );
    for round in 0..3 {
        query(&engine, "INSERT INTO t SELECT number FROM numbers(1000)");
        engine.kill9();
        engine.restart();
        assert_eq!(
            query(&engine, "SELECT count() FROM t").trim(),
            format!("{}", (round + 1) * 1000)
        );
    }
    engine.stop();
    engine.restart();
    assert_eq!(query(&engine, "SELECT count() FROM t").trim(), "3000");
}
