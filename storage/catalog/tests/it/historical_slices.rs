//! What nodes take in of imports, and what they are given, by one catalog.

use crate::fixture::Fixture;
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{
    ActivityScope, Actor, Catalog, HistoricalGrant, HistoricalMigration, LogPlace, MigrationState,
    NodeStarts, SliceDecision, SliceStand, TeamId, features,
};
use std::collections::BTreeMap;
use tokio::task::JoinSet;
use uuid::Uuid;

on_both!(
    anyone_may_import_twenty_million_events_ten_thousand_a_minute,
    an_approval_is_used_up_to_the_last_event_and_finished,
    what_an_approval_says_holds_in_place_of_what_anyone_may,
    a_higher_rate_holds_at_once,
    several_nodes_at_once_get_exactly_the_volume,
    an_answer_that_was_lost_is_given_back_by_saying_where_one_stands,
    a_node_that_crashed_gives_back_what_it_did_not_use_when_it_starts_again,
    the_minute_starts_anew_only_when_no_other_node_runs,
    in_a_copy_of_the_catalog_nothing_is_held_by_nodes_of_the_original,
    an_organization_without_the_feature_gets_nothing,
    projects_are_deleted_while_nodes_count,
);

const MINUTE_MICROS: i64 = 60_000_000;

fn grant(fixture: &Fixture, total_events: i64, events_per_minute: i64) -> HistoricalGrant {
    HistoricalGrant {
        team_id: fixture.team_id,
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

async fn say(catalog: &Catalog, node: &str, team_id: TeamId, stand: SliceStand) -> SliceDecision {
    let stands = BTreeMap::from([(team_id, stand)]);
    let said = catalog.exchange_historical_slices(node, LogPlace::default(), &stands);
    said.await.unwrap()[&team_id].unwrap()
}

const fn stand(counted: i64, held: i64, needed: i64) -> SliceStand {
    SliceStand {
        counted,
        held,
        needed,
        unused_micros: 0,
        needed_least: needed,
        stock: 0,
    }
}

async fn anyone_may_import_twenty_million_events_ten_thousand_a_minute(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let (catalog, team_id) = (&fixture.catalog, fixture.team_id);
    let first = say(catalog, "a", team_id, stand(0, 0, 10_000)).await;
    assert_eq!(
        (first.given, first.per_minute, first.in_bucket),
        (10_000, 10_000, 0)
    );
    assert_eq!(first.free, 19_990_000);
    let more = say(catalog, "a", team_id, stand(10_000, 0, 1)).await;
    assert_eq!(more.given, 0);
    fixture.pass_micros(MINUTE_MICROS);
    // As if all but one had been counted since: a log tells, too.
    let late = say(catalog, "a", team_id, stand(19_999_999, 0, 2)).await;
    assert_eq!((late.given, late.free), (0, 1));
    let last = say(catalog, "a", team_id, stand(19_999_999, 0, 1)).await;
    assert_eq!((last.given, last.free), (1, 0));
    let done = say(catalog, "b", team_id, stand(0, 0, 1)).await;
    assert_eq!((done.given, done.held_elsewhere), (0, 1));
}

async fn an_approval_is_used_up_to_the_last_event_and_finished(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let (catalog, team_id) = (&fixture.catalog, fixture.team_id);
    let made = granted(&fixture, 30, 1_000).await;
    assert_eq!(say(catalog, "a", team_id, stand(0, 0, 30)).await.given, 30);
    say(catalog, "a", team_id, stand(29, 1, 0)).await;
    let seen = migration(&fixture, made.id).await;
    assert_eq!(
        (seen.state, seen.events_imported),
        (MigrationState::Approved, 29)
    );
    let end = say(catalog, "a", team_id, stand(30, 0, 1)).await;
    assert_eq!((end.given, end.free), (0, 0));
    let seen = migration(&fixture, made.id).await;
    assert_eq!(
        (seen.state, seen.events_imported),
        (MigrationState::Finished, 30)
    );
    let after = say(catalog, "a", team_id, stand(30, 0, 1)).await;
    assert_eq!(after.given, 0, "it has to ask for more");
    let entries = fixture.activity(ActivityScope::HistoricalMigration).await;
    assert_eq!(entries.len(), 2, "granted and finished: {entries:?}");
    let more = granted(&fixture, 5, 1_000).await;
    assert_eq!(say(catalog, "a", team_id, stand(30, 0, 5)).await.given, 5);
    say(catalog, "a", team_id, stand(34, 1, 0)).await;
    assert_eq!(migration(&fixture, more.id).await.events_imported, 4);
}

async fn what_an_approval_says_holds_in_place_of_what_anyone_may(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let (catalog, team_id) = (&fixture.catalog, fixture.team_id);
    say(catalog, "a", team_id, stand(0, 0, 100)).await;
    let made = granted(&fixture, 7, 3).await;
    let taken_back = say(catalog, "a", team_id, stand(40, 60, 4)).await;
    assert_eq!((taken_back.give_back, taken_back.given), (60, 0));
    let within = say(catalog, "a", team_id, stand(40, 0, 3)).await;
    assert_eq!((within.given, within.per_minute, within.free), (3, 3, 4));
    say(catalog, "a", team_id, stand(42, 1, 0)).await;
    assert_eq!(migration(&fixture, made.id).await.events_imported, 2);
    // Given up: from now on it is as for everyone, who may have what is left of theirs.
    let finished =
        catalog.finish_historical_migration(&fixture.actor, fixture.organization_id, made.id);
    finished.await.unwrap();
    let ended = say(catalog, "a", team_id, stand(42, 1, 10)).await;
    assert_eq!((ended.give_back, ended.per_minute), (1, 10_000));
    assert_eq!(ended.free, 20_000_000 - 40 - 10);
}

async fn a_higher_rate_holds_at_once(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let (catalog, team_id) = (&fixture.catalog, fixture.team_id);
    granted(&fixture, 1_000_000, 100).await;
    assert_eq!(
        say(catalog, "a", team_id, stand(0, 0, 100)).await.given,
        100
    );
    assert_eq!(say(catalog, "a", team_id, stand(100, 0, 1)).await.given, 0);
    granted(&fixture, 1_000_000, 5_000).await;
    let faster = say(catalog, "a", team_id, stand(100, 0, 4_000)).await;
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
        // Each as a process of its own has it.
        let catalog = Catalog::open(database.url()).await.unwrap();
        let (name, team_id) = (format!("node {node}"), fixture.team_id);
        nodes.spawn(async move {
            let (mut counted, mut turns) = (0, 0);
            loop {
                let need = 1 + (counted + turns + node) % 13;
                let given = say(&catalog, &name, team_id, stand(counted, 0, need)).await;
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

async fn an_answer_that_was_lost_is_given_back_by_saying_where_one_stands(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let (catalog, team_id) = (&fixture.catalog, fixture.team_id);
    granted(&fixture, 100, 1_000).await;
    assert_eq!(say(catalog, "a", team_id, stand(0, 0, 90)).await.given, 90);
    // It never heard of the ninety.
    let again = say(catalog, "a", team_id, stand(0, 0, 80)).await;
    assert_eq!((again.given, again.free, again.in_bucket), (80, 20, 920));
    let too_many = say(catalog, "a", team_id, stand(0, 95, 0)).await;
    assert_eq!(too_many.give_back, 15, "more than anybody gave it");
}

async fn a_node_that_crashed_gives_back_what_it_did_not_use_when_it_starts_again(
    database: TestDatabase,
) {
    let fixture = Fixture::open(&database).await;
    let (catalog, team_id) = (&fixture.catalog, fixture.team_id);
    let made = granted(&fixture, 100, 1_000).await;
    let legacy = catalog.start_historical_node("a").await.unwrap();
    assert_eq!((legacy.counted_to, legacy.counted.len()), (None, 0));
    let place = LogPlace {
        segment: 3,
        offset: u64::from(u32::MAX) + 7,
    };
    let stands = BTreeMap::from([(team_id, stand(0, 0, 60))]);
    let given = catalog
        .exchange_historical_slices("a", place, &stands)
        .await;
    assert_eq!(given.unwrap()[&team_id].unwrap().given, 60);
    let stands = BTreeMap::from([(team_id, stand(25, 35, 0))]);
    catalog
        .exchange_historical_slices("a", place, &stands)
        .await
        .unwrap();
    // Gone; the others have the rest, and a wish for what it holds is not met.
    assert_eq!(say(catalog, "b", team_id, stand(0, 0, 40)).await.given, 40);
    fixture.pass_micros(MINUTE_MICROS);
    let refused = say(catalog, "b", team_id, stand(40, 0, 1)).await;
    assert_eq!((refused.given, refused.held_elsewhere), (0, 0));
    let legacy = catalog.start_historical_node("a").await.unwrap();
    assert_eq!(legacy.counted_to, Some(place));
    assert_eq!(legacy.counted, BTreeMap::from([(team_id, 25)]));
    // Its log has five more.
    say(catalog, "a", team_id, stand(30, 0, 0)).await;
    assert_eq!(migration(&fixture, made.id).await.events_imported, 70);
    let left = say(catalog, "b", team_id, stand(40, 0, 30)).await;
    assert_eq!((left.given, left.free), (30, 0));
}

async fn the_minute_starts_anew_only_when_no_other_node_runs(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let (catalog, team_id) = (&fixture.catalog, fixture.team_id);
    let starts = NodeStarts::default();
    let registered = catalog.register_ingest_node("b", "host", &starts);
    registered.await.unwrap();
    assert_eq!(
        say(catalog, "a", team_id, stand(0, 0, 10_000)).await.given,
        10_000
    );
    say(catalog, "a", team_id, stand(10_000, 0, 0)).await;
    catalog.start_historical_node("a").await.unwrap();
    assert_eq!(
        say(catalog, "a", team_id, stand(10_000, 0, 1)).await.given,
        0
    );
    catalog
        .stop_ingest_node("b", &starts, fixture.now().into())
        .await
        .unwrap();
    catalog.start_historical_node("a").await.unwrap();
    let anew = say(catalog, "a", team_id, stand(10_000, 0, 10_000)).await;
    assert_eq!(anew.given, 10_000);
    assert_eq!(anew.free, 19_980_000, "the volume never starts anew");
}

async fn in_a_copy_of_the_catalog_nothing_is_held_by_nodes_of_the_original(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let (catalog, team_id) = (&fixture.catalog, fixture.team_id);
    granted(&fixture, 100, 1_000).await;
    say(catalog, "a", team_id, stand(0, 0, 60)).await;
    say(catalog, "a", team_id, stand(10, 50, 0)).await;
    catalog.retire_ingest_nodes().await.unwrap();
    let left = say(catalog, "b", team_id, stand(0, 0, 90)).await;
    assert_eq!((left.given, left.free), (90, 0));
}

async fn an_organization_without_the_feature_gets_nothing(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let (catalog, team_id, id) = (&fixture.catalog, fixture.team_id, fixture.organization_id);
    say(catalog, "a", team_id, stand(0, 0, 10)).await;
    let feature = [features::HISTORICAL_MIGRATIONS.key.to_owned()];
    let operator = Actor::command_line();
    let off = catalog.set_organization_features(&operator, id, &[], &feature);
    off.await.unwrap();
    let refused = say(catalog, "a", team_id, stand(4, 6, 1)).await;
    assert_eq!(
        (refused.is_allowed, refused.given, refused.give_back),
        (false, 0, 6)
    );
    let on = catalog.set_organization_features(&operator, id, &feature, &[]);
    on.await.unwrap();
    let back = say(catalog, "a", team_id, stand(4, 0, 1)).await;
    assert_eq!((back.is_allowed, back.given), (true, 1));
}

async fn projects_are_deleted_while_nodes_count(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    for round in 0..8 {
        let system = Actor::system();
        let made = fixture.catalog.create_organization(&system, "Short", None);
        let id = made.await.unwrap().id;
        let projects = fixture.catalog.list_projects(Some(id)).await.unwrap();
        let team_id = TeamId(projects[0].id);
        let mut changes = JoinSet::new();
        for node in ["a", "b"] {
            let (catalog, other) = (fixture.catalog.clone(), fixture.team_id);
            changes.spawn(async move {
                for turn in 0..5 {
                    let stands = BTreeMap::from([
                        (other, stand(round * 5 + turn, 0, 3)),
                        (team_id, stand(turn, 0, 3)),
                    ]);
                    let said =
                        catalog.exchange_historical_slices(node, LogPlace::default(), &stands);
                    said.await.unwrap();
                }
            });
        }
        let (catalog, operator) = (fixture.catalog.clone(), Actor::command_line());
        changes.spawn(async move {
            let grant = HistoricalGrant {
                team_id,
                total_events: 2,
                events_per_minute: 9,
                note: None,
            };
            // Unless it is deleted by then.
            let _ = catalog.grant_historical_migration(&operator, grant).await;
            catalog.delete_organization(&operator, id).await.unwrap();
        });
        changes.join_all().await;
        let stands = BTreeMap::from([(team_id, stand(9, 0, 1))]);
        let gone = fixture
            .catalog
            .exchange_historical_slices("a", LogPlace::default(), &stands);
        assert_eq!(gone.await.unwrap()[&team_id], None);
    }
}
