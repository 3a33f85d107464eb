//! What a backfill exports: what its export did when somebody asked for it, so that windows and rows are
//! those that were counted, whatever the export is told meanwhile.

use crate::entities::batch_export_backfills as backfills;
use crate::entities::batch_exports::{self as exports, ExportModel};
use sea_orm::ActiveEnum;
use sea_orm::prelude::Json;
use serde::{Deserialize, Serialize};

/// Fields of a destination's configuration that say which events are exported.
const EVENT_FILTERS: [&str; 2] = ["include_events", "exclude_events"];

/// What decides which rows an export has, and in which windows.
#[derive(Serialize, Deserialize)]
struct AskedFor {
    interval: String,
    model: String,
    hogql_query: Option<String>,
    query_schema: Option<Json>,
    /// Of [`EVENT_FILTERS`] those that were given.
    event_filters: serde_json::Map<String, Json>,
}

/// What an export exports now.
pub(super) fn asked_for(export: &exports::Model) -> Option<Json> {
    let config = export.destination_config.as_object();
    let given = config.into_iter().flatten();
    let given = given.filter(|(name, _)| EVENT_FILTERS.contains(&name.as_str()));
    let asked_for = AskedFor {
        interval: export.interval.clone(),
        model: export.model.to_value(),
        hogql_query: export.hogql_query.clone(),
        query_schema: export.query_schema.clone(),
        event_filters: given
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect(),
    };
    serde_json::to_value(asked_for).ok()
}

impl backfills::Model {
    /// Its export as it was when this was asked for, with where it leads to now.
    pub(super) fn of_export(&self, mut export: exports::Model) -> exports::Model {
        let kept = self.asked_for.clone();
        // Nobody else writes it.
        let kept = kept.and_then(|kept| serde_json::from_value::<AskedFor>(kept).ok());
        let Some(kept) = kept else {
            return export;
        };
        export.interval = kept.interval;
        export.model = ExportModel::try_from_value(&kept.model).unwrap_or(export.model);
        (export.hogql_query, export.query_schema) = (kept.hogql_query, kept.query_schema);
        if let Some(config) = export.destination_config.as_object_mut() {
            config.retain(|name, _| !EVENT_FILTERS.contains(&name.as_str()));
            config.extend(kept.event_filters);
        }
        export
    }
}
