//! What the log of activity is told of exports: of destinations the names of fields only, as any
//! value may be somebody's secret.

use crate::activity::{Activity, ActivityScope, Deed};
use crate::entities::batch_exports as exports;
use sea_orm::ActiveEnum;
use sea_orm::prelude::Json;

/// Something that was done to an export.
pub(super) fn deed(activity: Activity, export: &exports::Model) -> Deed {
    let scope = ActivityScope::BatchExport;
    let organization_id = export.organization_id;
    Deed::new(activity, scope, organization_id, &export.id, &export.name)
}

/// All that matters of a new export.
pub(super) fn created(export: &exports::Model) -> Deed {
    deed(Activity::Created, export)
        .field("name", (), &export.name)
        .field("team_id", (), export.team_id)
        .field("model", (), export.model.to_value())
        .field("destination__type", (), export.destination_type.to_value())
        .field("destination__config", (), field_names(export))
        .field("interval", (), &export.interval)
        .field("paused", (), export.paused)
        .field("hogql_query", (), &export.hogql_query)
}

/// What differs.
pub(super) fn differences(before: &exports::Model, after: &exports::Model) -> Deed {
    let deed = deed(Activity::Updated, after)
        .field("name", &before.name, &after.name)
        .field("model", before.model.to_value(), after.model.to_value())
        .field(
            "destination__type",
            before.destination_type.to_value(),
            after.destination_type.to_value(),
        )
        .field("interval", &before.interval, &after.interval)
        .field("paused", before.paused, after.paused)
        .field(
            "last_paused_at",
            before.last_paused_at,
            after.last_paused_at,
        )
        .field("start_at", before.start_at, after.start_at)
        .field("end_at", before.end_at, after.end_at)
        .field("hogql_query", &before.hogql_query, &after.hogql_query);
    let touched = touched_fields(before, after);
    if touched.is_empty() {
        return deed;
    }
    deed.field("destination__config", (), touched)
}

/// The names of the fields that a destination has.
fn field_names(export: &exports::Model) -> Vec<String> {
    let (config, secrets) = (&export.destination_config, &export.destination_secrets);
    let objects = [config, secrets].into_iter().filter_map(Json::as_object);
    let mut names: Vec<String> = objects.flat_map(|object| object.keys().cloned()).collect();
    names.sort_unstable();
    names
}

/// The names of those that changed: of secrets, all that were sealed anew.
fn touched_fields(before: &exports::Model, after: &exports::Model) -> Vec<String> {
    let mut names = field_names(before);
    names.extend(field_names(after));
    names.sort_unstable();
    names.dedup();
    let differs = |name: &String| {
        before.destination_config.get(name) != after.destination_config.get(name)
            || before.destination_secrets.get(name) != after.destination_secrets.get(name)
    };
    names.retain(differs);
    names
}
