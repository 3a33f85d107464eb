//! Entries of the activity log about plugins.

use millrace_catalog::entities::plugins;
use millrace_catalog::{Activity, ActivityScope, AuditChange};
use sea_orm::ActiveEnum;

pub(super) fn type_name(plugin_type: plugins::PluginType) -> String {
    plugin_type.to_value()
}

pub(super) fn audit_change(activity: Activity, plugin: &plugins::Model) -> AuditChange {
    let name = plugin.name.as_deref().unwrap_or_default();
    let organization_id = plugin.organization_id;
    AuditChange::new(
        activity,
        ActivityScope::Plugin,
        organization_id,
        &plugin.id,
        name,
    )
}

pub(super) fn differences(before: &plugins::Model, after: &plugins::Model) -> AuditChange {
    audit_change(Activity::Updated, after)
        .field(
            "plugin_type",
            before.plugin_type.map(type_name),
            after.plugin_type.map(type_name),
        )
        .field("name", &before.name, &after.name)
        .field("description", &before.description, &after.description)
        .field("icon", &before.icon, &after.icon)
        .field("config_schema", &before.config_schema, &after.config_schema)
        .field("tag", &before.tag, &after.tag)
        .field("latest_tag", &before.latest_tag, &after.latest_tag)
        .field("is_global", before.is_global, after.is_global)
        .field("capabilities", &before.capabilities, &after.capabilities)
        .field("metrics", &before.metrics, &after.metrics)
        .field("public_jobs", &before.public_jobs, &after.public_jobs)
}
