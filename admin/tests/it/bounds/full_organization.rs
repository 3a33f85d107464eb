//! An organization that is filled to all limits, in number and size of its resources.
//!
//! One resource of each kind is created by requests, so that its size is one that the API accepts.
//! The others are inserted by SQL, as copies of it or with texts of the same length, up to the
//! catalog's limits. In the longest lists only some rows are large, as all of them would be
//! hundreds of megabytes.

use crate::Fixture;
use crate::paths::sample::SampleData;
use crate::test_server::TestServer;
use millrace_admin::ApiConfig;
use millrace_catalog::limits::{
    DOMAINS_MAX, HISTORICAL_MIGRATIONS_MAX, INVITES_MAX, KEYS_PER_USER_MAX, MEMBERS_MAX,
    OWNED_ORGANIZATIONS_MAX, PROJECTS_MAX, PROXY_RECORDS_MAX, ROLES_MAX,
};
use millrace_catalog::testing::{latest_runs, numbers, random_uuid};
use millrace_catalog::{CatalogLimits, Level};
use millrace_organizations::PLUGIN_SOURCE_BYTES_MAX;
use serde_json::{Value, json};
use std::io;
use tokio::net::{TcpListener, TcpSocket};

/// Most rows of a list that are as large as they may be; the others are small.
const LARGE_MAX: u32 = 1_500;
/// SQL for the id of the organization, which was created first.
const HERE: &str = "(SELECT id FROM organizations ORDER BY created_at, id LIMIT 1)";
/// Longest error message of a destination that is stored, in characters.
const ERROR_CHARS: usize = 4_096;

/// A full organization, served on a socket.
pub struct FullOrganization {
    pub server: TestServer,
    /// Ids of its resources.
    pub data: SampleData,
    /// Keys of users who may read everything, one of each user.
    pub keys: Vec<String>,
}

impl FullOrganization {
    pub async fn start(readers: usize, set: impl FnOnce(&mut ApiConfig)) -> Self {
        let fixture = Fixture::new().await;
        let here = fixture.made.organization_id;
        let owner = fixture.member_of(here, "ann@mine.example", Level::Owner);
        let owner = owner.await;
        let data = SampleData::fill(&fixture, "mine", here, &owner).await;
        let mut keys = Vec::new();
        for number in 0..readers {
            let email = format!("reader{number}@mine.example");
            keys.push(fixture.member(&email, Level::Administrator).await);
        }
        enlarge(&fixture, &data).await;
        for statement in statements(&fixture, owner.id) {
            fixture.execute(&statement).await;
        }
        let listener = listener_with_small_buffers().unwrap();
        let server =
            TestServer::behind(listener, fixture, |services| set(&mut services.config)).await;
        Self { server, data, keys }
    }
}

/// Listener whose connections have small kernel buffers, which would otherwise take whole
/// responses that nobody reads.
fn listener_with_small_buffers() -> io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.set_send_buffer_size(64 << 10)?;
    socket.bind(([127, 0, 0, 1], 0).into())?;
    socket.listen(1_024)
}

/// Text of the longest characters, four bytes each.
fn long(chars: usize) -> String {
    "𝄞".repeat(chars)
}

/// Makes the resources as large as requests can.
async fn enlarge(fixture: &Fixture, data: &SampleData) {
    let names: Vec<String> = (0..210).map(|it| format!("{it} {}", long(50))).collect();
    let columns: Vec<String> = (0..300).map(|it| format!("event AS c{it}")).collect();
    let query = format!("SELECT {} FROM events", columns.join(", "));
    // 64 KiB together, which take twice as many bytes in a response.
    let plugin = json!({
        "name": long(200), "description": "\"".repeat(65_000), "icon": "x".repeat(800),
        "tag": long(200),
    });
    let things = [
        (
            "batch_exports",
            json!({
                "name": long(400), "hogql_query": query,
                "destination": { "type": "NoOp", "config": { "exclude_events": names } },
            }),
        ),
        ("plugins", plugin),
        ("projects", json!({ "name": long(200) })),
        ("roles", json!({ "name": long(200) })),
    ];
    for (path, body) in things {
        let path = data.path(&format!("/api/organizations/:id/{path}/:id/"));
        let answer = fixture.call_with(&data.key, "PATCH", &path, &body).await;
        assert_eq!(answer.status, 200, "{path}: {:?}", answer.body);
    }
}

/// SQL statements that fill the organization; `owner` is the user whose key reads.
fn statements(fixture: &Fixture, owner: i64) -> Vec<String> {
    let database = fixture.database();
    let uuid = random_uuid(database);
    let insert = |rows: u32, table: &str, columns: &str, values: &str| {
        let values = values.replace("UUID", uuid).replace("HERE", HERE);
        format!(
            "INSERT INTO {table} ({columns}) {} SELECT {values} FROM n",
            numbers(rows)
        )
    };
    let mut all = people(&insert, uuid);
    all.extend(invites_and_keys(&insert, owner));
    all.extend(log_and_source(&insert));
    all.extend(things(&insert));
    all.extend(exports(&insert));
    all.push("DELETE FROM batch_export_latest_runs".to_owned());
    all.push(latest_runs(database));
    all.extend(copies(&insert));
    // Checks would write to the activity log while its pages are read.
    all.push("UPDATE proxy_records SET check_at = 9000000000000000".to_owned());
    // Last, as the statements before expect one organization.
    all.extend(organizations(&insert, owner));
    let members = "SELECT COUNT(*) FROM organization_memberships";
    all.push(format!(
        "UPDATE organizations SET member_count = ({members} WHERE organization_id = organizations.id)"
    ));
    all
}

type Insert<'a> = &'a dyn Fn(u32, &str, &str, &str) -> String;

/// Limits an insert statement to the rows that are missing to `most`.
fn fill(insert: &str, most: u64, table: &str, whose: &str) -> String {
    let whose = whose.replace("HERE", HERE);
    format!("{insert} WHERE i <= {most} - (SELECT COUNT(*) FROM {table} WHERE {whose})")
}

/// Statement that fills a table to the organization's limit.
fn all_of(insert: Insert<'_>, most: u64, table: &str, columns: &str, values: &str) -> String {
    let rows = insert(u32::try_from(most).unwrap(), table, columns, values);
    fill(&rows, most, table, "organization_id = HERE")
}

/// SQL for a text that is large in the first rows only.
fn some(large: &str) -> String {
    format!("CASE WHEN i <= {LARGE_MAX} THEN '{large}' ELSE 'x' END")
}

fn people(insert: Insert<'_>, uuid: &str) -> Vec<String> {
    let name = some(&long(150));
    let users = insert(
        u32::try_from(MEMBERS_MAX).unwrap(),
        "users",
        "uuid, distinct_id, email, first_name, last_name, is_active, created_at, updated_at",
        &format!(
            "UUID, 'crowd', 'm' || i || {} || '@mine.example', {name}, {name}, true, i, i",
            some(&"x".repeat(230))
        ),
    );
    let everybody_has = |id: &str, which: &str| {
        format!(
            "INSERT INTO role_memberships (id, role_id, membership_id, joined_at, updated_at) SELECT \
             {id}, roles.id, members.id, user_id, 1 FROM roles, organization_memberships AS members \
             WHERE {which} AND level = 1 AND user_id IN (SELECT id FROM users WHERE \
             distinct_id = 'crowd')"
        )
    };
    vec![
        fill(
            &users,
            MEMBERS_MAX,
            "organization_memberships",
            "organization_id = HERE",
        ),
        format!(
            "INSERT INTO organization_memberships (id, organization_id, user_id, level, joined_at, \
             updated_at) SELECT uuid, {HERE}, id, 1, created_at, 1 FROM users \
             WHERE distinct_id = 'crowd'"
        ),
        // The existing role, and three of the new ones.
        everybody_has("members.id", "true"),
        all_of(
            insert,
            ROLES_MAX,
            "roles",
            "id, organization_id, name, name_key, feature_flags_access_level, created_at",
            &format!("UUID, HERE, i || '{}', 'r' || i, 37, i", long(190)),
        ),
        everybody_has(uuid, "roles.name_key IN ('r1', 'r2', 'r500')"),
    ]
}

fn invites_and_keys(insert: Insert<'_>, owner: i64) -> [String; 2] {
    let (name, uuids) = (some(&long(30)), json!(vec![uuid::Uuid::nil(); 100]));
    let message = some(&"\"".repeat(2_000));
    let access: Vec<Value> = (0..100).map(|_| json!({ "id": 1, "level": 1 })).collect();
    let access = json!(access);
    let keys = insert(
        u32::try_from(KEYS_PER_USER_MAX).unwrap(),
        "personal_api_keys",
        "id, user_id, label, key_hash, mask_value, scopes, scoped_organizations, created_at",
        &format!(
            "UUID, {owner}, '{}', 'h' || i, 'm', '[\"*\"]', '{uuids}', i",
            long(40)
        ),
    );
    [
        all_of(
            insert,
            INVITES_MAX,
            "organization_invites",
            "id, organization_id, target_email, email_key, first_name, level, message, \
             private_project_access, emailing_attempt_made, token_hash, expires_at, created_by_id, \
             created_at, updated_at",
            &format!(
                "UUID, HERE, i || '@example.com', i || '@example.com', {name}, 1, {message}, \
                 '{access}', false, 'h' || i, i, \
                 {owner}, i, i"
            ),
        ),
        fill(
            &keys,
            KEYS_PER_USER_MAX,
            "personal_api_keys",
            &format!("user_id = {owner}"),
        ),
    ]
}

/// Statements for entries of the activity log, and for the largest source of a plugin.
fn log_and_source(insert: Insert<'_>) -> Vec<String> {
    let name = long(199);
    let change = json!({
        "type": "Plugin", "action": "changed", "field": "f", "before": null,
        "after": "x".repeat(1_024),
    });
    let detail = json!({ "name": name, "changes": vec![change; 28] });
    let entries = |scope: &str, item: &str| {
        insert(
            300,
            "activity_log",
            "id, organization_id, actor_name, activity, scope, item_id, detail, created_at",
            &format!("UUID, HERE, '{name}', 'created', '{scope}', {item}, '{detail}', i"),
        )
    };
    // Six bytes of JSON each; two are for names.
    let source = "\u{1}".repeat((PLUGIN_SOURCE_BYTES_MAX - 2) / 6);
    vec![
        entries("Plugin", "'x'"),
        // The second project, which the sample data has.
        entries("Project", "CAST((SELECT max(id) FROM projects) AS TEXT)"),
        format!(
            "INSERT INTO plugin_source_files (plugin_id, filename, source, updated_at) SELECT id, \
             'a', '{source}', 1 FROM plugins WHERE description IS NOT NULL"
        ),
    ]
}

fn things(insert: Insert<'_>) -> [String; 3] {
    let (name, certificate) = (long(199), "x".repeat(65_536));
    [
        all_of(
            insert,
            DOMAINS_MAX,
            "organization_domains",
            "id, organization_id, domain, verification_challenge, jit_provisioning_enabled, \
             sso_enforcement, saml_entity_id, saml_acs_url, saml_x509_cert, created_at, updated_at",
            &format!(
                "UUID, HERE, 'd' || i || '.example', 'x', false, '', '{name}', '{name}', \
                 CASE WHEN i % 4 = 0 THEN '{certificate}' ELSE 'x' END, i, i"
            ),
        ),
        all_of(
            insert,
            PROXY_RECORDS_MAX,
            "proxy_records",
            "id, organization_id, domain, target_cname, status, message, created_at, updated_at, \
             check_at",
            &format!("UUID, HERE, 'd' || i, 't', 'waiting', '{name}', i, i, i"),
        ),
        all_of(
            insert,
            HISTORICAL_MIGRATIONS_MAX,
            "historical_migrations",
            "id, organization_id, team_id, source, method, total_events, events_per_minute, state, \
             events_imported, created_at",
            &format!(
                "UUID, HERE, (SELECT min(id) FROM projects), {name}, {name}, 1, 1, \
                 'requested', 0, i",
                name = some(&name)
            ),
        ),
    ]
}

/// Statements for runs, backfills and log lines of the export.
fn exports(insert: Insert<'_>) -> Vec<String> {
    let error = "x".repeat(ERROR_CHARS - 10);
    let export = "(SELECT id FROM batch_exports)";
    let run = "(SELECT id FROM batch_export_runs ORDER BY ordinal LIMIT 1)";
    vec![
        insert(
            2_000,
            "batch_export_logs",
            "batch_export_id, run_id, logged_at, level, message",
            &format!("{export}, {run}, i, 'ERROR', i || '{error}'"),
        ),
        insert(
            1_000,
            "batch_export_backfills",
            "id, batch_export_id, status, finished_runs, created_at, last_updated_at, message",
            &format!("UUID, {export}, 'Completed', 0, i, i, '{error}'"),
        ),
        insert(
            2_000,
            "batch_export_runs",
            "id, batch_export_id, ordinal, status, data_interval_end, latest_error, cursor, \
             created_at, last_updated_at",
            &format!("UUID, {export}, i + 1, 'Failed', i, i || '{error}', 'c', i, i"),
        ),
        "UPDATE batch_exports SET runs_count = 2001".to_owned(),
    ]
}

/// Statements that copy the resources that requests created.
fn copies(insert: Insert<'_>) -> Vec<String> {
    let export = "organization_id, team_id, name, model, destination_type, destination_config, \
                  destination_secrets, \"interval\", paused, hogql_query, query_schema, \
                  runs_count, created_at, last_updated_at";
    let plugin = "organization_id, plugin_type, name, description, icon, config_schema, tag, \
                  latest_tag, is_global, capabilities, metrics, public_jobs";
    let catalog = CatalogLimits::default();
    // All of them would be hundreds of megabytes in the lists of each family.
    let large = "CASE WHEN i % 7 = 0 THEN description ELSE 'Small' END";
    let some_large = plugin.replace("description", large);
    let of_one = |insert: String, table: &str, one: &str| format!("{insert}, {table} WHERE {one}");
    let largest = "description IS NOT NULL";
    let project = "uuid, organization_id, name, api_token_imported, anonymize_ips, timezone, \
                   created_at, updated_at";
    vec![
        of_one(
            insert(
                u32::try_from(catalog.batch_exports_max - 1).unwrap(),
                "batch_exports",
                &format!("id, {export}"),
                &format!("UUID, {export}"),
            ),
            "batch_exports",
            "runs_count > 0",
        ),
        "INSERT INTO batch_export_latest_runs (batch_export_id, runs) SELECT batch_exports.id, runs \
         FROM batch_exports, batch_export_latest_runs AS latest \
         WHERE batch_exports.id <> latest.batch_export_id"
            .to_owned(),
        of_one(
            insert(
                u32::try_from(catalog.plugins_max - 5).unwrap(),
                "plugins",
                &format!(
                    "{plugin}, is_destination, is_frontend_app, is_import_app, is_transformation, \
                     created_at, updated_at"
                ),
                &format!("{some_large}, true, i % 4 < 2, true, true, i, i"),
            ),
            "plugins",
            largest,
        ),
        "INSERT INTO plugin_configs (plugin_id, team_id, enabled, position, config, created_at, \
         updated_at) SELECT id, (SELECT min(id) FROM projects), true, 1, '{}', 1, 1 FROM plugins \
         WHERE id % 2 = 0"
            .to_owned(),
        all_of(
            insert,
            PROJECTS_MAX,
            "projects",
            project,
            &format!("UUID, HERE, i || '{}', false, false, 'UTC', i, i", long(195)),
        ),
    ]
}

/// Statements for other organizations of the owner.
fn organizations(insert: Insert<'_>, owner: i64) -> [String; 2] {
    let others = insert(
        u32::try_from(OWNED_ORGANIZATIONS_MAX).unwrap(),
        "organizations",
        "id, name, slug, created_at, updated_at, is_member_join_email_enabled, \
         members_can_write_pipelines, plugins_access_level, disabled_features",
        &format!(
            "UUID, i || '{}', 'o' || i, i, i, true, true, 9, '[]'",
            long(60)
        ),
    );
    let whose = format!("user_id = {owner} AND level = 15");
    [
        fill(
            &others,
            OWNED_ORGANIZATIONS_MAX,
            "organization_memberships",
            &whose,
        ),
        format!(
            "INSERT INTO organization_memberships (id, organization_id, user_id, level, joined_at, \
             updated_at) SELECT id, id, {owner}, 15, 1, 1 FROM organizations WHERE slug LIKE 'o%' \
             AND created_at <= {OWNED_ORGANIZATIONS_MAX}"
        ),
    ]
}
