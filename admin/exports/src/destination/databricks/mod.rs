//! Tables in Databricks, by its SQL statement execution API.
//!
//! A service principal logs in by OAuth (`client_id`, `client_secret`), at the workspace that
//! `server_hostname` names. The API has no request ids: rows of a request that was sent again may
//! be twice in the staging table, and MERGE brings each `uuid` over once.
//!
//! **Tested against a fake of what Databricks' documents say only.**

mod engine;
mod sql;

pub(super) use engine::DatabricksEngine;

use super::settings::Settings;
use crate::error::ExportError;
use url::Url;

/// Base URL of a workspace.
pub(super) fn base(settings: &Settings<'_>) -> Result<Url, ExportError> {
    let host = settings.required("server_hostname")?;
    let wrong = |_| ExportError::permanent("The server_hostname is not the name of a server.");
    Url::parse(&format!("https://{host}")).map_err(wrong)
}
