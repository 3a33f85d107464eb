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
