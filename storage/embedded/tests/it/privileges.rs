//! Privileges of whoever has the password, by the pinned library's own list. Only for the embedded engine.
//!
//! Groups of privileges grow with the library: a new one in a group that is granted is in none of these lists, and the
//! test says so until somebody has judged it.

use millrace_embedded::testing::shared;
use std::collections::{BTreeSet, HashMap};

use crate::client::{post, query};

/// Tables and their rows: whoever has the password has them all, and can drop them.
const OF_TABLES: &[&str] = &[
    "BACKUP",
    "CHECK",
    "CREATE DATABASE",
    "CREATE FUNCTION",
    "CREATE TABLE",
    "CREATE TEMPORARY TABLE",
    "CREATE TEMPORARY VIEW",
    "CREATE VIEW",
    "DROP DATABASE",
    "DROP DICTIONARY",
    "DROP FUNCTION",
    "DROP TABLE",
    "DROP VIEW",
    "INSERT",
    "OPTIMIZE",
    "SELECT",
    "SHOW COLUMNS",
    "SHOW DATABASES",
    "SHOW DICTIONARIES",
    "SHOW TABLES",
    "TRUNCATE",
    "UNDROP TABLE",
    "dictGet",
];
/// Their definitions. What names a place elsewhere is refused by its name (`permitted`), and there is no keeper to
/// fetch from.
const OF_DEFINITIONS: &[&str] = &[
    "ALTER ADD COLUMN",
    "ALTER ADD CONSTRAINT",
    "ALTER ADD INDEX",
    "ALTER ADD PROJECTION",
    "ALTER ADD STATISTICS",
    "ALTER CLEAR COLUMN",
    "ALTER CLEAR INDEX",
    "ALTER CLEAR PROJECTION",
    "ALTER COMMENT COLUMN",
    "ALTER DATABASE SETTINGS",
    "ALTER DELETE",
    "ALTER DROP COLUMN",
    "ALTER DROP CONSTRAINT",
    "ALTER DROP INDEX",
    "ALTER DROP PROJECTION",
    "ALTER DROP STATISTICS",
    "ALTER EXECUTE",
    "ALTER FETCH PARTITION",
    "ALTER FREEZE PARTITION",
    "ALTER MATERIALIZE COLUMN",
    "ALTER MATERIALIZE INDEX",
    "ALTER MATERIALIZE PROJECTION",
    "ALTER MATERIALIZE STATISTICS",
    "ALTER MATERIALIZE TTL",
    "ALTER MODIFY COLUMN",
    "ALTER MODIFY COMMENT",
    "ALTER MODIFY CONSTRAINT",
    "ALTER MODIFY DATABASE COMMENT",
    "ALTER MODIFY STATISTICS",
    "ALTER MOVE PARTITION",
    "ALTER ORDER BY",
    "ALTER RENAME COLUMN",
    "ALTER REWRITE PARTS",
    "ALTER SAMPLE BY",
    "ALTER SETTINGS",
    "ALTER TTL",
    "ALTER UNLOCK SNAPSHOT",
    "ALTER UPDATE",
    "ALTER VIEW MODIFY QUERY",
    "ALTER VIEW MODIFY REFRESH",
    "ALTER VIEW MODIFY SQL SECURITY",
];
/// Cost time of the machine, and nothing else.
const OF_CACHES: &[&str] = &[
    "SYSTEM DROP AVRO SCHEMA CACHE",
    "SYSTEM DROP COMPILED EXPRESSION CACHE",
    "SYSTEM DROP CONNECTIONS CACHE",
    "SYSTEM DROP DISTRIBUTED CACHE",
    "SYSTEM DROP DNS CACHE",
    "SYSTEM DROP ENCRYPTION HEADERS CACHE",
    "SYSTEM DROP FILESYSTEM CACHE",
    "SYSTEM DROP FORMAT SCHEMA CACHE",
    "SYSTEM DROP ICEBERG METADATA CACHE",
    "SYSTEM DROP MARK CACHE",
    "SYSTEM DROP MMAP CACHE",
    "SYSTEM DROP PAGE CACHE",
    "SYSTEM DROP PAIMON METADATA CACHE",
    "SYSTEM DROP PARQUET METADATA CACHE",
    "SYSTEM DROP POINT IN POLYGON CACHE",
    "SYSTEM DROP PRIMARY INDEX CACHE",
    "SYSTEM DROP QUERY CACHE",
    "SYSTEM DROP QUERY CONDITION CACHE",
    "SYSTEM DROP S3 CLIENT CACHE",
    "SYSTEM DROP SCHEMA CACHE",
    "SYSTEM DROP TEXT INDEX HEADER CACHE",
    "SYSTEM DROP TEXT INDEX POSTINGS CACHE",
    "SYSTEM DROP TEXT INDEX TOKENS CACHE",
    "SYSTEM DROP UNCOMPRESSED CACHE",
    "SYSTEM DROP VECTOR SIMILARITY INDEX CACHE",
    "SYSTEM DROP TEXT INDEX CACHES",
    "SYSTEM PREWARM MARK CACHE",
    "SYSTEM PREWARM PRIMARY INDEX CACHE",
    "SYSTEM LOAD PRIMARY KEY",
    "SYSTEM UNLOAD PRIMARY KEY",
];
/// Stop and start what the engine does in the background for tables: as harmful as dropping them, and as visible.
const OF_BACKGROUND: &[&str] = &[
    "SYSTEM CLEANUP",
    "SYSTEM FLUSH ASYNC INSERT QUEUE",
    "SYSTEM FLUSH DISTRIBUTED",
    "SYSTEM FLUSH LOGS",
    "SYSTEM FLUSH OBJECT STORAGE QUEUE",
    "SYSTEM MERGES",
    "SYSTEM MOVES",
    "SYSTEM REDUCE BLOCKING PARTS",
    "SYSTEM RELOAD ASYNCHRONOUS METRICS",
    "SYSTEM TTL MERGES",
    "SYSTEM UNFREEZE",
    "SYSTEM VIEWS",
    "SYSTEM WAIT LOADING PARTS",
];
/// The server's own, for statements whose client has gone. As a statement it is refused (`permitted`).
const OWN: &[&str] = &["KILL QUERY"];

#[test]
fn each_privilege_that_is_granted_was_judged() {
    if shared().data_dir().is_none() {
        return;
    }
    let grants = query(shared(), "SHOW GRANTS");
    let everywhere = grants.lines().filter_map(|line| {
        let names = line.strip_prefix("GRANT ")?;
        Some(names.split_once(" ON *.*")?.0)
    });
    let mut open: Vec<String> = everywhere
        .flat_map(|names| names.split(", "))
        .map(str::to_owned)
        .collect();
    let listed = query(
        shared(),
        "SELECT ifNull(toString(parent_group), ''), privilege FROM system.privileges",
    );
    let mut groups: HashMap<&str, Vec<&str>> = HashMap::new();
    for line in listed.lines() {
        let (group, name) = line.split_once('\t').unwrap();
        groups.entry(group).or_default().push(name);
    }
    let mut granted = BTreeSet::new();
    while let Some(name) = open.pop() {
        match groups.get(name.as_str()) {
            Some(members) => open.extend(members.iter().map(|&member| member.to_owned())),
            None => drop(granted.insert(name)),
        }
    }
    let judged = [OF_TABLES, OF_DEFINITIONS, OF_CACHES, OF_BACKGROUND, OWN];
    let judged: BTreeSet<String> = judged.concat().into_iter().map(str::to_owned).collect();
    let differ: Vec<_> = granted.symmetric_difference(&judged).collect();
    assert!(differ.is_empty(), "judge them: {differ:?}");
}

#[test]
fn nobody_ends_what_the_server_is_doing() {
    if shared().data_dir().is_none() {
        return;
    }
    for sql in [
        "KILL QUERY WHERE query_id = 'a'",
        "/* a */ kill query WHERE 1 ASYNC",
        "KILL MUTATION WHERE 1",
        "KILL TRANSACTION WHERE 1",
        "DROP TABLE IF EXISTS nobody PARALLEL WITH KILL QUERY WHERE query_id = 'a'",
    ] {
        let answer = post(shared(), &[], sql.as_bytes());
        let code = answer.header("x-clickhouse-exception-code");
        assert_eq!(code, "497", "{sql}: {}", answer.text());
        assert!(answer.text().contains("close its connection"), "{sql}");
    }
}
