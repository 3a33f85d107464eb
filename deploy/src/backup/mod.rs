//! Backups of the embedded default: its data, in a folder.
//!
//! | In a backup | Made by |
//! |---|---|
//! | `clickhouse/` | ClickHouse's own `BACKUP`: everything stored before it began. It may write to `clickhouse_backup_dir` only, from where it is moved (`backup_dir`) |
//! | `catalog.db` | SQLite's `VACUUM INTO`, afterwards: it knows the project of every event |
//! | `secret.key`, `credentials.json`, `dead-letters/` | copied |
//! | `whole` | written last: a backup without it is incomplete |
//!
//! Two things are not in a backup. The log: its events are being shipped, and a second server that
//! ships them again would store them twice. The node's name: it is part of the deduplication tokens
//! of inserts, so two servers of one name would lose rows. The old node is deregistered in the new
//! catalog, so that exports do not wait for it. Persons and groups are copied to ClickHouse once
//! more, as the catalog is of a later moment. The addresses in `credentials.json` are those of the
//! old server, and left out of a restored folder.
//!
//! | Module | Holds |
//! |---|---|
//! | `create`, `restore` | the two directions, step by step |
//! | `contents` | parts of a backup |
//! | `clickhouse` | ClickHouse's own copy of its data |
//! | `files` | copies of files that survive a power cut |

mod clickhouse;
mod contents;
mod create;
mod files;
mod restore;

pub use create::create;
pub use restore::restore;
