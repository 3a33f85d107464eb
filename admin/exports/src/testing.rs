//! Input for batch exports in tests.

use crate::{DestinationChange, NewBatchExport};
use millrace_catalog::ExportModel;

/// Input for an export of all events to such a destination, every hour from now on.
#[must_use]
pub fn new_export(destination: DestinationChange) -> NewBatchExport {
    NewBatchExport {
        project_id: None,
        name: "Nightly".to_owned(),
        model: ExportModel::Events,
        destination,
        interval: "hour".to_owned(),
        paused: false,
        last_paused_at: None,
        start_at: None,
        end_at: None,
        hogql_query: None,
        query_schema: None,
    }
}
