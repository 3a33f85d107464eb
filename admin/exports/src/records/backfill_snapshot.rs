//! Snapshot of what an export exports, taken when a backfill is asked for: its windows and rows are
//! those that were counted, however the export changes later.

use millrace_catalog::UtcTime;
use millrace_catalog::entities::batch_export_backfills as backfills;
use millrace_catalog::entities::batch_exports::{self as exports, ExportModel};
use sea_orm::ActiveEnum;
use sea_orm::prelude::Json;
use serde::{Deserialize, Serialize};

/// Fields of a destination's configuration that filter events.
const EVENT_FILTERS: [&str; 2] = ["include_events", "exclude_events"];

/// Settings that decide an export's rows and windows.
#[derive(Serialize, Deserialize)]
struct ExportSnapshot {
    interval: String,
    model: String,
    hogql_query: Option<String>,
    query_schema: Option<Json>,
    /// Fields of [`EVENT_FILTERS`] that were given.
    event_filters: serde_json::Map<String, Json>,
    /// Start of the first window, in microseconds since 1970, of the backfill of a pause: what was
    /// before is in windows by the clock.
    #[serde(default)]
    windows_from: Option<i64>,
}

impl ExportSnapshot {
    fn of(backfill: &backfills::Model) -> Option<Self> {
        let snapshot = backfill.asked_for.clone()?;
        // Only this module writes it.
        serde_json::from_value(snapshot).ok()
    }
}

/// Takes a snapshot of an export's present settings.
pub(super) fn snapshot(export: &exports::Model, windows_from: Option<UtcTime>) -> Option<Json> {
    let config = export.destination_config.as_object();
    let given = config.into_iter().flatten();
    let given = given.filter(|(name, _)| EVENT_FILTERS.contains(&name.as_str()));
    let snapshot = ExportSnapshot {
        interval: export.interval.clone(),
        model: export.model.to_value(),
        hogql_query: export.hogql_query.clone(),
        query_schema: export.query_schema.clone(),
        event_filters: given
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect(),
        windows_from: windows_from.map(|at| at.0),
    };
    serde_json::to_value(snapshot).ok()
}

/// Start of a backfill's first window; `None`: the window by the clock in which the range starts.
pub(super) fn windows_from(backfill: &backfills::Model) -> Option<UtcTime> {
    ExportSnapshot::of(backfill)?.windows_from.map(UtcTime)
}

/// Reason why this version cannot tell what was asked for, for customers; `None`: it can.
pub(super) fn unknown_settings(backfill: &backfills::Model) -> Option<String> {
    backfill.asked_for.as_ref()?;
    let what = match ExportSnapshot::of(backfill) {
        None => "settings".to_owned(),
        Some(snapshot) if ExportModel::try_from_value(&snapshot.model).is_err() => {
            format!("the model {:?}", snapshot.model)
        }
        Some(_) => return None,
    };
    Some(format!(
        "The backfill was requested with {what} that this version does not know: request it again, \
         or have the operator start the version that created it."
    ))
}

/// Returns the export as it was when a backfill of it was asked for, with its present destination.
/// Settings that this version does not know are the present ones: [`unknown_settings`] is asked
/// first.
pub(super) fn export_of(backfill: &backfills::Model, mut export: exports::Model) -> exports::Model {
    let Some(snapshot) = ExportSnapshot::of(backfill) else {
        return export;
    };
    export.interval = snapshot.interval;
    export.model = ExportModel::try_from_value(&snapshot.model).unwrap_or(export.model);
    (export.hogql_query, export.query_schema) = (snapshot.hogql_query, snapshot.query_schema);
    if let Some(config) = export.destination_config.as_object_mut() {
        config.retain(|name, _| !EVENT_FILTERS.contains(&name.as_str()));
        config.extend(snapshot.event_filters);
    }
    export
}
