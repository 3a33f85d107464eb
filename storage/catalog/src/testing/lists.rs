//! Long lists, inserted by SQL because the catalog takes a transaction for each row.

#![allow(clippy::unwrap_used, reason = "tests end here")]

use super::{TestDatabase, latest_runs, numbers, random_uuid};

const COUNT_MEMBERS: &str = "UPDATE organizations SET member_count = (SELECT COUNT(*) FROM \
     organization_memberships WHERE organization_id = organizations.id)";

/// Adds members `crowd<i>@example.com` of level 1 to every organization.
///
/// # Panics
///
/// Any database error.
pub async fn add_members(database: &TestDatabase, rows: u32) {
    let (numbers, uuid) = (numbers(rows), random_uuid(database));
    let users = format!(
        "INSERT INTO users (uuid, distinct_id, email, first_name, last_name, is_active, \
         created_at, updated_at) {numbers} SELECT {uuid}, 'crowd', 'crowd' || i || \
         '@example.com', '', '', true, i, i FROM n"
    );
    let members = format!(
        "INSERT INTO organization_memberships (id, organization_id, user_id, level, joined_at, \
         updated_at) SELECT {uuid}, organizations.id, users.id, 1, users.created_at, 1 \
         FROM organizations, users WHERE users.distinct_id = 'crowd'"
    );
    database.execute(&users).await.unwrap();
    database.execute(&members).await.unwrap();
    database.execute(COUNT_MEMBERS).await.unwrap();
}

/// Lengths of the lists.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Members, each with a role.
    pub members: u32,
    /// Invites.
    pub invites: u32,
    /// Entries of the activity log.
    pub activity: u32,
    /// Projects.
    pub projects: u32,
    /// Resources of each other kind.
    pub others: u32,
}

/// Fills every list of the organization "Acme", and that of its owner's organizations. A role
/// "Everybody" must exist.
///
/// # Panics
///
/// Any database error.
pub async fn add_lists(database: &TestDatabase, owner_id: i64, sizes: &Sizes) {
    add_members(database, sizes.members).await;
    let (people, things) = (
        people(database, owner_id, sizes),
        things(database, owner_id, sizes),
    );
    let exports = exports(database, sizes.others);
    for insert in people.into_iter().chain(things).chain(exports) {
        database.execute(&insert).await.unwrap();
    }
}

const HERE: &str = "(SELECT id FROM organizations WHERE name = 'Acme')";
const PROJECT: &str = "(SELECT min(id) FROM projects)";

fn insert(rows: u32, table: &str, columns: &str, values: &str) -> String {
    let numbers = numbers(rows);
    format!("INSERT INTO {table} ({columns}) {numbers} SELECT {values} FROM n")
}

fn people(database: &TestDatabase, ann: i64, sizes: &Sizes) -> Vec<String> {
    let (uuid, others) = (random_uuid(database), sizes.others);
    let insert = |table, columns, values: String| insert(others, table, columns, &values);
    vec![
        format!(
            "INSERT INTO organization_invites (id, organization_id, target_email, email_key, \
             first_name, level, private_project_access, emailing_attempt_made, token_hash, \
             expires_at, created_by_id, created_at, updated_at) {} SELECT {uuid}, {HERE}, \
             'a' || i, 'a' || i, '', 1, '[]', false, 'h' || i, i, {ann}, i, i FROM n",
            numbers(sizes.invites)
        ),
        insert(
            "organization_domains",
            "id, organization_id, domain, verification_challenge, jit_provisioning_enabled, \
             sso_enforcement, created_at, updated_at",
            format!("{uuid}, {HERE}, 'd' || i, 'x', false, '', i, i"),
        ),
        insert(
            "roles",
            "id, organization_id, name, name_key, feature_flags_access_level, created_by_id, \
             created_at",
            format!("{uuid}, {HERE}, 'r' || i, 'r' || i, 37, {ann}, i"),
        ),
        format!(
            "INSERT INTO role_memberships (id, role_id, membership_id, joined_at, updated_at) \
             SELECT {uuid}, roles.id, organization_memberships.id, 1, 1 \
             FROM roles, organization_memberships WHERE roles.name = 'Everybody'"
        ),
        insert(
            "organizations",
            "id, name, slug, created_at, updated_at, is_member_join_email_enabled, \
             members_can_write_pipelines, plugins_access_level, disabled_features",
            format!("{uuid}, 'o' || i, 'o' || i, i, i, true, true, 9, '[]'"),
        ),
        format!(
            "INSERT INTO organization_memberships (id, organization_id, user_id, level, \
             joined_at, updated_at) SELECT {uuid}, id, {ann}, 15, 1, 1 \
             FROM organizations WHERE name <> 'Acme'"
        ),
        COUNT_MEMBERS.to_owned(),
    ]
}

fn things(database: &TestDatabase, ann: i64, sizes: &Sizes) -> Vec<String> {
    let uuid = random_uuid(database);
    let entries = insert(
        sizes.activity,
        "activity_log",
        "id, organization_id, actor_name, activity, scope, item_id, detail, created_at",
        &format!(
            "{uuid}, {HERE}, '', 'created', 'OrganizationDomain', 'x', \
             '{{\"name\": \"\", \"changes\": []}}', i"
        ),
    );
    let projects = insert(
        sizes.projects,
        "projects",
        "uuid, organization_id, name, api_token_imported, anonymize_ips, timezone, \
             created_at, updated_at",
        &format!("{uuid}, {HERE}, 'p' || i, false, false, 'UTC', i, i"),
    );
    let insert = |table, columns, values: String| insert(sizes.others, table, columns, &values);
    vec![
        projects,
        insert(
            "personal_api_keys",
            "id, user_id, label, key_hash, mask_value, scopes, created_at",
            format!("{uuid}, {ann}, 'k' || i, 'h' || i, 'm', '[\"*\"]', i"),
        ),
        insert(
            "proxy_records",
            "id, organization_id, domain, target_cname, status, created_by, created_at, \
             updated_at, check_at",
            format!("{uuid}, {HERE}, 'd' || i, 't', 'waiting', {ann}, i, i, i"),
        ),
        insert(
            "historical_migrations",
            "id, organization_id, team_id, source, method, total_events, events_per_minute, \
             state, events_imported, created_at",
            format!("{uuid}, {HERE}, {PROJECT}, 's', 'm', 1, 1, 'requested', 0, i"),
        ),
        insert(
            "plugins",
            "organization_id, plugin_type, is_global, config_schema, capabilities, \
             is_destination, is_frontend_app, is_import_app, is_transformation, created_at, \
             updated_at",
            format!("{HERE}, 'source', false, '[]', '{{}}', true, false, false, false, i, i"),
        ),
        insert(
            "plugins",
            "organization_id, plugin_type, is_global, config_schema, capabilities, \
             is_destination, is_frontend_app, is_import_app, is_transformation, created_at, \
             updated_at",
            format!("{HERE}, 'source', false, '[]', '{{}}', true, false, false, false, -i, i"),
        ),
        format!(
            "INSERT INTO plugin_configs (plugin_id, team_id, enabled, position, config, \
             created_at, updated_at) SELECT id, {PROJECT}, true, 1, '{{}}', 1, 1 \
             FROM plugins WHERE created_at > 0"
        ),
        entries,
    ]
}

/// Exports with 12 runs each; one in the middle, the first behind 500 others, has long lists.
fn exports(database: &TestDatabase, rows: u32) -> [String; 5] {
    let (numbers, uuid) = (numbers(rows), random_uuid(database));
    [
        insert(
            rows,
            "batch_exports",
            "id, organization_id, team_id, name, model, destination_type, destination_config, \
             destination_secrets, \"interval\", paused, runs_count, created_at, last_updated_at",
            &format!(
                "{uuid}, {HERE}, {PROJECT}, 'e' || i, 'events', 'NoOp', '{{}}', '{{}}', 'hour', \
                 false, CASE i WHEN 501 THEN {rows} ELSE 12 END, i, i"
            ),
        ),
        format!(
            "INSERT INTO batch_export_runs (id, batch_export_id, ordinal, status, \
             data_interval_end, created_at, last_updated_at) {numbers} SELECT {uuid}, \
             batch_exports.id, i, 'Completed', i, i, i FROM batch_exports, n WHERE i <= runs_count"
        ),
        latest_runs(database),
        format!(
            "INSERT INTO batch_export_backfills (id, batch_export_id, status, finished_runs, \
             created_at, last_updated_at) {numbers} SELECT {uuid}, batch_exports.id, 'Completed', \
             0, i, i FROM batch_exports, n WHERE name = 'e501'"
        ),
        format!(
            "INSERT INTO batch_export_logs (batch_export_id, logged_at, level, message) {numbers} \
             SELECT batch_exports.id, i, 'INFO', 'm' FROM batch_exports, n WHERE name = 'e501'"
        ),
    ]
}
