//! Backlogs of projects: their progress, and their return to the others.

use super::limits::{apply, update_in_hour};
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{PersonWatermark, UtcTime};
use millrace_organizations::testing::fixture::{Fixture, NOW};
use millrace_persons::{ApplyOptions, PersonStore};
use millrace_rows::Micros;

millrace_catalog::on_both!(
    the_watermark_of_a_backlog_is_its_own_progress,
    a_project_with_a_backlog_never_goes_back_nor_joins_those_behind_it,
);

async fn the_watermark_of_a_backlog_is_its_own_progress(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let (id, other) = (fixture.project_id, fixture.foreign_project_id);
    let catalog = &fixture.catalog;
    let (persons, watermark) = (PersonStore::new(catalog), PersonWatermark::new(catalog));
    let from = persons.progress().await.unwrap();
    persons
        .note_passed(&from, Micros(NOW.0 - 1).into())
        .await
        .unwrap();
    assert_eq!(persons.defer(&from, &[id]).await.unwrap(), 1);
    assert_eq!(
        persons.defer(&from, &[other]).await.unwrap(),
        0,
        "that is not where it is"
    );
    let (late, end) = (
        update_in_hour(id, 1, 0, "a"),
        update_in_hour(other, 2, 1, "a").position.created_at,
    );
    let applied = apply(
        catalog,
        &[update_in_hour(other, 2, 1, "a"), late.clone()],
        9,
    )
    .await;
    assert_eq!(applied.progress.position.created_at, end);
    let version = applied.progress.version;
    assert!(version >= end.0);
    let watermarks = async || {
        let own = watermark.of(id).await.unwrap().unwrap();
        let others = watermark.of(other).await.unwrap().unwrap();
        let all = persons.watermark().await.unwrap().unwrap();
        assert_eq!(all, own.min(others));
        (own.0, others.0)
    };
    assert_eq!(watermarks().await, (NOW.0 - 1, NOW.0 - 1));
    // A process with old progress may neither publish nor rejoin.
    persons.note_passed(&from, end.into()).await.unwrap();
    persons
        .rejoin(&from, &[id], end.into(), true)
        .await
        .unwrap();
    assert_eq!(watermarks().await, (NOW.0 - 1, NOW.0 - 1));
    persons.note_copied(version).await.unwrap();
    persons
        .note_passed(&applied.progress, end.into())
        .await
        .unwrap();
    let own = late.position.created_at.0.max(NOW.0 - 1);
    assert_eq!(watermarks().await, (own, end.0));
    let project_ids = [id];
    let joining = persons.rejoin(&applied.progress, &project_ids, end.into(), true);
    joining.await.unwrap();
    assert_eq!(watermarks().await, (end.0, end.0));
    // A step of updates that arrived long ago has no lower number than exports have passed.
    let from = persons.progress().await.unwrap();
    assert_eq!(persons.defer(&from, &[id]).await.unwrap(), 1);
    let from = persons.progress().await.unwrap();
    let options = ApplyOptions {
        before: Some(Micros(end.0 + 500).into()),
        ..ApplyOptions::default()
    };
    let late = update_in_hour(id, 5, 0, "b");
    let applied = persons.apply(&from, &[late], options).await;
    assert_eq!(applied.unwrap().unwrap().progress.version, end.0 + 500);
    assert!(catalog.bytes().await.unwrap() > 4_096);
}

async fn a_project_with_a_backlog_never_goes_back_nor_joins_those_behind_it(
    database: TestDatabase,
) {
    let fixture = Fixture::open(&database).await;
    let (project_ids, catalog) = ([fixture.project_id], &fixture.catalog);
    let at = |micros: i64| UtcTime(NOW.0 + micros);
    let from = PersonStore::new(catalog).progress().await.unwrap();
    assert_eq!(
        PersonStore::new(catalog)
            .defer(&from, &project_ids)
            .await
            .unwrap(),
        1
    );
    let from = PersonStore::new(catalog).progress().await.unwrap();
    // Time up to which the backlog is applied, whether the others are there, and the project's
    // watermark then: `None` if it has no backlog any more.
    let steps = [
        (20, false, Some(20)),
        (10, false, Some(20)),
        (10, true, Some(20)),
        (30, false, Some(30)),
        (30, true, None),
    ];
    for (passed, rejoin, expected) in steps {
        let noting = PersonStore::new(catalog).rejoin(&from, &project_ids, at(passed), rejoin);
        noting.await.unwrap();
        let progress = PersonStore::new(catalog).progress().await.unwrap();
        let own = progress.backlogs.first().map(|backlog| backlog.passed);
        assert_eq!(own, expected.map(|it| Some(at(it))), "{passed} {rejoin}");
    }
}
