//! Updates of persons and groups, applied: in any order and in named cases.

mod any_batches;
mod backlogs;
mod cleanup;
mod devices;
mod limits;
mod merges;
mod model;
mod too_large;
mod transactions;
mod upgrade;

use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{Catalog, ProjectId};
use millrace_organizations::Projects;
use millrace_organizations::testing::fixture::{Fixture, NOW};
use millrace_persons::{ApplyOptions, PersonStore, PersonUpdate, UpdatePosition};
use millrace_rows::{Micros, UpdateKind, person_id};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use uuid::Uuid;

millrace_catalog::on_both!(
    properties_over_the_size_limit_are_left_out,
    a_sixth_type_of_group_is_refused,
    persons_and_groups_are_deleted_with_their_project,
    changes_are_read_page_by_page,
);

type Ids = BTreeMap<(i64, String), (Uuid, bool, i64, Value)>;
type Groups = BTreeMap<(i64, String, String), (i64, Value)>;

/// Persons and groups of the catalog, deleted persons left out.
async fn kept(catalog: &Catalog) -> (Ids, Groups) {
    let persons = PersonStore::new(catalog)
        .changed_persons(0, None, 100_000)
        .await
        .unwrap();
    let persons: BTreeMap<_, _> = persons
        .into_iter()
        .map(|it| ((it.team_id, it.id), it))
        .collect();
    let ids = PersonStore::new(catalog)
        .changed_ids(0, None, 100_000)
        .await
        .unwrap();
    let ids = ids.into_iter().map(|row| {
        let person = &persons[&(row.team_id, row.person_id)];
        assert!(!person.is_deleted, "{row:?}");
        let properties = serde_json::from_str(&person.properties).unwrap();
        let seen = (
            person.id,
            person.is_identified,
            person.created_at.0,
            properties,
        );
        ((row.team_id, row.distinct_id), seen)
    });
    let groups = PersonStore::new(catalog)
        .changed_groups(0, None, 100_000)
        .await
        .unwrap();
    let groups = groups.into_iter().map(|row| {
        let properties = serde_json::from_str(&row.properties).unwrap();
        let key = (row.team_id, row.group_type, row.group_key);
        (key, (row.created_at.0, properties))
    });
    (ids.collect(), groups.collect())
}

/// Update that says nothing yet.
pub fn update(project_id: ProjectId, number: i64) -> PersonUpdate {
    PersonUpdate {
        project_id,
        position: UpdatePosition {
            created_at: Micros(NOW.0 + number),
            request_id: Uuid::from_u128(7),
            index: number,
        },
        uuid: Uuid::from_u128(number as u128),
        timestamp: NOW,
        kind: UpdateKind::Properties,
        distinct_id: String::new(),
        other_id: String::new(),
        person_set: String::new(),
        person_set_once: String::new(),
        person_unset: String::new(),
        group_type: String::new(),
        group_key: String::new(),
        group_set: String::new(),
    }
}

async fn apply(catalog: &Catalog, updates: &[PersonUpdate]) -> millrace_persons::UpdateStats {
    let from = PersonStore::new(catalog).progress().await.unwrap();
    let applied = PersonStore::new(catalog)
        .apply(&from, updates, ApplyOptions::default())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(applied.count, updates.len());
    applied.stats
}

async fn properties_over_the_size_limit_are_left_out(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let large = "x".repeat(600 << 10);
    let mut first = update(fixture.project_id, 1);
    first.distinct_id = "d".to_owned();
    first.person_set = json!({ "a": large }).to_string();
    let mut second = update(fixture.project_id, 2);
    second.distinct_id = "d".to_owned();
    second.person_set = json!({ "b": large }).to_string();
    let mut third = update(fixture.project_id, 3);
    third.distinct_id = "d".to_owned();
    third.person_set = json!({ "a": 1 }).to_string();
    let stats = apply(&fixture.catalog, &[first, second, third]).await;
    assert_eq!((stats.applied, stats.too_large), (3, 1));
    let (ids, _) = kept(&fixture.catalog).await;
    let (id, _, _, properties) = &ids[&(fixture.project_id.0, "d".to_owned())];
    assert_eq!(
        (id, properties),
        (&person_id(fixture.project_id, "d"), &json!({ "a": 1 }))
    );
}

async fn a_sixth_type_of_group_is_refused(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let describe = |number: i64| {
        let mut update = update(fixture.project_id, number);
        update.group_type = format!("type {number}");
        update.group_key = "k".to_owned();
        update
    };
    let five: Vec<PersonUpdate> = (1..=5).map(describe).collect();
    assert_eq!(apply(&fixture.catalog, &five).await.types_refused, 0);
    assert_eq!(
        apply(&fixture.catalog, &[describe(6)]).await.types_refused,
        1
    );
    assert_eq!(kept(&fixture.catalog).await.1.len(), 5);
}

async fn persons_and_groups_are_deleted_with_their_project(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let numbered_update = |project_id: ProjectId, number: i64| {
        let mut update = update(project_id, number);
        update.distinct_id = "d".to_owned();
        update.group_type = "t".to_owned();
        update.group_key = "k".to_owned();
        update
    };
    let updates = [
        numbered_update(fixture.project_id, 1),
        numbered_update(fixture.foreign_project_id, 2),
    ];
    apply(&fixture.catalog, &updates).await;
    let deleting = Projects::new(&fixture.catalog).delete(
        &fixture.actor,
        fixture.organization_id,
        fixture.project_id,
    );
    deleting.await.unwrap();
    let stats = apply(&fixture.catalog, &[numbered_update(fixture.project_id, 3)]).await;
    assert_eq!((stats.applied, stats.without_project), (0, 1));
    let (ids, groups) = kept(&fixture.catalog).await;
    let project_ids = ids.keys().map(|(project, _)| *project);
    let project_ids: Vec<i64> = project_ids
        .chain(groups.keys().map(|(project, ..)| *project))
        .collect();
    assert_eq!(project_ids, [fixture.foreign_project_id.0; 2]);
}

async fn changes_are_read_page_by_page(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let numbered_update = |number: i64| {
        let mut update = update(fixture.project_id, number);
        update.distinct_id = format!("d{number}");
        update
    };
    for step in 0..3 {
        let updates: Vec<PersonUpdate> =
            (1..=5).map(|it| numbered_update(step * 10 + it)).collect();
        apply(&fixture.catalog, &updates).await;
    }
    let catalog = &fixture.catalog;
    let progress = PersonStore::new(catalog).progress().await.unwrap();
    let all = PersonStore::new(catalog)
        .changed_ids(0, None, 100)
        .await
        .unwrap();
    let (mut paged, mut last) = (Vec::new(), None);
    loop {
        let page = PersonStore::new(catalog)
            .changed_ids(0, last.as_ref(), 4)
            .await
            .unwrap();
        last = page.last().cloned();
        if last.is_none() {
            break;
        }
        paged.extend(page);
    }
    assert_eq!((paged.len(), &paged), (15, &all));
    let newest = PersonStore::new(catalog)
        .changed_persons(progress.version - 1, None, 100)
        .await
        .unwrap();
    assert_eq!(newest.len(), 5);
    for (version, passed) in [(progress.version, NOW), (1, Micros(1))] {
        PersonStore::new(catalog)
            .note_copied(version)
            .await
            .unwrap();
        PersonStore::new(catalog)
            .note_passed(&progress, passed.into())
            .await
            .unwrap();
    }
    let noted = PersonStore::new(catalog).progress().await.unwrap();
    assert_eq!(
        (noted.copied, noted.passed),
        (progress.version, Some(NOW.into()))
    );
}
