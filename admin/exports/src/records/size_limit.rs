//! Limit on the size of an export's free-form fields, as lists answer them.

use millrace_catalog::entities::batch_exports as exports;
use millrace_catalog::{ChangeError, Violation};
use sea_orm::prelude::Json;

/// Most bytes of an export's configuration, as JSON, and its query together.
const FREE_FORM_BYTES_MAX: usize = 64 * 1024;

/// Refuses an export whose free-form fields are too large together, and larger than before: an
/// export that was too large before this limit may stay so.
pub(super) fn check_size(
    before: Option<&exports::Model>,
    after: &exports::Model,
) -> Result<(), ChangeError> {
    let bytes = bytes_of(after);
    if bytes <= FREE_FORM_BYTES_MAX || before.is_some_and(|before| bytes <= bytes_of(before)) {
        return Ok(());
    }
    let config = after.destination_config.as_object();
    let fields = config.into_iter().flatten();
    let fields =
        fields.map(|(name, value)| (json_bytes(value), format!("destination__config__{name}")));
    let query = (query_bytes(after), "hogql_query".to_owned());
    let largest = fields.chain([query]).max();
    let detail = format!(
        "The configuration of an export and its query may have {FREE_FORM_BYTES_MAX} bytes together, and \
         have {bytes}; this is the largest part."
    );
    Err(ChangeError::Invalid(Box::new(Violation {
        field: largest.map(|(_, field)| field),
        code: "max_length",
        detail,
    })))
}

fn bytes_of(export: &exports::Model) -> usize {
    json_bytes(&export.destination_config) + query_bytes(export)
}

fn query_bytes(export: &exports::Model) -> usize {
    export.hogql_query.as_ref().map_or(0, String::len)
}

fn json_bytes(value: &Json) -> usize {
    value.to_string().len()
}
