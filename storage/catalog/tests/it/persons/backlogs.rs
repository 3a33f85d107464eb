//! Projects with a place of their own: how far they are, and when they join the others.

use super::limits::{apply, told};
use crate::fixture::{Fixture, NOW};
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{ApplyOptions, UtcTime};
use millrace_rows::Micros;

on_both!(
    projects_with_a_backlog_are_as_far_as_they_say,
    a_project_with_a_backlog_never_goes_back_nor_joins_those_behind_it,
);

async fn projects_with_a_backlog_are_as_far_as_they_say(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let (team, other, catalog) = (fixture.team_id, fixture.foreign_team_id, &fixture.catalog);
    let from = catalog.person_progress().await.unwrap();
    catalog
        .note_persons_passed(&from, Micros(NOW.0 - 1).into())
        .await
        .unwrap();
    assert_eq!(catalog.defer_persons(&from, &[team]).await.unwrap(), 1);
    assert_eq!(
        catalog.defer_persons(&from, &[other]).await.unwrap(),
        0,
        "that is not where it is"
    );
    let (late, end) = (
        told(team, 1, 0, "a"),
        told(other, 2, 1, "a").place.created_at,
    );
    let applied = apply(catalog, &[told(other, 2, 1, "a"), late.clone()], 9).await;
    assert_eq!(applied.progress.place.created_at, end);
    let version = applied.progress.version;
    assert!(version >= end.0);
    let watermarks = async || {
        let own = catalog.persons_watermark_of(team).await.unwrap().unwrap();
        let others = catalog.persons_watermark_of(other).await.unwrap().unwrap();
        let all = catalog.persons_watermark().await.unwrap().unwrap();
        assert_eq!(all, own.min(others));
        (own.0, others.0)
    };
    assert_eq!(watermarks().await, (NOW.0 - 1, NOW.0 - 1));
    // Whoever is late may neither pass nor join.
    catalog
        .note_persons_passed(&from, end.into())
        .await
        .unwrap();
    catalog
        .rejoin_persons(&from, &[team], end.into(), true)
        .await
        .unwrap();
    assert_eq!(watermarks().await, (NOW.0 - 1, NOW.0 - 1));
    catalog.note_persons_copied(version).await.unwrap();
    catalog
        .note_persons_passed(&applied.progress, end.into())
        .await
        .unwrap();
    let own = late.place.created_at.0.max(NOW.0 - 1);
    assert_eq!(watermarks().await, (own, end.0));
    let teams = [team];
    let joining = catalog.rejoin_persons(&applied.progress, &teams, end.into(), true);
    joining.await.unwrap();
    assert_eq!(watermarks().await, (end.0, end.0));
    // A step of what arrived long ago has no lower number than what exports have passed.
    let from = catalog.person_progress().await.unwrap();
    assert_eq!(catalog.defer_persons(&from, &[team]).await.unwrap(), 1);
    let from = catalog.person_progress().await.unwrap();
    let options = ApplyOptions {
        before: Some(Micros(end.0 + 500).into()),
        ..ApplyOptions::default()
    };
    let late = told(team, 5, 0, "b");
    let applied = catalog.apply_person_updates(&from, &[late], options).await;
    assert_eq!(applied.unwrap().unwrap().progress.version, end.0 + 500);
    assert!(catalog.bytes().await.unwrap() > 4_096);
}

async fn a_project_with_a_backlog_never_goes_back_nor_joins_those_behind_it(
    database: TestDatabase,
) {
    let fixture = Fixture::open(&database).await;
    let (teams, catalog) = ([fixture.team_id], &fixture.catalog);
    let at = |micros: i64| UtcTime(NOW.0 + micros);
    let from = catalog.person_progress().await.unwrap();
    assert_eq!(catalog.defer_persons(&from, &teams).await.unwrap(), 1);
    let from = catalog.person_progress().await.unwrap();
    // As far as that, whether the others are there, and how far the project is then: None if it has no
    // backlog any more.
    let steps = [
        (20, false, Some(20)),
        (10, false, Some(20)),
        (10, true, Some(20)),
        (30, false, Some(30)),
        (30, true, None),
    ];
    for (passed, rejoin, expected) in steps {
        let noting = catalog.rejoin_persons(&from, &teams, at(passed), rejoin);
        noting.await.unwrap();
        let progress = catalog.person_progress().await.unwrap();
        let own = progress.backlogs.first().map(|backlog| backlog.passed);
        assert_eq!(own, expected.map(|it| Some(at(it))), "{passed} {rejoin}");
    }
}
