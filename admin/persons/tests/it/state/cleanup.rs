//! Cleanup of deleted projects and organizations with persons, piece by piece.

use millrace_catalog::leases::PERSONS_LEASE;
use millrace_catalog::testing::{TestDatabase, random_uuid};
use millrace_catalog::{Catalog, Cleanup, ProjectId, ProjectKeys};
use millrace_organizations::testing::fixture::{ALL, Fixture};
use millrace_organizations::{ActivityFilter, ActivityLog, Organizations, Projects};
use millrace_persons::{ApplyOptions, PersonStore, PersonUpdate};
use std::time::Duration;
use uuid::Uuid;

millrace_catalog::on_both!(
    a_deleted_project_is_gone_at_once_and_its_persons_follow_in_pieces,
    large_properties_make_small_pieces,
    other_projects_go_on_while_one_is_deleted,
    a_deleted_organization_takes_its_projects_persons_and_its_log_along,
);
millrace_catalog::on_both!(empty: persons_from_before_the_upgrade_are_kept_and_can_be_deleted);

/// Rows that one transaction deletes at most.
const ROWS_MAX: u64 = 2_000;
const PERSONS: u64 = 12_000;
const TABLES: [&str; 3] = ["persons", "person_distinct_ids", "groups"];

/// Creates persons of a project, each with an id, a group, and a text of so many bytes.
async fn fill(database: &TestDatabase, project_id: ProjectId, count: u64, bytes: usize) {
    let id = random_uuid(database);
    let text = "x".repeat(bytes);
    let numbers = format!(
        "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {count})"
    );
    let rows = [
        format!(
            "INSERT INTO persons (team_id, id, created_at, is_identified, is_deleted, properties, \
             version) {numbers} SELECT {project_id}, {id}, 0, false, false, \
             '{{\"set\":{{\"k\":[0,\"00000000-0000-0000-0000-000000000000\",\"{text}\"]}}}}', 1 FROM numbers"
        ),
        format!(
            "INSERT INTO person_distinct_ids (team_id, distinct_id, person_id, version) {numbers} \
             SELECT {project_id}, 'd' || n, {id}, 1 FROM numbers"
        ),
        format!(
            "INSERT INTO groups (team_id, group_type, group_key, created_at, properties, version) \
             {numbers} SELECT {project_id}, 'company', 'g' || n, 0, '{{}}', 1 FROM numbers"
        ),
    ];
    for row in rows {
        database.execute(&row).await.unwrap();
    }
}

async fn count(database: &TestDatabase, table: &str, project_id: ProjectId) -> u64 {
    let sql = format!("SELECT CAST(COUNT(*) AS TEXT) FROM {table} WHERE team_id = {project_id}");
    let found = database.first_column(&sql).await.unwrap();
    found[0].parse().unwrap()
}

async fn rows_of(database: &TestDatabase, project_id: ProjectId) -> u64 {
    let mut rows = 0;
    for table in TABLES {
        rows += count(database, table, project_id).await;
    }
    rows
}

async fn delete_project(fixture: &Fixture) {
    let deleted = Projects::new(&fixture.catalog).delete(
        &fixture.actor,
        fixture.organization_id,
        fixture.project_id,
    );
    deleted.await.unwrap();
}

/// Deletes all leftovers; returns the rows of each piece.
async fn pieces(catalog: &Catalog) -> Vec<u64> {
    let mut pieces = Vec::new();
    loop {
        match Cleanup::new(catalog).delete_leftovers().await.unwrap() {
            0 => return pieces,
            rows => pieces.push(rows),
        }
    }
}

async fn a_deleted_project_is_gone_at_once_and_its_persons_follow_in_pieces(
    database: TestDatabase,
) {
    let fixture = Fixture::open(&database).await;
    let (project_id, foreign) = (fixture.project_id, fixture.foreign_project_id);
    let project = Projects::new(&fixture.catalog).list_all(Some(fixture.organization_id));
    let token = project.await.unwrap()[0].api_token.clone().unwrap();
    fill(&database, project_id, PERSONS, 10).await;
    fill(&database, foreign, 5, 10).await;
    assert_eq!(
        Cleanup::new(&fixture.catalog)
            .delete_leftovers()
            .await
            .unwrap(),
        0
    );
    delete_project(&fixture).await;
    // Nothing but the row and the mark was written.
    assert_eq!(rows_of(&database, project_id).await, 3 * PERSONS);
    let by_key = ProjectKeys::new(&fixture.catalog)
        .find(&token)
        .await
        .unwrap();
    assert!(by_key.is_none());
    let copied = PersonStore::new(&fixture.catalog)
        .changed_ids(0, None, 100)
        .await;
    let copied = copied.unwrap();
    assert!(copied.len() == 5 && copied.iter().all(|id| id.team_id == foreign.0));
    let groups = PersonStore::new(&fixture.catalog)
        .changed_groups(0, None, 100)
        .await
        .unwrap();
    assert_eq!(groups.len(), 5);
    // Each piece is a transaction: others see exactly that many rows less.
    let mut left = 3 * PERSONS;
    for _ in 0..4 {
        let deleted = Cleanup::new(&fixture.catalog)
            .delete_leftovers()
            .await
            .unwrap();
        assert!((1..=ROWS_MAX).contains(&deleted), "{deleted} rows");
        left -= deleted;
        assert_eq!(rows_of(&database, project_id).await, left);
    }
    // The next process goes on from the database alone.
    fixture.catalog.close().await.unwrap();
    let next = Catalog::open(database.url()).await.unwrap();
    let rest = pieces(&next).await;
    assert!(rest.iter().all(|rows| *rows <= ROWS_MAX), "{rest:?}");
    // The last one is the mark.
    assert_eq!(rest.iter().sum::<u64>(), left + 1);
    assert_eq!(rows_of(&database, project_id).await, 0);
    assert_eq!(rows_of(&database, foreign).await, 15);
}

async fn large_properties_make_small_pieces(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    fill(&database, fixture.project_id, 40, 600_000).await;
    delete_project(&fixture).await;
    let pieces = pieces(&fixture.catalog).await;
    // 8 MiB and one row of persons at a time; ids and groups are small.
    assert_eq!(pieces, [14, 14, 12, 40, 40, 1]);
}

async fn other_projects_go_on_while_one_is_deleted(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let catalog = &fixture.catalog;
    fill(&database, fixture.project_id, PERSONS, 10).await;
    delete_project(&fixture).await;
    let others = async {
        let holder = Uuid::from_u128(7);
        for number in 1..=30 {
            let from = PersonStore::new(catalog).progress().await.unwrap();
            let update = PersonUpdate {
                distinct_id: format!("d{number}"),
                ..super::update(fixture.foreign_project_id, number)
            };
            let updates = [update];
            let options = ApplyOptions::default();
            let applied = PersonStore::new(catalog).apply(&from, &updates, options);
            assert_eq!(applied.await.unwrap().unwrap().stats.applied, 1);
            let lasts = Duration::from_secs(5);
            let held = catalog.hold_lease(PERSONS_LEASE, holder, lasts).await;
            assert!(held.unwrap());
        }
    };
    let (pieces, ()) = tokio::join!(pieces(catalog), others);
    assert_eq!(pieces.iter().sum::<u64>(), 3 * PERSONS + 1);
    let foreign = fixture.foreign_project_id;
    assert_eq!(count(&database, "persons", foreign).await, 30);
}

async fn a_deleted_organization_takes_its_projects_persons_and_its_log_along(
    database: TestDatabase,
) {
    let fixture = Fixture::open(&database).await;
    let (catalog, id) = (&fixture.catalog, fixture.organization_id);
    fill(&database, fixture.project_id, 100, 10).await;
    fill(&database, fixture.foreign_project_id, 1, 10).await;
    Organizations::new(catalog)
        .delete(&fixture.actor, id)
        .await
        .unwrap();
    let filter = |organization_id| ActivityFilter {
        organization_id,
        scopes: Vec::new(),
        item_id: None,
    };
    pieces(catalog).await;
    assert_eq!(rows_of(&database, fixture.project_id).await, 0);
    assert_eq!(rows_of(&database, fixture.foreign_project_id).await, 3);
    let log = ActivityLog::new(catalog)
        .list(&filter(id), ALL)
        .await
        .unwrap();
    assert_eq!((log.count, log.rows.len()), (0, 0));
    let foreign = filter(fixture.foreign_id);
    let foreign = ActivityLog::new(catalog).list(&foreign, ALL).await.unwrap();
    assert!(foreign.count > 0 && foreign.rows.len() as u64 == foreign.count);
    // An entry of no organization stays: that one was deleted, for the operator.
    let deletion = "SELECT activity FROM activity_log WHERE organization_id IS NULL";
    let deletions = database.first_column(deletion).await.unwrap();
    assert!(deletions.contains(&"deleted".to_owned()), "{deletions:?}");
}

async fn persons_from_before_the_upgrade_are_kept_and_can_be_deleted(database: TestDatabase) {
    let old = database.open_before("m0038_deletions").await.unwrap();
    old.close().await.unwrap();
    let organization = database.uuid_literal(Uuid::from_u128(1));
    for row in [
        format!(
            "INSERT INTO organizations (id, name, slug, created_at, updated_at, \
             is_member_join_email_enabled, members_can_write_pipelines, plugins_access_level, \
             disabled_features) VALUES ({organization}, 'Acme', 'acme', 1, 1, false, true, 9, '[]')"
        ),
        format!(
            "INSERT INTO projects (uuid, organization_id, name, api_token_imported, anonymize_ips, \
             timezone, created_at, updated_at) \
             VALUES ({organization}, {organization}, 'P', false, false, 'UTC', 1, 1)"
        ),
    ] {
        database.execute(&row).await.unwrap();
    }
    fill(&database, ProjectId(1), 10, 10).await;
    let of_persons = async || {
        let mut rows = database.contents().await.unwrap();
        rows.retain(|row| {
            TABLES
                .iter()
                .any(|table| row.starts_with(&format!("{table} ")))
        });
        rows
    };
    let before = of_persons().await;
    assert_eq!(before.len(), 30);
    let catalog = Catalog::open(database.url()).await.unwrap();
    assert_eq!(of_persons().await, before);
    // Triggers mark rows that hand-written SQL deletes, too.
    let delete = "DELETE FROM organizations";
    database.execute(delete).await.unwrap();
    assert_eq!(of_persons().await, before);
    pieces(&catalog).await;
    assert!(of_persons().await.is_empty());
}
