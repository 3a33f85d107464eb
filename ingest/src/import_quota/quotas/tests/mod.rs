//! Leases of nodes, by one catalog, on both databases.

mod batches;
mod upgrade;

use super::{ImportQuotas, LeaseDecision, LeaseReport};
use millrace_catalog::testing::{TestDatabase, holding};
use millrace_catalog::{
    ActivityScope, Actor, Catalog, HistoricalMigration, MigrationState, NodeStarts, Nodes,
    ProjectId, features, on_both,
};
use millrace_organizations::testing::fixture::Fixture;
use millrace_organizations::testing::set_features;
use millrace_organizations::{
    HistoricalDecision, HistoricalGrant, HistoricalMigrations, Organizations, Projects,
};
use tokio::task::JoinSet;
use uuid::Uuid;

on_both!(
    the_default_quota_is_twenty_million_events_at_ten_thousand_a_minute,
    an_approval_is_used_up_to_the_last_event_and_finished,
    an_approval_replaces_the_default_quota,
    a_higher_rate_holds_at_once,
    several_nodes_at_once_get_exactly_the_volume,
    a_lease_whose_answer_was_lost_is_returned_by_the_next_report,
    a_crash_forfeits_one_lease_and_the_operator_can_approve_more,
    a_lease_that_expired_counts_late_and_returns_nothing,
    a_used_up_approval_stays_so_whatever_a_late_node_returns,
    the_rate_limit_starts_anew_only_when_no_other_node_runs,
    an_organization_without_the_feature_gets_nothing,
    projects_are_deleted_while_nodes_count,
);

const MINUTE_MICROS: i64 = 60_000_000;
/// Time after which a lease has expired.
const EXPIRED_AFTER_MICROS: i64 = 20_000_000;
/// Starts of nodes.
const A: Uuid = Uuid::from_u128(10);
const B: Uuid = Uuid::from_u128(11);

async fn granted(fixture: &Fixture, total: i64, per_minute: i64) -> HistoricalMigration {
    let operator = Actor::command_line();
    let grant = HistoricalGrant {
        project_id: fixture.project_id,
        total_events: total,
        events_per_minute: per_minute,
        note: None,
    };
    let granted = HistoricalMigrations::new(&fixture.catalog).grant(&operator, grant);
    granted.await.unwrap()
}

/// State of a migration, and the events that were imported.
async fn imported(fixture: &Fixture, id: Uuid) -> (MigrationState, i64) {
    let found = HistoricalMigrations::new(&fixture.catalog).get(fixture.organization_id, id);
    let found = found.await.unwrap().unwrap();
    (found.state, found.events_imported)
}

async fn renew(
    catalog: &Catalog,
    holder: Uuid,
    project_id: ProjectId,
    lease_report: LeaseReport,
) -> LeaseDecision {
    let decided = ImportQuotas::new(catalog).renew_lease(holder, project_id, lease_report);
    decided.await.unwrap().unwrap()
}

/// Report of a node whose events are in requests, or of one that needs some.
pub const fn lease_report(counted: i64, held: i64, needed: i64) -> LeaseReport {
    LeaseReport {
        counted,
        held,
        available: held,
        unused_micros: 0,
        needed,
        stock: 0,
    }
}

async fn the_default_quota_is_twenty_million_events_at_ten_thousand_a_minute(
    database: TestDatabase,
) {
    let fixture = Fixture::open(&database).await;
    let (catalog, project_id) = (&fixture.catalog, fixture.project_id);
    let first = renew(catalog, A, project_id, lease_report(0, 0, 10_000)).await;
    assert_eq!(
        (first.given, first.per_minute, first.in_bucket),
        (10_000, 10_000, 0)
    );
    assert_eq!(first.free, 19_990_000);
    let more = renew(catalog, A, project_id, lease_report(10_000, 0, 1)).await;
    assert_eq!(more.given, 0);
    fixture.pass_micros(MINUTE_MICROS);
    // All but one were imported before.
    let before = "UPDATE import_quotas SET events_leased = 19999999, events_imported = 19999999";
    database.execute(before).await.unwrap();
    let late = renew(catalog, A, project_id, lease_report(10_000, 0, 2)).await;
    assert_eq!((late.given, late.free), (0, 1));
    let last = renew(catalog, A, project_id, lease_report(10_000, 0, 1)).await;
    assert_eq!((last.given, last.free), (1, 0));
    let done = renew(catalog, B, project_id, lease_report(0, 0, 1)).await;
    assert_eq!((done.given, done.held_elsewhere), (0, 1));
}

async fn an_approval_is_used_up_to_the_last_event_and_finished(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let (catalog, project_id) = (&fixture.catalog, fixture.project_id);
    let made = granted(&fixture, 30, 1_000).await;
    let all = renew(catalog, A, project_id, lease_report(0, 0, 30)).await;
    assert_eq!(all.given, 30);
    renew(catalog, A, project_id, lease_report(29, 1, 0)).await;
    let seen = imported(&fixture, made.id).await;
    assert_eq!(seen, (MigrationState::Approved, 29));
    let end = renew(catalog, A, project_id, lease_report(30, 0, 1)).await;
    assert_eq!((end.given, end.free), (0, 0));
    let seen = imported(&fixture, made.id).await;
    assert_eq!(seen, (MigrationState::Finished, 30));
    let after = renew(catalog, A, project_id, lease_report(30, 0, 1)).await;
    assert_eq!(after.given, 0, "it has to ask for more");
    let entries = fixture.activity(ActivityScope::HistoricalMigration).await;
    assert_eq!(entries.len(), 2, "granted and finished: {entries:?}");
    let more = granted(&fixture, 5, 1_000).await;
    let given = renew(catalog, A, project_id, lease_report(30, 0, 5)).await;
    assert_eq!(given.given, 5);
    renew(catalog, A, project_id, lease_report(34, 1, 0)).await;
    assert_eq!(imported(&fixture, more.id).await.1, 4);
}

async fn an_approval_replaces_the_default_quota(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let (catalog, project_id) = (&fixture.catalog, fixture.project_id);
    renew(catalog, A, project_id, lease_report(0, 0, 100)).await;
    let made = granted(&fixture, 7, 3).await;
    let taken_back = renew(catalog, A, project_id, lease_report(40, 60, 4)).await;
    assert_eq!((taken_back.give_back, taken_back.given), (60, 0));
    let within = renew(catalog, A, project_id, lease_report(40, 0, 3)).await;
    assert_eq!((within.given, within.per_minute, within.free), (3, 3, 4));
    renew(catalog, A, project_id, lease_report(42, 1, 0)).await;
    assert_eq!(imported(&fixture, made.id).await.1, 2);
    // Given up: from now on the default quota holds, of which the rest is left.
    let finished =
        HistoricalMigrations::new(catalog).finish(&fixture.actor, fixture.organization_id, made.id);
    finished.await.unwrap();
    let ended = renew(catalog, A, project_id, lease_report(42, 1, 10)).await;
    assert_eq!((ended.give_back, ended.per_minute), (1, 10_000));
    assert_eq!(ended.free, 20_000_000 - 40 - 10);
}

async fn a_higher_rate_holds_at_once(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let (catalog, project_id) = (&fixture.catalog, fixture.project_id);
    granted(&fixture, 1_000_000, 100).await;
    let all = renew(catalog, A, project_id, lease_report(0, 0, 100)).await;
    assert_eq!(all.given, 100);
    let more = renew(catalog, A, project_id, lease_report(100, 0, 1)).await;
    assert_eq!(more.given, 0);
    granted(&fixture, 1_000_000, 5_000).await;
    let faster = renew(catalog, A, project_id, lease_report(100, 0, 4_000)).await;
    assert_eq!(
        (faster.given, faster.per_minute, faster.in_bucket),
        (4_000, 5_000, 900)
    );
}

async fn several_nodes_at_once_get_exactly_the_volume(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let made = granted(&fixture, 1_000, 1_000_000).await;
    let mut nodes = JoinSet::new();
    for node in 0..4 {
        // Each node with a catalog of its own, as in its own process.
        let catalog = Catalog::open(database.url()).await.unwrap();
        let holder = Uuid::from_u128(node);
        let project_id = fixture.project_id;
        nodes.spawn(async move {
            let (mut counted, mut turns) = (0, i64::try_from(node).unwrap());
            loop {
                let need = 1 + (counted + turns) % 13;
                let report = lease_report(counted, 0, need);
                let given = renew(&catalog, holder, project_id, report).await.given;
                counted += given;
                turns += 1;
                if given == 0 && need == 1 {
                    return counted;
                }
            }
        });
    }
    let counted: i64 = nodes.join_all().await.iter().sum();
    assert_eq!(counted, 1_000);
    let seen = imported(&fixture, made.id).await;
    assert_eq!(seen, (MigrationState::Finished, 1_000));
}

async fn a_lease_whose_answer_was_lost_is_returned_by_the_next_report(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let (catalog, project_id) = (&fixture.catalog, fixture.project_id);
    granted(&fixture, 100, 1_000).await;
    let lost = renew(catalog, A, project_id, lease_report(0, 0, 90)).await;
    assert_eq!(lost.given, 90);
    let again = renew(catalog, A, project_id, lease_report(0, 0, 80)).await;
    assert_eq!((again.given, again.free, again.in_bucket), (80, 20, 920));
    let too_many = renew(catalog, A, project_id, lease_report(0, 95, 0)).await;
    assert_eq!(too_many.give_back, 15, "more than anybody gave it");
}

async fn a_crash_forfeits_one_lease_and_the_operator_can_approve_more(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let (catalog, project_id) = (&fixture.catalog, fixture.project_id);
    let made = granted(&fixture, 100, 1_000).await;
    renew(catalog, A, project_id, lease_report(0, 0, 60)).await;
    renew(catalog, A, project_id, lease_report(25, 35, 0)).await;
    // The node is gone; others have the rest, and wait for what it holds until that has expired.
    let rest = renew(catalog, B, project_id, lease_report(0, 0, 40)).await;
    assert_eq!(rest.given, 40);
    let waits = renew(catalog, B, project_id, lease_report(40, 0, 1)).await;
    assert_eq!((waits.given, waits.held_elsewhere), (0, 35));
    let seen = imported(&fixture, made.id).await;
    assert_eq!(seen, (MigrationState::Approved, 65));
    fixture.pass_micros(EXPIRED_AFTER_MICROS);
    let refused = renew(catalog, B, project_id, lease_report(40, 0, 1)).await;
    assert_eq!((refused.given, refused.held_elsewhere), (0, 0));
    // What was acknowledged and not reported, and what was not used, is in no count.
    let seen = imported(&fixture, made.id).await;
    assert_eq!(seen, (MigrationState::Finished, 65));
    let more = granted(&fixture, 35, 1_000).await;
    let given = renew(catalog, B, project_id, lease_report(40, 0, 35)).await;
    assert_eq!((given.given, given.free), (35, 0));
    renew(catalog, B, project_id, lease_report(75, 0, 0)).await;
    let seen = imported(&fixture, more.id).await;
    assert_eq!(seen, (MigrationState::Finished, 35));
}

async fn a_lease_that_expired_counts_late_and_returns_nothing(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let (catalog, project_id) = (&fixture.catalog, fixture.project_id);
    let made = granted(&fixture, 100, 1_000).await;
    renew(catalog, A, project_id, lease_report(0, 0, 60)).await;
    fixture.pass_micros(EXPIRED_AFTER_MICROS);
    // It imported ten while the catalog was away, and has given up the rest.
    let late = renew(catalog, A, project_id, lease_report(10, 0, 0)).await;
    assert_eq!((late.given, late.free), (0, 40));
    let seen = imported(&fixture, made.id).await;
    assert_eq!(seen, (MigrationState::Approved, 10));
    // An approval of more volume brings back what is missing.
    let decision = HistoricalDecision {
        approve: true,
        total_events: Some(150),
        ..HistoricalDecision::default()
    };
    let operator = Actor::command_line();
    let decided = HistoricalMigrations::new(catalog).decide(&operator, None, made.id, decision);
    decided.await.unwrap();
    let again = renew(catalog, A, project_id, lease_report(10, 0, 90)).await;
    assert_eq!((again.given, again.free), (90, 0));
}

async fn a_used_up_approval_stays_so_whatever_a_late_node_returns(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let (catalog, project_id) = (&fixture.catalog, fixture.project_id);
    let made = granted(&fixture, 30, 1_000).await;
    renew(catalog, A, project_id, lease_report(0, 0, 30)).await;
    fixture.pass_micros(EXPIRED_AFTER_MICROS);
    renew(catalog, B, project_id, lease_report(0, 0, 1)).await;
    let seen = imported(&fixture, made.id).await;
    assert_eq!(seen, (MigrationState::Finished, 0));
    // Requests of the late node are under way, and then most of their events come back.
    let in_use = LeaseReport {
        available: 0,
        ..lease_report(0, 30, 0)
    };
    renew(catalog, A, project_id, in_use).await;
    let after = renew(catalog, A, project_id, lease_report(10, 0, 1)).await;
    assert_eq!((after.given, after.free), (0, 0));
    let seen = imported(&fixture, made.id).await;
    assert_eq!(seen, (MigrationState::Finished, 10));
}

async fn the_rate_limit_starts_anew_only_when_no_other_node_runs(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let (catalog, project_id) = (&fixture.catalog, fixture.project_id);
    let starts = NodeStarts::default();
    let registered = Nodes::new(catalog).register("b", "host", &starts);
    registered.await.unwrap();
    let all = renew(catalog, A, project_id, lease_report(0, 0, 10_000)).await;
    assert_eq!(all.given, 10_000);
    // The node is killed and starts again.
    ImportQuotas::new(catalog).start("a").await.unwrap();
    let refused = renew(catalog, B, project_id, lease_report(0, 0, 1)).await;
    assert_eq!((refused.given, refused.held_elsewhere), (0, 10_000));
    Nodes::new(catalog)
        .stop("b", &starts, fixture.now().into())
        .await
        .unwrap();
    ImportQuotas::new(catalog).start("a").await.unwrap();
    let anew = renew(catalog, B, project_id, lease_report(0, 0, 10_000)).await;
    assert_eq!((anew.given, anew.held_elsewhere), (10_000, 0));
    assert_eq!(anew.free, 19_980_000, "the volume never starts anew");
}

async fn an_organization_without_the_feature_gets_nothing(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let (catalog, project_id, id) = (
        &fixture.catalog,
        fixture.project_id,
        fixture.organization_id,
    );
    renew(catalog, A, project_id, lease_report(0, 0, 10)).await;
    let feature = [features::HISTORICAL_MIGRATIONS.key.to_owned()];
    let operator = Actor::command_line();
    let off = set_features(catalog, &operator, id, &[], &feature);
    off.await.unwrap();
    let refused = renew(catalog, A, project_id, lease_report(4, 6, 1)).await;
    assert_eq!(
        (refused.is_allowed, refused.given, refused.give_back),
        (false, 0, 6)
    );
    let on = set_features(catalog, &operator, id, &feature, &[]);
    on.await.unwrap();
    let back = renew(catalog, A, project_id, lease_report(4, 0, 1)).await;
    assert_eq!((back.is_allowed, back.given), (true, 1));
}

async fn projects_are_deleted_while_nodes_count(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    for _ in 0..8 {
        let system = Actor::system();
        let made = Organizations::new(&fixture.catalog).create(&system, "Short", None);
        let id = made.await.unwrap().id;
        let projects = Projects::new(&fixture.catalog)
            .list_all(Some(id))
            .await
            .unwrap();
        let project_id = ProjectId(projects[0].id);
        let mut changes = JoinSet::new();
        for holder in [A, B] {
            let catalog = fixture.catalog.clone();
            changes.spawn(async move {
                for turn in 0..5 {
                    // The project may be deleted by then.
                    let report = lease_report(turn, 0, 3);
                    let decided =
                        ImportQuotas::new(&catalog).renew_lease(holder, project_id, report);
                    decided.await.unwrap();
                }
            });
        }
        let (catalog, operator) = (fixture.catalog.clone(), Actor::command_line());
        changes.spawn(async move {
            let grant = HistoricalGrant {
                project_id,
                total_events: 2,
                events_per_minute: 9,
                note: None,
            };
            // The project may be deleted by then.
            let _ = HistoricalMigrations::new(&catalog)
                .grant(&operator, grant)
                .await;
            Organizations::new(&catalog)
                .delete(&operator, id)
                .await
                .unwrap();
        });
        changes.join_all().await;
        let report = lease_report(9, 0, 1);
        let gone = ImportQuotas::new(&fixture.catalog).renew_lease(A, project_id, report);
        assert_eq!(gone.await.unwrap(), None);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewal_gives_up_on_a_row_that_somebody_holds() {
    let database = TestDatabase::postgres().await;
    let fixture = Fixture::open(&database).await;
    let (catalog, project_id) = (&fixture.catalog, fixture.project_id);
    renew(catalog, A, project_id, lease_report(0, 0, 5)).await;
    let held = holding(&database, "SELECT 1 FROM import_quotas FOR UPDATE").await;
    let report = lease_report(0, 5, 0);
    let refused = ImportQuotas::new(catalog).renew_lease(A, project_id, report);
    let refused = refused.await;
    assert!(refused.is_err(), "{refused:?}");
    held.rollback().await.unwrap();
    let renewed = renew(catalog, A, project_id, report).await;
    assert_eq!((renewed.given, renewed.give_back), (0, 0));
}
