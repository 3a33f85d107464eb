//! From accepted rows to ClickHouse: submit, commit, ship.
#![forbid(unsafe_code)]
