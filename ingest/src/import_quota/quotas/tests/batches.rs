//! Import quota: leases of several projects that are renewed in one transaction.

use super::lease_report;
use crate::import_quota::quotas::{ImportQuotas, LeaseDecision, LeaseReport};
use millrace_catalog::testing::{DatabaseKind, TestDatabase, holding};
use millrace_catalog::{Actor, Catalog, MigrationState, ProjectId, on_both};
use millrace_organizations::testing::fixture::Fixture;
use millrace_organizations::{HistoricalGrant, HistoricalMigrations, Organizations, Projects};
use std::collections::BTreeMap;
use std::time::Duration;
use uuid::Uuid;

on_both!(
    several_projects_are_renewed_as_each_by_itself,
    a_further_project_takes_one_statement_more,
    answers_to_several_projects_that_were_lost_are_repeated,
    a_project_that_needs_more_than_its_own_rows_is_left_out,
    one_project_that_fails_leaves_the_others_as_they_were,
);

/// Start of a node.
const HOLDER: Uuid = Uuid::from_u128(10);
/// Time limit of a renewal that should not wait for a lock.
const TEST_TIMEOUT: Duration = Duration::from_secs(2);

type Decisions = BTreeMap<ProjectId, Option<LeaseDecision>>;

/// Creates projects, each in an organization of its own, that have imported before.
async fn importing(fixture: &Fixture, count: usize) -> Vec<ProjectId> {
    let (catalog, system) = (&fixture.catalog, Actor::system());
    let mut made = Vec::new();
    for _ in 0..count {
        let owner = Organizations::new(catalog).create(&system, "Importer", None);
        let owner = owner.await.unwrap();
        let projects = Projects::new(catalog).list_all(Some(owner.id)).await;
        let id = ProjectId(projects.unwrap()[0].id);
        alone(catalog, id, lease_report(0, 0, 0)).await;
        made.push(id);
    }
    made.sort_unstable();
    made
}

async fn alone(catalog: &Catalog, id: ProjectId, report: LeaseReport) -> Option<LeaseDecision> {
    let renewed = ImportQuotas::new(catalog).renew_lease(HOLDER, id, report);
    renewed.await.unwrap()
}

async fn together(catalog: &Catalog, reports: &BTreeMap<ProjectId, LeaseReport>) -> Decisions {
    let renewed = ImportQuotas::new(catalog).renew_leases(HOLDER, reports);
    renewed.await.unwrap()
}

async fn several_projects_are_renewed_as_each_by_itself(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let catalog = &fixture.catalog;
    let [first, second] = importing(&fixture, 2).await[..] else {
        panic!("two projects");
    };
    let deleted = ProjectId(1_000_000);
    let reports = [(first, 70), (second, 10_001), (deleted, 1)]
        .map(|(id, needed)| (id, lease_report(0, 0, needed)));
    let decisions = together(catalog, &reports.into()).await;
    let given = decisions
        .iter()
        .map(|(id, it)| (*id, it.map(|it| it.given)));
    let expected = [(first, Some(70)), (second, Some(0)), (deleted, None)];
    assert_eq!(given.collect::<Vec<_>>(), expected);
    // Used in part by the first one; the second one asks for less.
    let reports = [
        (first, lease_report(20, 50, 0)),
        (second, lease_report(0, 0, 8)),
    ];
    let decisions = together(catalog, &reports.into()).await;
    let free = decisions.values().map(|it| it.unwrap().free);
    assert_eq!(free.collect::<Vec<_>>(), [19_999_930, 19_999_992]);
    let counted = database
        .first_column("SELECT CAST(events_imported AS TEXT) FROM import_quotas ORDER BY team_id");
    assert_eq!(counted.await.unwrap(), ["20", "0"]);
    // By itself, each goes on from there, and returns what it holds.
    for (id, counted, free) in [(first, 30, 19_999_970), (second, 8, 19_999_992)] {
        let decision = alone(catalog, id, lease_report(counted, 0, 0)).await;
        assert_eq!(decision.unwrap().free, free, "{id}");
    }
    let held = database.first_column("SELECT CAST(events_held AS TEXT) FROM import_leases");
    assert!(held.await.unwrap().is_empty());
}

async fn a_further_project_takes_one_statement_more(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let projects = importing(&fixture, 9).await;
    let (catalog, sent) = fixture.catalog.counted();
    let mut counts = Vec::new();
    for (turn, some) in [&projects[..2], &projects[2..]].into_iter().enumerate() {
        let reports = some.iter().map(|id| (*id, lease_report(0, 0, 5))).collect();
        drop(sent.take());
        assert_eq!(together(&catalog, &reports).await.len(), some.len());
        let statements = sent.take();
        assert!(!statements.is_empty(), "turn {turn}");
        counts.push(statements.len());
    }
    assert_eq!(counts[1] - counts[0], 5, "{counts:?}");
}

async fn answers_to_several_projects_that_were_lost_are_repeated(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let reports = importing(&fixture, 3).await;
    let reports = reports.iter().map(|id| (*id, lease_report(0, 0, 90)));
    let reports = reports.collect();
    let lost = together(&fixture.catalog, &reports).await;
    let again = together(&fixture.catalog, &reports).await;
    assert_eq!(lost, again);
    // By itself, too, as a node does with those that a renewal of several left out.
    for (id, report) in reports {
        let again = alone(&fixture.catalog, id, report).await;
        assert_eq!(again.map(|it| (it.given, it.free)), Some((90, 19_999_910)));
    }
}

async fn a_project_that_needs_more_than_its_own_rows_is_left_out(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let catalog = &fixture.catalog;
    let projects = importing(&fixture, 2).await;
    let grant = HistoricalGrant {
        project_id: projects[0],
        total_events: 5,
        events_per_minute: 1_000,
        note: None,
    };
    let operator = Actor::command_line();
    let granted = HistoricalMigrations::new(catalog).grant(&operator, grant);
    granted.await.unwrap();
    let given = alone(catalog, projects[0], lease_report(0, 0, 5)).await;
    assert_eq!(given.unwrap().given, 5);
    // Its approval is used up, and another project imports for the first time.
    let reports = BTreeMap::from([
        (projects[0], lease_report(5, 0, 0)),
        (projects[1], lease_report(0, 0, 1)),
        (fixture.project_id, lease_report(0, 0, 1)),
    ]);
    let decisions = together(catalog, &reports).await;
    assert_eq!(decisions.keys().collect::<Vec<_>>(), [&projects[1]]);
    let state = async || {
        let migrations = HistoricalMigrations::new(catalog).list_all(None).await;
        let migration = migrations.unwrap().remove(0);
        (migration.state, migration.events_imported)
    };
    assert_eq!(state().await, (MigrationState::Approved, 0));
    for (id, report) in reports {
        assert!(alone(catalog, id, report).await.is_some(), "{id}");
    }
    assert_eq!(state().await, (MigrationState::Finished, 5));
}

async fn one_project_that_fails_leaves_the_others_as_they_were(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let projects = importing(&fixture, 3).await;
    refuse_changes(&database, projects[1]).await;
    let before = database.contents().await.unwrap();
    let reports = projects.iter().map(|id| (*id, lease_report(0, 0, 5)));
    let reports = reports.collect();
    let refused = ImportQuotas::new(&fixture.catalog).renew_leases(HOLDER, &reports);
    let refused = refused.await;
    assert!(refused.is_err(), "{refused:?}");
    assert_eq!(database.contents().await.unwrap(), before);
    // By itself, each of the others is answered.
    for (id, report) in reports {
        let renewed = ImportQuotas::new(&fixture.catalog).renew_lease(HOLDER, id, report);
        assert_eq!(renewed.await.is_ok(), id != projects[1], "{id}");
    }
}

/// Has the database refuse changes of a project's quota.
async fn refuse_changes(database: &TestDatabase, id: ProjectId) {
    let refuse = match database.kind() {
        DatabaseKind::Sqlite => format!(
            "CREATE TRIGGER refuse BEFORE UPDATE ON import_quotas WHEN NEW.team_id = {id} BEGIN \
             SELECT RAISE(ABORT, 'no'); END"
        ),
        DatabaseKind::Postgres => format!(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS \
             $$ BEGIN RAISE EXCEPTION 'no'; END $$; \
             CREATE TRIGGER refuse BEFORE UPDATE ON import_quotas FOR EACH ROW \
             WHEN (NEW.team_id = {id}) EXECUTE FUNCTION refuse()"
        ),
    };
    database.execute(&refuse).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_somebody_holds_hold_up_their_projects_alone() {
    let database = TestDatabase::of(DatabaseKind::Postgres).await;
    let fixture = Fixture::open(&database).await;
    let projects = importing(&fixture, 3).await;
    let reports = projects.iter().map(|id| (*id, lease_report(0, 0, 5)));
    let reports = reports.collect();
    let held = [
        format!(
            "SELECT 1 FROM import_quotas WHERE team_id = {} FOR UPDATE",
            projects[0]
        ),
        format!(
            "SELECT 1 FROM organizations WHERE id = \
             (SELECT organization_id FROM projects WHERE id = {}) FOR UPDATE",
            projects[0]
        ),
    ];
    for sql in held {
        let held = holding(&database, &sql).await;
        let renewed = together(&fixture.catalog, &reports);
        let renewed = tokio::time::timeout(TEST_TIMEOUT, renewed).await;
        let renewed = renewed.expect("it waits");
        assert_eq!(
            renewed.keys().collect::<Vec<_>>(),
            [&projects[1], &projects[2]]
        );
        held.rollback().await.unwrap();
        let renewed = together(&fixture.catalog, &reports).await;
        assert_eq!(renewed.len(), 3, "after {sql}");
    }
}
