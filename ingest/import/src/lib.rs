//! The historical importer: brings past events from files of other tools into a running server.
//!
//! | Module | Holds |
//! |---|---|
//! | `plan`, `rules` | the mapping file |
//! | `files` | the input files and their decompressed bytes |
//! | `chunk`, `request` | conversion of files into requests |
//! | `replay` | rejects as sources |
//! | `ids` | uuids that are the same each time |
//! | `journal`, `rejected_records` | acknowledged chunks; records that gave no event |
//! | `send` | requests to the server |
//! | `fetch` | the stage that fetches exports |
//! | `load` | the stage that imports |
//! | `check`, `reconcile`, `clickhouse` | the dry run; comparison with the stored events |
//! | `staging` | the folder that stages share |
//! | `event_counts`, `stats`, `progress`, `count` | counts by day and name, counters of a running stage, and their display |

#![forbid(unsafe_code)]

pub mod check;
pub mod chunk;
pub mod clickhouse;
pub mod count;
mod event_counter;
pub mod event_counts;
pub mod fetch;
pub mod files;
mod ids;
pub mod journal;
pub mod load;
pub mod plan;
pub mod progress;
pub mod reconcile;
pub mod rejected_records;
mod replay;
pub mod request;
pub mod rules;
pub mod send;
pub mod staging;
pub mod stats;
