//! Any updates in any batches, compared with the model.

use super::model::Model;
use super::{kept, update};
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{Catalog, ProjectId};
use millrace_organizations::testing::fixture::{Fixture, NOW};
use millrace_persons::{ApplyOptions, PersonProgress, PersonStore, PersonUpdate};
use millrace_rows::testing::number_from_env;
use millrace_rows::{Micros, UpdateKind};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::json;
use std::cell::{Cell, RefCell};
use std::time::Duration;
use tokio::runtime::Handle;
use uuid::Uuid;

millrace_catalog::on_both!(any_updates_in_any_batches_give_the_models_result,);

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
    let mut runner = TestRunner::new(Config::with_cases(number_from_env(
        "MILLRACE_PERSON_CASES",
        20,
    )));
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
