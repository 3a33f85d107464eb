//! Persons, their distinct ids, groups, and the progress of applying updates to them.

use super::builder::{cascade, primary_key, table};
use crate::migrations::columns::{
    big_integer, big_integer_null, boolean, integer, small_integer, text, uuid, uuid_null,
};
use sea_orm::sea_query::TableCreateStatement;

/// Tables, parents before their children.
pub(super) fn tables() -> Vec<TableCreateStatement> {
    vec![
        persons(),
        person_distinct_ids(),
        group_types(),
        groups(),
        person_progress(),
        person_backlogs(),
        person_new_ids(),
    ]
}

/// Deleted by `cleanup`, as distinct ids and groups are.
///
/// `version` is the number of the step that changed a row last: rows with a higher one than was
/// copied to ClickHouse are still to be copied.
fn persons() -> TableCreateStatement {
    table(
        "persons",
        [
            big_integer("team_id"),
            uuid("id"),
            big_integer("created_at"),
            boolean("is_identified"),
            boolean("is_deleted"),
            text("properties"),
            big_integer("version"),
        ],
    )
    .primary_key(&mut primary_key(&["team_id", "id"]))
    .take()
}

fn person_distinct_ids() -> TableCreateStatement {
    table(
        "person_distinct_ids",
        [
            big_integer("team_id"),
            text("distinct_id"),
            uuid("person_id"),
            big_integer("version"),
            big_integer_null("identified_at"),
            uuid_null("identified_by"),
        ],
    )
    .primary_key(&mut primary_key(&["team_id", "distinct_id"]))
    .take()
}

fn group_types() -> TableCreateStatement {
    table(
        "group_types",
        [
            big_integer("team_id"),
            text("name"),
            small_integer("position"),
        ],
    )
    .primary_key(&mut primary_key(&["team_id", "name"]))
    .foreign_key(cascade("team_id", "projects").name("fk_group_types_team_id"))
    .take()
}

fn groups() -> TableCreateStatement {
    table(
        "groups",
        [
            big_integer("team_id"),
            text("group_type"),
            text("group_key"),
            big_integer("created_at"),
            text("properties"),
            big_integer("version"),
        ],
    )
    .primary_key(&mut primary_key(&["team_id", "group_type", "group_key"]))
    .take()
}

fn person_progress() -> TableCreateStatement {
    table(
        "person_progress",
        [
            integer("id").primary_key().take(),
            big_integer("created_at"),
            uuid("request_id"),
            big_integer("position"),
            big_integer("version"),
            big_integer("copied"),
            big_integer_null("passed"),
        ],
    )
}

fn person_backlogs() -> TableCreateStatement {
    table(
        "person_backlogs",
        [
            big_integer("team_id").primary_key().take(),
            big_integer("created_at"),
            uuid("request_id"),
            big_integer("position"),
            big_integer("version"),
            big_integer_null("passed"),
        ],
    )
    .foreign_key(cascade("team_id", "projects").name("fk_person_backlogs_team_id"))
    .take()
}

fn person_new_ids() -> TableCreateStatement {
    table(
        "person_new_ids",
        [
            big_integer("team_id").primary_key().take(),
            big_integer("hour"),
            big_integer("made"),
            big_integer("left_out"),
            big_integer("bytes").default(0).take(),
            big_integer("bytes_left_out").default(0).take(),
        ],
    )
    .foreign_key(cascade("team_id", "projects").name("fk_person_new_ids_team_id"))
    .take()
}
