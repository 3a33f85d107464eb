//! What a test of a destination does, step by step.

use super::bodies::TypeName;
use super::{Paths, READ};
use crate::context::Context;
use crate::error::ApiError;
use crate::operation::Operation;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

pub(super) fn rows(paths: &Paths) -> Vec<Operation> {
    vec![
        Operation::get(paths.test, steps)
            .about("List the steps of a test of a destination")
            .query("destination", "string", "The type of the destination.")
            .scopes(&READ)
            .fails(400, "required", "No type is given.")
            .fails(400, "invalid_choice", "There is no such type."),
    ]
}

/// The steps of a test.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "BatchExportTest")]
struct StepsBody {
    steps: Vec<StepBody>,
}

/// One step.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "BatchExportTestStep")]
struct StepBody {
    name: &'static str,
    description: &'static str,
    /// Null until it was made.
    result: Option<Value>,
}

async fn steps(context: Context) -> Result<StepsBody, ApiError> {
    let refused = |code, detail| ApiError::invalid(code, Some("destination"), detail);
    let name = context
        .query("destination")
        .ok_or_else(|| refused("required", "Give the type of the destination."))?;
    let kind: TypeName = serde_json::from_value(Value::String(name))
        .map_err(|_| refused("invalid_choice", "There is no such type of destination."))?;
    let steps = steps_of(kind).iter().map(|(name, description)| StepBody {
        name,
        description,
        result: None,
    });
    Ok(StepsBody {
        steps: steps.collect(),
    })
}

const REACH: (&str, &str) = (
    "Reach",
    "Connect to the server that the configuration names.",
);
const AUTHENTICATE: (&str, &str) = ("Authenticate", "Present the credentials to it.");
const WRITE_FILE: (&str, &str) = ("Write", "Write a small file where the export will write.");
const DELETE_FILE: (&str, &str) = ("Delete", "Delete that file.");
const FIND_SCHEMA: (&str, &str) = ("Find", "Find the database and the schema.");
const WRITE_TABLE: (&str, &str) = ("Write", "Create a table there and insert a row.");
const DROP_TABLE: (&str, &str) = ("Delete", "Drop that table.");

fn steps_of(kind: TypeName) -> &'static [(&'static str, &'static str)] {
    match kind {
        TypeName::S3 | TypeName::AzureBlob | TypeName::Gcs => {
            &[REACH, AUTHENTICATE, WRITE_FILE, DELETE_FILE]
        }
        TypeName::FileSystem => &[WRITE_FILE, DELETE_FILE],
        TypeName::Postgres
        | TypeName::Redshift
        | TypeName::Snowflake
        | TypeName::BigQuery
        | TypeName::Databricks => &[REACH, AUTHENTICATE, FIND_SCHEMA, WRITE_TABLE, DROP_TABLE],
        TypeName::Http => &[REACH, AUTHENTICATE],
        TypeName::NoOp => &[],
    }
}
