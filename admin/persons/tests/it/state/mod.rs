//! Updates of persons and groups, applied: compared with a model, and in named cases.

mod backlogs;
mod cleanup;
mod devices;
mod limits;
mod merges;
mod model;
mod transactions;
mod upgrade;

use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{Catalog, ProjectId};
use millrace_organizations::Projects;
use millrace_organizations::testing::fixture::{Fixture, NOW};
use millrace_persons::{ApplyOptions, PersonProgress, PersonStore, PersonUpdate, UpdatePosition};
use millrace_rows::{Micros, UpdateKind, person_id};
use model::Model;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::runtime::Handle;
use uuid::Uuid;

millrace_catalog::on_both!(
    any_updates_in_any_batches_give_the_models_result,
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

/// Any update of a case; positions are given later.
fn any_update() -> impl Strategy<Value = PersonUpdate> {
    let id = || prop::sample::select(vec!["a", "b", "c", "d", "e"]);
    let kind = prop::sample::select(vec![
        UpdateKind::Properties,
        UpdateKind::Properties,
        UpdateKind::Identify,
        UpdateKind::Alias,
        UpdateKind::Merge,
    ]);
    // `$unset` of a key that is also `$set_once` depends on the order of arrival.
    let set = prop::collection::btree_map(prop::sample::select(vec!["x", "y", "z"]), 0..9_u8, 0..3);
    let once = prop::collection::btree_map(prop::sample::select(vec!["z", "w"]), 0..9_u8, 0..2);
    let unset = prop::collection::vec(prop::sample::select(vec!["x", "y"]), 0..2);
    let group = prop::option::weighted(0.2, (0..7_u8, 0..2_u8));
    (
        0..3_i64,
        id(),
        id(),
        kind,
        set,
        once,
        unset,
        group,
        0..6_i64,
        any::<u8>(),
    )
        .prop_map(
            |(project, distinct_id, other_id, kind, set, once, unset, group, at, uuid)| {
                let mut update = update(ProjectId(project), i64::from(uuid));
                update.timestamp = Micros(NOW.0 + at);
                update.distinct_id = distinct_id.to_owned();
                if distinct_id != other_id {
                    update.kind = kind;
                    update.other_id = other_id.to_owned();
                } else if kind == UpdateKind::Identify {
                    // It only names its user, with its own id as the other one or with none.
                    update.kind = kind;
                    update.other_id = if at % 2 == 0 { other_id } else { "" }.to_owned();
                }
                update.person_set = json!(set).to_string();
                update.person_set_once = json!(once).to_string();
                update.person_unset = json!(unset).to_string();
                if let Some((of, key)) = group {
                    update.group_type = format!("type {of}");
                    update.group_key = key.to_string();
                    update.group_set = update.person_set.clone();
                }
                update
            },
        )
}

/// Mode in which a batch is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BatchMode {
    Whole,
    /// The process dies after so many microseconds; another one reads the progress.
    Dies(u64),
    /// Another process was faster: the batch is tried again from the former progress.
    Late,
    /// A project gets a backlog of its own, and its updates are applied before or after those of
    /// the others.
    Apart(i64),
    /// Projects with an empty backlog rejoin the others.
    Together,
}

fn any_mode() -> impl Strategy<Value = (usize, BatchMode)> {
    let mode = prop_oneof![
        Just(BatchMode::Whole),
        (0..4_000_u64).prop_map(BatchMode::Dies),
        Just(BatchMode::Late),
        (1..3_i64).prop_map(BatchMode::Apart),
        Just(BatchMode::Together),
    ];
    (1..12_usize, mode)
}

/// Number of cases: those of `MILLRACE_PERSON_CASES`, or 20.
#[expect(clippy::disallowed_methods, reason = "a test's own setting")]
fn cases_count() -> u32 {
    let count = std::env::var("MILLRACE_PERSON_CASES");
    count.map_or(20, |count| count.parse().unwrap())
}

async fn any_updates_in_any_batches_give_the_models_result(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let project_ids = [
        fixture.project_id,
        fixture.foreign_project_id,
        ProjectId(9_999),
    ];
    let catalog = &fixture.catalog;
    let cases = prop::collection::vec(any_update(), 1..80);
    let ids_max = prop::option::of(1..4_u64);
    let cases = (cases, prop::collection::vec(any_mode(), 8), ids_max);
    let mut runner = TestRunner::new(Config::with_cases(cases_count()));
    let model = RefCell::new(Model::default());
    let (case_number, number) = (Cell::new(0), Cell::new(0));
    let outcome = runner.run(&cases, |(mut updates, modes, merged_ids_max)| {
        model.borrow_mut().merged_ids_max = merged_ids_max;
        let options = ApplyOptions {
            merged_ids_max,
            ..ApplyOptions::default()
        };
        case_number.set(case_number.get() + 1);
        let case_number = case_number.get();
        let mut before: Option<PersonUpdate> = None;
        for update in &mut updates {
            number.set(number.get() + 1);
            let chance = update.uuid.as_u128();
            if let Some(before) = before.as_ref().filter(|_| chance < 30) {
                // A client sends an event again.
                update.clone_from(before);
                update.position = self::update(update.project_id, number.get()).position;
                if update.project_id != project_ids[2] {
                    model.borrow_mut().apply(update);
                }
                continue;
            }
            update.uuid = Uuid::from_u128(chance << 64 | number.get() as u128);
            update.project_id = project_ids[update.project_id.0 as usize];
            update.position = self::update(update.project_id, number.get()).position;
            // Persons of another case are others.
            update.distinct_id = format!("{case_number} {}", update.distinct_id);
            if !update.other_id.is_empty() {
                update.other_id = format!("{case_number} {}", update.other_id);
            }
            if update.project_id != project_ids[2] {
                model.borrow_mut().apply(update);
            }
            before = Some(update.clone());
        }
        tokio::task::block_in_place(|| {
            Handle::current().block_on(drive(database.url(), catalog, options, &updates, &modes));
        });
        let (ids, groups) =
            tokio::task::block_in_place(|| Handle::current().block_on(kept(catalog)));
        prop_assert_eq!(ids, model.borrow().ids());
        prop_assert_eq!(groups, model.borrow().groups());
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
}

/// Applies updates in batches, each in some mode, until all are applied.
async fn drive(
    url: &str,
    catalog: &Catalog,
    options: ApplyOptions,
    updates: &[PersonUpdate],
    modes: &[(usize, BatchMode)],
) {
    let mut modes = modes.iter().cycle();
    let mut before: Option<(PersonProgress, Vec<PersonUpdate>)> = None;
    loop {
        let (size, mode) = *modes.next().unwrap();
        if let BatchMode::Apart(project) = mode {
            let from = PersonStore::new(catalog).progress().await.unwrap();
            let project_ids = [ProjectId(project), ProjectId(9_999)];
            let deferred = PersonStore::new(catalog)
                .defer(&from, &project_ids)
                .await
                .unwrap();
            let was_apart = from
                .backlogs
                .iter()
                .any(|it| it.project_id == project_ids[0]);
            assert_eq!(deferred, usize::from(!was_apart));
        }
        let from = PersonStore::new(catalog).progress().await.unwrap();
        let (apart, others) = left(&from, updates);
        if mode == BatchMode::Together && others.is_empty() {
            together(catalog, &from, &apart).await;
            continue;
        }
        let mut batch = if size % 2 == 0 { others } else { apart };
        if batch.is_empty() {
            let (apart, others) = left(&from, updates);
            batch = [others, apart].concat();
        }
        batch.truncate(size);
        if batch.is_empty() {
            together(catalog, &from, &[]).await;
            return;
        }
        if let (BatchMode::Late, Some((from, batch))) = (mode, &before) {
            let late = PersonStore::new(catalog)
                .apply(from, batch, options)
                .await
                .unwrap();
            assert_eq!(late, None);
        }
        if let BatchMode::Dies(micros) = mode {
            // The process is killed with its connections.
            let other = Catalog::open(url).await.unwrap();
            let applying = PersonStore::new(&other).apply(&from, &batch, options);
            let _ = tokio::time::timeout(Duration::from_micros(micros), applying).await;
            other.close().await.unwrap();
            continue;
        }
        let applied = PersonStore::new(catalog)
            .apply(&from, &batch, options)
            .await
            .unwrap();
        // A killed transaction may have been committed all the same.
        let Some(applied) = applied else { continue };
        assert_eq!(applied.count, batch.len());
        assert!(applied.progress.version > from.version);
        before = Some((from, batch));
    }
}

/// Updates that are not applied: of projects with a backlog, and of the others.
fn left(from: &PersonProgress, updates: &[PersonUpdate]) -> (Vec<PersonUpdate>, Vec<PersonUpdate>) {
    let own = |update: &PersonUpdate| {
        let mut backlogs = from.backlogs.iter();
        backlogs.find(|backlog| backlog.project_id == update.project_id)
    };
    let left = updates.iter().filter(|update| {
        let place = own(update).map_or(from.position, |backlog| backlog.position);
        update.position > place
    });
    left.cloned().partition(|update| own(update).is_some())
}

/// Rejoins projects with an empty backlog.
async fn together(catalog: &Catalog, from: &PersonProgress, left: &[PersonUpdate]) {
    let project_ids = from.backlogs.iter().map(|backlog| backlog.project_id);
    let has_more = |project: &ProjectId| left.iter().any(|update| update.project_id == *project);
    let project_ids: Vec<ProjectId> = project_ids.filter(|project| !has_more(project)).collect();
    let rejoining = PersonStore::new(catalog).rejoin(from, &project_ids, NOW.into(), true);
    rejoining.await.unwrap();
    let now = PersonStore::new(catalog).progress().await.unwrap();
    assert_eq!(now.backlogs.len(), from.backlogs.len() - project_ids.len());
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
