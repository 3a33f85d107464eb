//! Tests of the privileges of the engine's user, by the pinned library's own list. Only for the
//! embedded engine.
//!
//! Groups of privileges grow with the library: a new privilege in a granted group is in none of
//! these lists, and the test fails until somebody has reviewed it.

use millrace_embedded::testing::shared;
use std::collections::{BTreeSet, HashMap};

use crate::client::query;

/// Privileges on tables and their rows: the user has them all, and can drop them.
const TABLE_PRIVILEGES: &[&str] = &[
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
/// Privileges on definitions of tables. A definition that refers to external storage needs a
/// table engine that is not granted, and there is no ClickHouse Keeper to fetch from.
const DEFINITION_PRIVILEGES: &[&str] = &[
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
/// Privileges on caches: they cost time of the machine, and nothing else.
const CACHE_PRIVILEGES: &[&str] = &[
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
/// Privileges on background work for tables: stopping it is as harmful as dropping them, and as
/// visible.
const BACKGROUND_PRIVILEGES: &[&str] = &[
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
/// Privileges that the server itself needs, to stop its reads for exports.
const SERVER_PRIVILEGES: &[&str] = &["KILL QUERY"];

#[test]
fn each_granted_privilege_was_reviewed() {
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
    let reviewed = [
        TABLE_PRIVILEGES,
        DEFINITION_PRIVILEGES,
        CACHE_PRIVILEGES,
        BACKGROUND_PRIVILEGES,
        SERVER_PRIVILEGES,
    ];
    let reviewed: BTreeSet<String> = reviewed.concat().into_iter().map(str::to_owned).collect();
    let differ: Vec<_> = granted.symmetric_difference(&reviewed).collect();
    assert!(differ.is_empty(), "review them: {differ:?}");
}
