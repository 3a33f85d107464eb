//! Operator's commands. They need no API key: access to the data folder or the database is enough.
//! Only `tail` asks the API, with a key.

pub mod alone;
pub mod backup;
pub mod catalog;
pub mod clickhouse_users;
pub mod columns;
mod completions;
pub mod credentials;
pub mod doctor;
pub mod drain;
mod help;
pub mod historical_migrations;
pub mod import;
pub mod invites;
pub mod keys;
mod list_format;
pub mod log;
mod man;
pub mod members;
pub mod migrate;
mod next_step;
pub mod nodes;
pub mod organizations;
pub mod purge;
pub mod query;
pub mod rejected_events;
pub mod secrets;
mod settings;
pub mod sign_in_link;
mod table;
pub mod tail;

pub use list_format::ListFormat;
pub use millrace_import::count::counted;
pub use next_step::{Invocation, quoted};
pub use settings::show_settings;
