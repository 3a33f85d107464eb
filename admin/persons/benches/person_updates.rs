//! Bench of updates of persons: how many a second are applied, in SQLite on the real disk.
//!
//! There are 100 000 persons. Of ten updates seven write properties, one merges an anonymous person
//! into a named one, and two are of a new person.
//!
//! ```text
//! cargo bench -p millrace-persons --bench person_updates
//! ```

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::disallowed_types,
    clippy::disallowed_methods,
    missing_docs,
    reason = "a bench: ends where something fails, looks at the clock, prints"
)]

use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{Catalog, ProjectId};
use millrace_organizations::{BootstrapOptions, bootstrap};
use millrace_persons::{ApplyOptions, PersonStore, PersonUpdate, UpdatePosition};
use millrace_rows::{Micros, UpdateKind};
use std::time::Instant;
use uuid::Uuid;

/// Allocator of the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const PERSONS: i64 = 100_000;
const BATCH: i64 = 20_000;
const BATCHES: i64 = 10;
const PROPERTIES: &str = r#"{"email":"somebody@example.com","name":"Some Body","plan":"large","seats":12,"$browser":"Firefox","$os":"Linux"}"#;

fn update(project_id: ProjectId, number: i64, distinct_id: String) -> PersonUpdate {
    let at = Micros(1_795_189_098_000_000 + number);
    PersonUpdate {
        project_id,
        position: UpdatePosition {
            created_at: at,
            request_id: Uuid::nil(),
            index: number,
        },
        uuid: Uuid::from_u128(number as u128),
        timestamp: at,
        kind: UpdateKind::Properties,
        distinct_id,
        other_id: String::new(),
        person_set: PROPERTIES.replace("12", &number.to_string()),
        person_set_once: r#"{"$initial_referrer":"$direct"}"#.to_owned(),
        person_unset: String::new(),
        group_type: String::new(),
        group_key: String::new(),
        group_set: String::new(),
    }
}

/// Key of a person, another one with each number.
fn somebody(number: i64) -> String {
    format!("person {}", number.wrapping_mul(7_919) % PERSONS)
}

fn mixed(project: ProjectId, number: i64) -> PersonUpdate {
    match number % 10 {
        0 => {
            let mut update = update(project, number, somebody(number));
            update.kind = UpdateKind::Identify;
            update.other_id = format!("anonymous {}", number - 1);
            update
        }
        1 | 9 => update(project, number, format!("anonymous {number}")),
        _ => update(project, number, somebody(number)),
    }
}

async fn apply(catalog: &Catalog, mut updates: &[PersonUpdate]) {
    while !updates.is_empty() {
        let from = PersonStore::new(catalog).progress().await.unwrap();
        let applied = PersonStore::new(catalog)
            .apply(&from, updates, ApplyOptions::default())
            .await
            .unwrap();
        updates = &updates[applied.unwrap().count..];
    }
}

#[tokio::main]
async fn main() {
    let database = TestDatabase::sqlite();
    let catalog = Catalog::open(database.url()).await.unwrap();
    let made = bootstrap(&catalog, BootstrapOptions::default())
        .await
        .unwrap();
    let project = made.unwrap().project_id;
    let mut number = 0;
    let began = Instant::now();
    while number < PERSONS {
        let batch = number..number + BATCH;
        let batch: Vec<_> = batch
            .map(|it| update(project, it, format!("person {it}")))
            .collect();
        apply(&catalog, &batch).await;
        number += BATCH;
    }
    let taken = began.elapsed().as_secs_f64();
    println!("new persons: {:.0} updates/s", PERSONS as f64 / taken);
    let began = Instant::now();
    for _ in 0..BATCHES {
        let batch: Vec<_> = (number..number + BATCH)
            .map(|it| mixed(project, it))
            .collect();
        apply(&catalog, &batch).await;
        number += BATCH;
    }
    let taken = began.elapsed().as_secs_f64();
    println!("mixed: {:.0} updates/s", (BATCH * BATCHES) as f64 / taken);
    let began = Instant::now();
    let (mut last, mut count) = (None, 0);
    loop {
        let page = PersonStore::new(&catalog)
            .changed_persons(0, last.as_ref(), 500)
            .await
            .unwrap();
        count += page.len();
        last = page.last().cloned();
        if last.is_none() {
            break;
        }
    }
    let taken = began.elapsed().as_secs_f64();
    println!("read to be copied: {:.0} persons/s", count as f64 / taken);
}
