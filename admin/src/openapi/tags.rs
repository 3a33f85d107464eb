//! Groups of operations in the document, with their titles, in the order of the page.

use super::names::parts;
use crate::operation::Operation;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Group of operations on one resource.
pub(super) struct Tag {
    /// Name of the group, as operations have it.
    pub(super) name: &'static str,
    /// Heading of the group, for people.
    title: &'static str,
    /// Description of the resource.
    about: &'static str,
}

/// Groups of operations, in the order of the page.
pub(super) static ALL: [Tag; 22] = [
    tag(
        "organizations",
        "Organizations",
        "Owners of projects, members and settings. `@current` is the caller's oldest one.",
    ),
    tag(
        "members",
        "Members",
        "People of an organization, and their levels.",
    ),
    tag(
        "invites",
        "Invites",
        "Links by which people become members.",
    ),
    tag(
        "signup",
        "Sign-up",
        "The other end of an invite: reading and accepting it.",
    ),
    tag("roles", "Roles", "Named groups of members."),
    tag(
        "domains",
        "Domains",
        "Domains that an organization has proved to own.",
    ),
    tag(
        "projects",
        "Projects",
        "Owners of events, each with a key that clients send events with.",
    ),
    tag(
        "personal_api_keys",
        "Personal keys",
        "Keys that requests to this API carry.",
    ),
    tag(
        "sign_in",
        "Signing in",
        "The beginning and the end of a session in a browser.",
    ),
    tag("sessions", "Sessions", "The caller's own sessions."),
    tag("activity", "Activity log", "Who changed what, and when."),
    tag(
        "live",
        "Live events",
        "Events of a project as they are accepted or rejected.",
    ),
    tag(
        "stats",
        "Numbers of events",
        "Sums by minute, hour and day, and the usage of a month.",
    ),
    tag(
        "rejected_events",
        "Rejected events",
        "Events that a project's clients sent and that were not stored, and how to send them again.",
    ),
    tag(
        "query",
        "Queries",
        "SQL over the events and persons of a project.",
    ),
    tag(
        "clickhouse_user",
        "ClickHouse user",
        "A project's own login to ClickHouse.",
    ),
    tag(
        "property_columns",
        "Property columns",
        "Properties of events that have a column of their own, which queries read faster.",
    ),
    tag(
        "historical_migrations",
        "Historical migrations",
        "Imports of past events beyond the limits that apply to everyone.",
    ),
    tag(
        "batch_exports",
        "Batch exports",
        "Deliveries of rows to files, databases and other services, with their runs, backfills and \
         logs. The same operations are below an organization and below a project.",
    ),
    tag(
        "plugins",
        "Plugins",
        "Code that works on events. The five families (`plugins`, `pipeline_destinations`, \
         `pipeline_frontend_apps`, `pipeline_import_apps`, `pipeline_transformations`) have the same \
         operations over the same types.",
    ),
    tag(
        "proxy_records",
        "Proxy records",
        "Domains that lead to a managed reverse proxy.",
    ),
    tag(
        "schema",
        "This document",
        "The description of the API, for programs and for people.",
    ),
];

/// Parts of paths whose operations belong to another group.
static FOLDED: [(&str, &str); 7] = [
    ("docs", "schema"),
    ("pipeline_destinations", "plugins"),
    ("pipeline_frontend_apps", "plugins"),
    ("pipeline_import_apps", "plugins"),
    ("pipeline_transformations", "plugins"),
    ("sign_out", "sign_in"),
    ("usage", "stats"),
];

/// Beginnings of paths below which the same operations are, and the one that the page shows.
static PLACES: [(&str, &str); 1] = [(
    "/api/projects/{project_id}/batch_exports/",
    "/api/organizations/{organization_id}/batch_exports/",
)];

const fn tag(name: &'static str, title: &'static str, about: &'static str) -> Tag {
    Tag { name, title, about }
}

/// Group of an operation: the resource that its path names first, below organization and project.
pub(super) fn of(operation: &Operation) -> &'static str {
    let mut parts = parts(operation.path);
    let first = parts.next().unwrap_or_default();
    let second = parts.next();
    // An action on a top-level resource, such as a key, is no resource of its own.
    let is_action_on_first = operation.is_action && parts.next().is_none();
    let name = second.filter(|_| !is_action_on_first).unwrap_or(first);
    let folded = FOLDED.iter().find(|(part, _)| *part == name);
    folded.map_or(name, |(_, group)| *group)
}

/// Groups that are in use, for the document.
pub(super) fn written(used: &BTreeSet<&'static str>) -> Value {
    let tags = ALL.iter().filter(|tag| used.contains(tag.name));
    let tags = tags.map(
        |tag| json!({ "name": tag.name, "x-displayName": tag.title, "description": tag.about }),
    );
    tags.collect()
}

/// Path that the page shows an operation at: the same operations at other paths are shown with it.
pub(super) fn shown_path(path: &str) -> String {
    for (other, shown) in PLACES {
        if let Some(rest) = path.strip_prefix(other) {
            return format!("{shown}{rest}");
        }
    }
    let folded = FOLDED.iter().filter(|(_, group)| *group == "plugins");
    for (family, group) in folded {
        let part = format!("/{family}/");
        if path.contains(&part) {
            return path.replacen(&part, &format!("/{group}/"), 1);
        }
    }
    path.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_of_plugins_and_exports_of_a_project_are_shown_once() {
        let table = [
            (
                "/api/organizations/{organization_id}/pipeline_import_apps/{id}/",
                "/api/organizations/{organization_id}/plugins/{id}/",
            ),
            (
                "/api/projects/{project_id}/batch_exports/{id}/runs/",
                "/api/organizations/{organization_id}/batch_exports/{id}/runs/",
            ),
            (
                "/api/projects/{project_id}/live/",
                "/api/projects/{project_id}/live/",
            ),
            ("/api/docs/", "/api/docs/"),
        ];
        for (path, shown) in table {
            assert_eq!(shown_path(path), shown);
        }
    }
}
