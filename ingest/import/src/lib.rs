//! The historical importer: past events out of files of other tools, into a running server.
//!
//! | Module | Holds |
//! |---|---|
//! | `plan`, `rules` | the mapping file |
//! | `files` | which files, and their bytes |
//! | `chunk`, `request` | files into requests |
//! | `replay` | rejects as sources |
//! | `ids` | uuids that are the same each time |
//! | `journal`, `reject` | what was acknowledged, and what was refused |
//! | `send` | requests to the server |
//! | `fetch` | the stage that fetches exports |
//! | `load` | the stage that imports |
//! | `check`, `reconcile`, `clickhouse` | the dry run; what is stored |
//! | `staging` | the folder that stages share |
//! | `tally`, `meter`, `progress`, `count` | counts by day and name, counts for those who watch, and how they are written |

#![forbid(unsafe_code)]

pub mod check;
pub mod chunk;
pub mod clickhouse;
pub mod count;
pub mod fetch;
pub mod files;
mod ids;
pub mod journal;
pub mod load;
pub mod meter;
pub mod plan;
pub mod progress;
pub mod reconcile;
pub mod reject;
mod replay;
pub mod request;
pub mod rules;
pub mod send;
pub mod staging;
mod tallier;
pub mod tally;
