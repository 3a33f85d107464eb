//! What the warehouses behind HTTP have in common.
//!
//! Rows go into a table beside that of events, whose name is made of the window: a run that is
//! tried again begins by replacing it. One MERGE then brings them into the table by `uuid`, each
//! once; it is one statement, so it is done or not, and once more changes nothing. The table
//! beside is dropped.
//!
//! **Tested against fakes of what the vendors' documents say only**, never against the services.
//!
//! | Module | Holds |
//! |---|---|
//! | `api` | calls with JSON answers |
//! | `delivery` | one run, for those that take SQL statements with a parameter |
//! | `jwt` | tokens signed with a customer's RSA key |
//! | `steps` | the test of a destination |
//! | `token` | tokens that are good for a while |

pub(crate) mod api;
pub(crate) mod delivery;
pub(crate) mod jwt;
pub(crate) mod steps;
pub(crate) mod token;

use super::table::run_key;
use crate::error::ExportError;
use crate::window::RunScope;
use async_trait::async_trait;
use uuid::Uuid;

/// A service that carries out SQL.
#[async_trait]
pub(crate) trait Engine: Send + Sync {
    /// What the service is called in sentences.
    fn product(&self) -> &'static str;

    /// The host that it is reached at.
    fn host(&self) -> (String, u16);

    /// The statements that bring rows by a table of this name beside that of events.
    fn texts(&self, stage: &str) -> Texts;

    /// Carries out a statement, in which `rows` is the one parameter; answers the first value of
    /// its result. If the outcome of a request is not known, it is sent again.
    async fn run(&self, sql: &str, rows: Option<&str>) -> Result<Option<String>, ExportError>;
}

/// Statements, in the order of a run.
#[derive(Clone, Debug)]
pub(crate) struct Texts {
    /// Makes the table of events, if it is missing.
    pub(crate) create: String,
    /// Makes the table beside it, empty.
    pub(crate) stage: String,
    /// Puts rows into that: its parameter is a JSON array of them.
    pub(crate) insert: String,
    /// Counts them.
    pub(crate) count: String,
    /// Brings them into the table of events.
    pub(crate) merge: String,
    /// Drops the table beside.
    pub(crate) drop: String,
    /// Finds the schema.
    pub(crate) find: String,
}

/// The name of the table beside that of events, for a window.
pub(crate) fn stage_name(table: &str, run: &RunScope) -> String {
    let digest = Uuid::new_v5(&Uuid::NAMESPACE_OID, run_key(run).as_bytes());
    format!("{table}_millrace_{}", digest.simple())
}
