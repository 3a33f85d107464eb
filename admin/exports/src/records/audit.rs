//! Entries of the activity log about exports. Of destinations they have the names of fields only,
//! as any value may be a secret.

use millrace_catalog::entities::batch_exports as exports;
use millrace_catalog::{Activity, ActivityScope, AuditChange};
use sea_orm::ActiveEnum;
use sea_orm::prelude::Json;

/// Starts an entry about an export.
pub(super) fn audit_change(activity: Activity, export: &exports::Model) -> AuditChange {
    let scope = ActivityScope::BatchExport;
    let organization_id = export.organization_id;
    AuditChange::new(activity, scope, organization_id, &export.id, &export.name)
}

/// Entry about a new export, with the fields that matter.
pub(super) fn created(export: &exports::Model) -> AuditChange {
    audit_change(Activity::Created, export)
        .field("name", (), &export.name)
        .field("team_id", (), export.team_id)
        .field("model", (), export.model.to_value())
        .field("destination__type", (), export.destination_type.to_value())
        .field("destination__config", (), field_names(export))
        .field("interval", (), &export.interval)
        .field("paused", (), export.paused)
        .field("hogql_query", (), &export.hogql_query)
}

/// Entry about the fields that differ.
pub(super) fn differences(before: &exports::Model, after: &exports::Model) -> AuditChange {
    let audit = audit_change(Activity::Updated, after)
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
        return audit;
    }
    audit.field("destination__config", (), touched)
}

/// Names of the fields that a destination has.
fn field_names(export: &exports::Model) -> Vec<String> {
    let (config, secrets) = (&export.destination_config, &export.destination_secrets);
    let objects = [config, secrets].into_iter().filter_map(Json::as_object);
    let mut names: Vec<String> = objects.flat_map(|object| object.keys().cloned()).collect();
    names.sort_unstable();
    names
}

/// Names of the fields that changed: of secrets, all that were sealed anew.
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
