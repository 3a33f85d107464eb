//! Import quota: leases of nodes, by one catalog.

use crate::fixture::Fixture;
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{
    ActivityScope, Actor, Catalog, HistoricalGrant, HistoricalMigration, LeaseDecision,
    LeaseReport, LogPlace, MigrationState, NodeStarts, ProjectId, features,
};
use std::collections::BTreeMap;
use tokio::task::JoinSet;
use uuid::Uuid;

on_both!(
    the_default_quota_is_twenty_million_events_at_ten_thousand_a_minute,
    an_approval_is_used_up_to_the_last_event_and_finished,
    an_approval_replaces_the_default_quota,
    a_higher_rate_holds_at_once,
    several_nodes_at_once_get_exactly_the_volume,
    a_lease_whose_answer_was_lost_is_returned_by_the_next_report,
    a_node_that_crashed_gives_back_what_it_did_not_use_when_it_starts_again,
    the_rate_limit_starts_anew_only_when_no_other_node_runs,
    a_copied_catalog_has_no_leases_of_the_originals_nodes,
    an_organization_without_the_feature_gets_nothing,
    projects_are_deleted_while_nodes_count,
);

const MINUTE_MICROS: i64 = 60_000_000;

fn grant(fixture: &Fixture, total_events: i64, events_per_minute: i64) -> HistoricalGrant {
    HistoricalGrant {
        project_id: fixture.project_id,
        total_events,
        events_per_minute,
        note: None,
    }
}

async fn granted(fixture: &Fixture, total: i64, per_minute: i64) -> HistoricalMigration {
    let operator = Actor::command_line();
    let grant = grant(fixture, total, per_minute);
    let granted = fixture.catalog.grant_historical_migration(&operator, grant);
    granted.await.unwrap()
}

async fn migration(fixture: &Fixture, id: Uuid) -> HistoricalMigration {
    let found = fixture
        .catalog
        .historical_migration(fixture.organization_id, id);
    found.await.unwrap().unwrap()
}

async fn exchange(
    catalog: &Catalog,
    node: &str,
    project_id: ProjectId,
    lease_report: LeaseReport,
) -> LeaseDecision {
    let lease_reports = BTreeMap::from([(project_id, lease_report)]);
    let decided = catalog.exchange_quota_leases(node, LogPlace::default(), &lease_reports);
    decided.await.unwrap()[&project_id].unwrap()
}

const fn lease_report(counted: i64, held: i64, needed: i64) -> LeaseReport {
    LeaseReport {
        counted,
        held,
        needed,
        unused_micros: 0,
        needed_least: needed,
        stock: 0,
    }
}

async fn the_default_quota_is_twenty_million_events_at_ten_thousand_a_minute(
    database: TestDatabase,
) {
    let fixture = Fixture::open(&database).await;
    let (catalog, project_id) = (&fixture.catalog, fixture.project_id);
    let first = exchange(catalog, "a", project_id, lease_report(0, 0, 10_000)).await;
    assert_eq!(
        (first.given, first.per_minute, first.in_bucket),
        (10_000, 10_000, 0)
    );
    assert_eq!(first.free, 19_990_000);
    let more = exchange(catalog, "a", project_id, lease_report(10_000, 0, 1)).await;
    assert_eq!(more.given, 0);
    fixture.pass_micros(MINUTE_MICROS);
    // As if all but one had been counted since: the node reports the events of its log, too.
    let late = exchange(catalog, "a", project_id, lease_report(19_999_999, 0, 2)).await;
    assert_eq!((late.given, late.free), (0, 1));
    let last = exchange(catalog, "a", project_id, lease_report(19_999_999, 0, 1)).await;
    assert_eq!((last.given, last.free), (1, 0));
    let done = exchange(catalog, "b", project_id, lease_report(0, 0, 1)).await;
    assert_eq!((done.given, done.held_elsewhere), (0, 1));
}

async fn an_approval_is_used_up_to_the_last_event_and_finished(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let (catalog, project_id) = (&fixture.catalog, fixture.project_id);
    let made = granted(&fixture, 30, 1_000).await;
    assert_eq!(
        exchange(catalog, "a", project_id, lease_report(0, 0, 30))
            .await
            .given,
        30
    );
    exchange(catalog, "a", project_id, lease_report(29, 1, 0)).await;
    let seen = migration(&fixture, made.id).await;
    assert_eq!(
        (seen.state, seen.events_imported),
        (MigrationState::Approved, 29)
    );
    let end = exchange(catalog, "a", project_id, lease_report(30, 0, 1)).await;
    assert_eq!((end.given, end.free), (0, 0));
    let seen = migration(&fixture, made.id).await;
    assert_eq!(
        (seen.state, seen.events_imported),
        (MigrationState::Finished, 30)
    );
    let after = exchange(catalog, "a", project_id, lease_report(30, 0, 1)).await;
    assert_eq!(after.given, 0, "it has to ask for more");
    let entries = fixture.activity(ActivityScope::HistoricalMigration).await;
    assert_eq!(entries.len(), 2, "granted and finished: {entries:?}");
    let more = granted(&fixture, 5, 1_000).await;
    assert_eq!(
        exchange(catalog, "a", project_id, lease_report(30, 0, 5))
            .await
            .given,
        5
    );
    exchange(catalog, "a", project_id, lease_report(34, 1, 0)).await;
    assert_eq!(migration(&fixture, more.id).await.events_imported, 4);
}

async fn an_approval_replaces_the_default_quota(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let (catalog, project_id) = (&fixture.catalog, fixture.project_id);
    exchange(catalog, "a", project_id, lease_report(0, 0, 100)).await;
    let made = granted(&fixture, 7, 3).await;
    let taken_back = exchange(catalog, "a", project_id, lease_report(40, 60, 4)).await;
    assert_eq!((taken_back.give_back, taken_back.given), (60, 0));
    let within = exchange(catalog, "a", project_id, lease_report(40, 0, 3)).await;
    assert_eq!((within.given, within.per_minute, within.free), (3, 3, 4));
    exchange(catalog, "a", project_id, lease_report(42, 1, 0)).await;
    assert_eq!(migration(&fixture, made.id).await.events_imported, 2);
    // Given up: from now on the default quota holds, of which the rest is left.
    let finished =
        catalog.finish_historical_migration(&fixture.actor, fixture.organization_id, made.id);
    finished.await.unwrap();
    let ended = exchange(catalog, "a", project_id, lease_report(42, 1, 10)).await;
    assert_eq!((ended.give_back, ended.per_minute), (1, 10_000));
    assert_eq!(ended.free, 20_000_000 - 40 - 10);
}

async fn a_higher_rate_holds_at_once(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let (catalog, project_id) = (&fixture.catalog, fixture.project_id);
    granted(&fixture, 1_000_000, 100).await;
    assert_eq!(
        exchange(catalog, "a", project_id, lease_report(0, 0, 100))
            .await
            .given,
        100
    );
    assert_eq!(
        exchange(catalog, "a", project_id, lease_report(100, 0, 1))
            .await
            .given,
        0
    );
    granted(&fixture, 1_000_000, 5_000).await;
    let faster = exchange(catalog, "a", project_id, lease_report(100, 0, 4_000)).await;
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
        let (name, project_id) = (format!("node {node}"), fixture.project_id);
        nodes.spawn(async move {
            let (mut counted, mut turns) = (0, 0);
            loop {
                let need = 1 + (counted + turns + node) % 13;
                let given =
                    exchange(&catalog, &name, project_id, lease_report(counted, 0, need)).await;
                counted += given.given;
                turns += 1;
                if given.given == 0 && need == 1 {
                    return counted;
                }
            }
        });
    }
    let counted: i64 = nodes.join_all().await.iter().sum();
    assert_eq!(counted, 1_000);
    let seen = migration(&fixture, made.id).await;
    assert_eq!(
        (seen.state, seen.events_imported),
        (MigrationState::Finished, 1_000)
    );
}

async fn a_lease_whose_answer_was_lost_is_returned_by_the_next_report(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let (catalog, project_id) = (&fixture.catalog, fixture.project_id);
    granted(&fixture, 100, 1_000).await;
    assert_eq!(
        exchange(catalog, "a", project_id, lease_report(0, 0, 90))
            .await
            .given,
        90
    );
    // The node never got the ninety.
    let again = exchange(catalog, "a", project_id, lease_report(0, 0, 80)).await;
    assert_eq!((again.given, again.free, again.in_bucket), (80, 20, 920));
    let too_many = exchange(catalog, "a", project_id, lease_report(0, 95, 0)).await;
    assert_eq!(too_many.give_back, 15, "more than anybody gave it");
}

async fn a_node_that_crashed_gives_back_what_it_did_not_use_when_it_starts_again(
    database: TestDatabase,
) {
    let fixture = Fixture::open(&database).await;
    let (catalog, project_id) = (&fixture.catalog, fixture.project_id);
    let made = granted(&fixture, 100, 1_000).await;
    let legacy = catalog.start_historical_node("a").await.unwrap();
    assert_eq!((legacy.counted_to, legacy.counted.len()), (None, 0));
    let place = LogPlace {
        segment: 3,
        offset: u64::from(u32::MAX) + 7,
    };
    let lease_reports = BTreeMap::from([(project_id, lease_report(0, 0, 60))]);
    let given = catalog
        .exchange_quota_leases("a", place, &lease_reports)
        .await;
    assert_eq!(given.unwrap()[&project_id].unwrap().given, 60);
    let lease_reports = BTreeMap::from([(project_id, lease_report(25, 35, 0))]);
    catalog
        .exchange_quota_leases("a", place, &lease_reports)
        .await
        .unwrap();
    // The node is gone; the others have the rest, and a request for what it holds is not met.
    assert_eq!(
        exchange(catalog, "b", project_id, lease_report(0, 0, 40))
            .await
            .given,
        40
    );
    fixture.pass_micros(MINUTE_MICROS);
    let refused = exchange(catalog, "b", project_id, lease_report(40, 0, 1)).await;
    assert_eq!((refused.given, refused.held_elsewhere), (0, 0));
    let legacy = catalog.start_historical_node("a").await.unwrap();
    assert_eq!(legacy.counted_to, Some(place));
    assert_eq!(legacy.counted, BTreeMap::from([(project_id, 25)]));
    // The node's log has five more events.
    exchange(catalog, "a", project_id, lease_report(30, 0, 0)).await;
    assert_eq!(migration(&fixture, made.id).await.events_imported, 70);
    let left = exchange(catalog, "b", project_id, lease_report(40, 0, 30)).await;
    assert_eq!((left.given, left.free), (30, 0));
}

async fn the_rate_limit_starts_anew_only_when_no_other_node_runs(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let (catalog, project_id) = (&fixture.catalog, fixture.project_id);
    let starts = NodeStarts::default();
    let registered = catalog.register_ingest_node("b", "host", &starts);
    registered.await.unwrap();
    assert_eq!(
        exchange(catalog, "a", project_id, lease_report(0, 0, 10_000))
            .await
            .given,
        10_000
    );
    exchange(catalog, "a", project_id, lease_report(10_000, 0, 0)).await;
    catalog.start_historical_node("a").await.unwrap();
    assert_eq!(
        exchange(catalog, "a", project_id, lease_report(10_000, 0, 1))
            .await
            .given,
        0
    );
    catalog
        .stop_ingest_node("b", &starts, fixture.now().into())
        .await
        .unwrap();
    catalog.start_historical_node("a").await.unwrap();
    let anew = exchange(catalog, "a", project_id, lease_report(10_000, 0, 10_000)).await;
    assert_eq!(anew.given, 10_000);
    assert_eq!(anew.free, 19_980_000, "the volume never starts anew");
}

async fn a_copied_catalog_has_no_leases_of_the_originals_nodes(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let (catalog, project_id) = (&fixture.catalog, fixture.project_id);
    granted(&fixture, 100, 1_000).await;
    exchange(catalog, "a", project_id, lease_report(0, 0, 60)).await;
    exchange(catalog, "a", project_id, lease_report(10, 50, 0)).await;
    catalog.deregister_ingest_nodes().await.unwrap();
    let left = exchange(catalog, "b", project_id, lease_report(0, 0, 90)).await;
    assert_eq!((left.given, left.free), (90, 0));
}

async fn an_organization_without_the_feature_gets_nothing(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let (catalog, project_id, id) = (
        &fixture.catalog,
        fixture.project_id,
        fixture.organization_id,
    );
    exchange(catalog, "a", project_id, lease_report(0, 0, 10)).await;
    let feature = [features::HISTORICAL_MIGRATIONS.key.to_owned()];
    let operator = Actor::command_line();
    let off = catalog.set_organization_features(&operator, id, &[], &feature);
    off.await.unwrap();
    let refused = exchange(catalog, "a", project_id, lease_report(4, 6, 1)).await;
    assert_eq!(
        (refused.is_allowed, refused.given, refused.give_back),
        (false, 0, 6)
    );
    let on = catalog.set_organization_features(&operator, id, &feature, &[]);
    on.await.unwrap();
    let back = exchange(catalog, "a", project_id, lease_report(4, 0, 1)).await;
    assert_eq!((back.is_allowed, back.given), (true, 1));
}

async fn projects_are_deleted_while_nodes_count(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    for round in 0..8 {
        let system = Actor::system();
        let made = fixture.catalog.create_organization(&system, "Short", None);
        let id = made.await.unwrap().id;
        let projects = fixture.catalog.list_projects(Some(id)).await.unwrap();
        let project_id = ProjectId(projects[0].id);
        let mut changes = JoinSet::new();
        for node in ["a", "b"] {
            let (catalog, other) = (fixture.catalog.clone(), fixture.project_id);
            changes.spawn(async move {
                for turn in 0..5 {
                    let lease_reports = BTreeMap::from([
                        (other, lease_report(round * 5 + turn, 0, 3)),
                        (project_id, lease_report(turn, 0, 3)),
                    ]);
                    let decided =
                        catalog.exchange_quota_leases(node, LogPlace::default(), &lease_reports);
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
            let _ = catalog.grant_historical_migration(&operator, grant).await;
            catalog.delete_organization(&operator, id).await.unwrap();
        });
        changes.join_all().await;
        let lease_reports = BTreeMap::from([(project_id, lease_report(9, 0, 1))]);
        let gone = fixture
            .catalog
            .exchange_quota_leases("a", LogPlace::default(), &lease_reports);
        assert_eq!(gone.await.unwrap()[&project_id], None);
    }
}
