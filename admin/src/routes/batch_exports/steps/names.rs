//! Steps of each type of destination, with their names and descriptions.

use crate::routes::batch_exports::bodies::TypeName;
use millrace_exports::destination::TestStep;

/// Steps of a test, by the type of the destination.
pub(super) fn steps_of(kind: TypeName) -> &'static [TestStep] {
    use TestStep::{Authenticate, Delete, Find, Reach, Read, Write};
    match kind {
        TypeName::S3 | TypeName::AzureBlob | TypeName::Gcs => {
            &[Reach, Authenticate, Write, Read, Delete]
        }
        TypeName::FileSystem => &[Write, Read, Delete],
        TypeName::Postgres
        | TypeName::Redshift
        | TypeName::Snowflake
        | TypeName::BigQuery
        | TypeName::Databricks
        | TypeName::ClickHouse => &[Reach, Authenticate, Find, Write, Read, Delete],
        TypeName::Http => &[Reach, Authenticate],
        TypeName::NoOp => &[],
    }
}

/// Name and description of a step.
pub(super) fn words(step: TestStep, kind: TypeName) -> (&'static str, &'static str) {
    let is_table = matches!(
        kind,
        TypeName::Postgres
            | TypeName::Redshift
            | TypeName::Snowflake
            | TypeName::BigQuery
            | TypeName::Databricks
            | TypeName::ClickHouse
    );
    match step {
        TestStep::Reach => (
            "Reach",
            "Connect to the server that the configuration names.",
        ),
        TestStep::Authenticate => ("Authenticate", "Present the credentials to it."),
        TestStep::Find => ("Find", "Find the database and the schema."),
        TestStep::Write if kind == TypeName::BigQuery => {
            ("Write", "Load a row into a table beside the export's.")
        }
        TestStep::Write if is_table => ("Write", "Create a table there and insert a row."),
        TestStep::Write => ("Write", "Write a small file where the export will write."),
        TestStep::Read => ("Read", "Read it back."),
        TestStep::Delete if is_table => ("Delete", "Drop that table."),
        TestStep::Delete => ("Delete", "Delete that file."),
    }
}
