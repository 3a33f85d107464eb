//! Upgrade of quotas from before the leases.
//!
//! The rows are inserted by SQL as that version wrote them: they must never be edited.

use super::super::{ImportQuotas, LeaseReport};
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{Catalog, MigrationState, ProjectId, on_both};
use millrace_organizations::HistoricalMigrations;
use uuid::{Uuid, uuid};

on_both!(empty: imports_of_before_count_and_what_nodes_held_of_their_quota_is_forfeited);

const ACME: Uuid = uuid!("0190f5fe-4e1a-7c3f-8a1b-2c3d4e5f6071");
const PROJECT: Uuid = uuid!("0190f5fe-4e1a-7c3f-8a1b-2c3d4e5f6076");
const KEYLESS: Uuid = uuid!("0190f5fe-4e1a-7c3f-8a1b-2c3d4e5f6077");

/// Organization with two projects.
fn rows(acme: &str, project: &str, keyless: &str) -> [String; 2] {
    [
        format!(
            "INSERT INTO organizations (id, name, slug, created_at, updated_at, \
             is_member_join_email_enabled, enforce_2fa, members_can_write_pipelines, \
             plugins_access_level, customer_id, disabled_features, member_count) VALUES \
             ({acme}, 'Acme', 'acme', 1000, 2000, false, true, true, 9, 'c1', '[\"saml\"]', 2)"
        ),
        format!(
            "INSERT INTO projects (uuid, organization_id, name, api_token, api_token_imported, \
             anonymize_ips, timezone, created_at, updated_at) VALUES \
             ({project}, {acme}, 'Default project', NULL, false, true, 'Europe/Berlin', 1000, \
             1000), ({keyless}, {acme}, 'Keyless', NULL, false, false, 'UTC', 1001, 1001)"
        ),
    ]
}

async fn imports_of_before_count_and_what_nodes_held_of_their_quota_is_forfeited(
    database: TestDatabase,
) {
    let old = database.open_before("m0050_import_leases").await.unwrap();
    old.close().await.unwrap();
    let id = |id: Uuid| database.uuid_literal(id);
    let (approval, nil) = (id(Uuid::from_u128(1)), id(Uuid::nil()));
    let (finished, acme_id) = (id(Uuid::from_u128(2)), id(ACME));
    let [acme, projects] = rows(&acme_id, &id(PROJECT), &id(KEYLESS));
    let approved = format!(
        "INSERT INTO historical_migrations (id, organization_id, team_id, source, method, \
         total_events, events_per_minute, state, events_imported, created_at) VALUES \
         ({approval}, {acme_id}, 1, 's', 'm', 100, 1000, 'approved', 30, 5), \
         ({finished}, {acme_id}, 2, 's', 'm', 100, 1000, 'finished', 60, 6)"
    );
    let quotas = "INSERT INTO historical_allowances (team_id, events_unasked, bucket_units, \
        bucket_per_minute, bucket_at, wanted_by, wanted_at) VALUES (1, 9, 0, 0, 0, NULL, 0), \
        (2, 8, 0, 0, 0, 'a', 5)";
    let held = format!(
        "INSERT INTO historical_slices (node, team_id, grant_id, events_counted, events_held) \
         VALUES ('a', 1, {approval}, 30, 40), ('b', 1, {approval}, 0, 10), \
         ('a', 2, {nil}, 8, 3), ('a', 2, {finished}, 60, 40)"
    );
    let node = "INSERT INTO historical_nodes (node, segment, \"offset\", seen_at) \
        VALUES ('a', 3, 5, 7)";
    for row in [&*acme, &*projects, &*approved, quotas, &*held, node] {
        database.execute(row).await.unwrap();
    }
    let catalog = Catalog::open(database.url()).await.unwrap();
    let migrations = HistoricalMigrations::new(&catalog)
        .list_all(None)
        .await
        .unwrap();
    assert_eq!(migrations[0].state, MigrationState::Approved);
    let counts = migrations
        .iter()
        .map(|it| (it.events_imported, it.events_leased));
    assert_eq!(counts.collect::<Vec<_>>(), [(30, 80), (60, 60)]);
    let holder = Uuid::from_u128(3);
    for (project, left) in [(1, 20), (2, 20_000_000 - 8 - 3)] {
        let renewed = ImportQuotas::new(&catalog).renew_lease(
            holder,
            ProjectId(project),
            LeaseReport::default(),
        );
        let decision = renewed.await.unwrap().unwrap();
        assert_eq!(decision.free, left, "project {project}");
    }
}
