//! Outcomes that tasks with several kinds of attempts must have.

use super::Proof;

/// Outcomes of API operations, on the hostile tenant's own records and on another organization's.
pub(super) const OPERATIONS: [Proof; 3] = [
    ("operations on the own organization", &["200", "201", "204"]),
    ("operations on another organization", &["403", "404"]),
    (
        "operations on things of another organization",
        &["403", "404"],
    ),
];

/// Name under which bombs without a key are counted by their encoding.
const BOMBS_BY_ENCODING: &str = "bombs without a key, by encoding";
/// Outcomes of bombs without a key: those of every encoding are judged.
pub(super) const BOMBS: [Proof; 11] = [
    ("bombs without a key", &["400", "401", "413"]),
    (BOMBS_BY_ENCODING, &["br: 400", "br: 401", "br: 413"]),
    (BOMBS_BY_ENCODING, &["gzip: 400", "gzip: 401", "gzip: 413"]),
    (BOMBS_BY_ENCODING, &["zstd: 400", "zstd: 401", "zstd: 413"]),
    (
        BOMBS_BY_ENCODING,
        &["deflate: 400", "deflate: 401", "deflate: 413"],
    ),
    (
        BOMBS_BY_ENCODING,
        &["base64: 400", "base64: 401", "base64: 413"],
    ),
    (BOMBS_BY_ENCODING, &["lz64: 400", "lz64: 401", "lz64: 413"]),
    (
        BOMBS_BY_ENCODING,
        &[
            "form of gzip: 400",
            "form of gzip: 401",
            "form of gzip: 413",
        ],
    ),
    (
        BOMBS_BY_ENCODING,
        &[
            "form of lz64: 400",
            "form of lz64: 401",
            "form of lz64: 413",
        ],
    ),
    (
        BOMBS_BY_ENCODING,
        &["parts of br: 400", "parts of br: 401", "parts of br: 413"],
    ),
    (
        BOMBS_BY_ENCODING,
        &[
            "parts of gzip: 400",
            "parts of gzip: 401",
            "parts of gzip: 413",
        ],
    ),
];

/// Queries of an analyst that need memory, and rows that stay in it. At least the array reaches the
/// engine's limit, as it grows fast even on a busy machine.
pub(super) const ANALYST_MEMORY: [Proof; 6] = [
    ("queries that need memory: an array", &["code 241"]),
    ("queries that need memory: GROUP BY", &["200", "code 241"]),
    ("queries that need memory: ORDER BY", &["200", "code 241"]),
    ("queries that need memory: JOIN", &["200", "code 241"]),
    ("rows that stay in memory: a table", &["200"]),
    ("rows that stay in memory: a temporary table", &["200"]),
];

/// Name under which unread answers are counted by their way and status.
pub(super) const UNREAD_ANSWERS: &str = "answers of ClickHouse that nobody reads";

/// Name under which slow bodies are counted by their kind and answer.
const SLOW_BODIES: &str = "slow bodies to ClickHouse";
/// Slow bodies of an analyst: answered, or refused as too many statements run.
pub(super) const SLOW_STATEMENTS: [Proof; 4] = [
    (SLOW_BODIES, &["text: 200", "text: code 202"]),
    (SLOW_BODIES, &["rows: 200", "rows: code 202"]),
    (
        SLOW_BODIES,
        &["rows in gzip: 200", "rows in gzip: code 202"],
    ),
    (SLOW_BODIES, &["form: 200", "form: code 202"]),
];

/// Name under which forms are counted by their kind and answer.
const FORMS_SENT: &str = "forms to ClickHouse";
/// Forms of an analyst.
pub(super) const FORMS: [Proof; 4] = [
    (FORMS_SENT, &["whole: 200"]),
    (FORMS_SENT, &["cut: code 33"]),
    (FORMS_SENT, &["with a file: code 36"]),
    (FORMS_SENT, &["of fields: code 62"]),
];

/// Invitations by mail, and mails of them that arrived.
pub(super) const MAILS: [Proof; 4] = [
    ("invitations by mail", &["201"]),
    ("invitations that are mailed again", &["200", "201"]),
    ("invitations in bulk", &["200", "201"]),
    ("mails of invitations", &["delivered"]),
];

/// Pages of the health listener.
pub(super) const HEALTH: [Proof; 3] = [
    ("health pages: /metrics", &["200"]),
    ("health pages: /_health/live", &["200"]),
    ("health pages: /_health/ready?verbose", &["200", "503"]),
];

/// Exports with costly queries, all of which are accepted, and their backfills.
pub(super) const QUERIES: [Proof; 8] = [
    ("costly exports: patterns", &["201"]),
    ("costly exports: backtracking", &["201"]),
    ("costly exports: groups", &["201"]),
    ("costly exports: arrays", &["201"]),
    ("costly exports: rows", &["201"]),
    ("costly exports: columns", &["201"]),
    ("exports with queries that are refused", &["400"]),
    ("backfills of everything", &["200", "201"]),
];
