//! Part of an error's body that is ClickHouse's.

use schemars::JsonSchema;
use serde::Serialize;

/// Error of ClickHouse behind the error of a query.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "ClickHouseError")]
pub(crate) struct ClickHouseDetail {
    /// Code of the error.
    pub(super) code: u32,
    /// Name of the error, such as `SYNTAX_ERROR`.
    pub(super) name: Option<String>,
    /// Position in the query, in bytes, from 1.
    pub(super) position: Option<u32>,
}
