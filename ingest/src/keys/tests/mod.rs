//! Tests of the key cache. Time passes by hand only; on the single-threaded runtime a look-up
//! begins only when the test awaits, so overlaps are certain.

mod changes;
mod first_events;
mod lookups;

use super::answers::{
    CatalogUnavailable, FOUND_MICROS, LookedUpKey, RETRY_MICROS, UNKNOWN_MICROS, lock,
};
use super::cache::{Keys, UNKNOWN_MAX};
use futures_util::FutureExt;
use millrace_catalog::testing::{DatabaseKind, TestDatabase};
use millrace_catalog::{Actor, Catalog, Patch};
use millrace_organizations::{
    BootstrapOptions, NewProject, Organizations, ProjectChange, ProjectKeyChanges, Projects,
    bootstrap,
};
use millrace_parse::{KeyLookup, Project};
use millrace_rows::ProjectId;
use millrace_rows::testing::number_from_env;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use uuid::Uuid;

/// Key of our form with another checksum.
const WRONG_CHECKSUM: &str = "phc_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

/// Catalog with one project, and an empty cache of its keys.
struct Fixture {
    keys: Keys,
    catalog: Catalog,
    key: String,
    organization: Uuid,
    project: Project,
    database: TestDatabase,
}

impl Fixture {
    async fn new() -> Self {
        let database = TestDatabase::of(DatabaseKind::Sqlite).await;
        let catalog = Catalog::open(database.url()).await.unwrap();
        let made = bootstrap(&catalog, BootstrapOptions::default())
            .await
            .unwrap()
            .unwrap();
        Self {
            keys: Keys::new(catalog.clone()),
            catalog,
            key: made.project_api_key,
            organization: made.organization_id,
            project: Project {
                id: made.project_id,
                anonymize_ips: false,
                ingested_event: false,
            },
            database,
        }
    }

    fn pass_micros(&self, micros: u64) {
        let ahead = &self.keys.0.ticks.ahead_micros;
        ahead.fetch_add(micros, Ordering::AcqRel);
    }

    fn lookups(&self) -> usize {
        lock(&self.keys.0.lookups).len()
    }

    /// Opens the same catalog as another process does.
    async fn elsewhere(&self) -> Catalog {
        Catalog::open(self.database.url()).await.unwrap()
    }

    /// Revokes the project's key in another process.
    async fn revoke_elsewhere(&self) {
        let (elsewhere, system) = (self.elsewhere().await, Actor::system());
        let revoked = ProjectKeyChanges::new(&elsewhere).revoke(&system, &self.key);
        revoked.await.unwrap();
    }
}

#[tokio::test]
async fn a_found_key_is_asked_for_again_after_a_minute() {
    let fixture = Fixture::new().await;
    let keys = &fixture.keys;
    assert_eq!(keys.cached(&fixture.key), KeyLookup::Missing);
    let project_id = fixture.project.id;
    assert_eq!(keys.organization_of(project_id), None);
    assert_eq!(keys.find(&fixture.key).await, Ok(Some(fixture.project)));
    assert_eq!(keys.organization_of(project_id), Some(fixture.organization));
    let elsewhere = fixture.elsewhere().await;
    let anonymize = ProjectChange {
        anonymize_ips: Patch::Value(true),
        ..ProjectChange::default()
    };
    let (organization, id) = (fixture.organization, fixture.project.id);
    Projects::new(&elsewhere)
        .update(&Actor::system(), organization, id, anonymize)
        .await
        .unwrap();
    fixture.pass_micros(FOUND_MICROS / 2);
    assert_eq!(keys.cached(&fixture.key), KeyLookup::Found(fixture.project));
    fixture.pass_micros(FOUND_MICROS / 2);
    assert_eq!(keys.cached(&fixture.key), KeyLookup::Missing);
    let found = keys.find(&fixture.key).await.unwrap().unwrap();
    assert!(found.anonymize_ips);
    assert_eq!(keys.cached(&fixture.key), KeyLookup::Found(found));
}

#[tokio::test]
async fn an_unknown_key_is_asked_for_again_after_five_seconds() {
    let fixture = Fixture::new().await;
    let keys = &fixture.keys;
    assert_eq!(keys.cached("new-key"), KeyLookup::Missing);
    assert_eq!(keys.find("new-key").await, Ok(None));
    let elsewhere = fixture.elsewhere().await;
    let id = fixture.project.id;
    ProjectKeyChanges::new(&elsewhere)
        .rotate(&Actor::system(), id, Some("new-key".to_owned()))
        .await
        .unwrap();
    assert_eq!(keys.cached("new-key"), KeyLookup::Unknown);
    assert_eq!(keys.find("new-key").await, Ok(None));
    fixture.pass_micros(UNKNOWN_MICROS);
    assert_eq!(keys.cached("new-key"), KeyLookup::Missing);
    assert_eq!(keys.find("new-key").await, Ok(Some(fixture.project)));
}

#[tokio::test]
async fn caches_before_different_catalogs_do_not_mix() {
    let (first, second) = (Fixture::new().await, Fixture::new().await);
    assert_eq!(first.keys.find(&first.key).await, Ok(Some(first.project)));
    for _ in 0..2 {
        assert_eq!(
            first.keys.cached(&first.key),
            KeyLookup::Found(first.project)
        );
        assert_eq!(second.keys.cached(&first.key), KeyLookup::Missing);
    }
    assert_eq!(second.keys.find(&first.key).await, Ok(None));
    assert_eq!(
        first.keys.cached(&first.key),
        KeyLookup::Found(first.project)
    );
}

#[tokio::test]
async fn keys_that_share_a_thread_slot_are_told_apart() {
    let fixture = Fixture::new().await;
    let organization = Organizations::new(&fixture.catalog)
        .list_all()
        .await
        .unwrap()[0]
        .id;
    let mut made = vec![(fixture.key.clone(), fixture.project.id.0)];
    for (n, key) in ["same-tail-12345678", "other-same-tail-12345678", "12345678"]
        .iter()
        .enumerate()
    {
        let mut new = NewProject::named(&format!("Project {n}"));
        new.key = Some((*key).to_owned());
        let project = Projects::new(&fixture.catalog)
            .create(&Actor::system(), organization, new)
            .await
            .unwrap();
        made.push(((*key).to_owned(), project.id));
    }
    for _ in 0..3 {
        for (key, id) in &made {
            let found = fixture.keys.find(key).await.unwrap().unwrap();
            assert_eq!(found.id, ProjectId(*id), "{key}");
        }
    }
}

#[tokio::test]
async fn malformed_keys_are_refused_without_the_catalog() {
    let fixture = Fixture::new().await;
    fixture.catalog.close().await.unwrap();
    let megabyte = "k".repeat(1 << 20);
    for key in ["", "  ", "ключ", "phx_personal", &"k".repeat(65), &megabyte] {
        assert_eq!(fixture.keys.cached(key), KeyLookup::Unknown);
        assert_eq!(fixture.keys.find(key).await, Ok(None));
    }
}

#[tokio::test]
async fn without_the_catalog_and_known_keys_readiness_fails() {
    let fixture = Fixture::new().await;
    assert_eq!(fixture.keys.failure(), None);
    fixture.catalog.close().await.unwrap();
    assert_eq!(fixture.keys.failure(), None);
    fixture.keys.poll_changes().await;
    let failure = fixture.keys.failure().unwrap();
    assert!(failure.contains("catalog"), "{failure}");
}

#[tokio::test]
async fn found_keys_go_on_working_while_the_catalog_is_unreachable() {
    let fixture = Fixture::new().await;
    let keys = &fixture.keys;
    assert_eq!(keys.find(&fixture.key).await, Ok(Some(fixture.project)));
    assert_eq!(keys.find("unknown").await, Ok(None));
    fixture.catalog.close().await.unwrap();
    keys.poll_changes().await;
    assert_eq!(keys.failure(), None);
    for _ in 0..3 {
        fixture.pass_micros(FOUND_MICROS + RETRY_MICROS);
        assert_eq!(keys.cached(&fixture.key), KeyLookup::Missing);
        assert_eq!(keys.find(&fixture.key).await, Ok(Some(fixture.project)));
        // The catalog is left alone for a while.
        assert_eq!(keys.cached(&fixture.key), KeyLookup::Found(fixture.project));
        for uncached in ["unknown", "never-seen"] {
            assert_eq!(keys.cached(uncached), KeyLookup::Missing);
            assert_eq!(keys.find(uncached).await, Err(CatalogUnavailable));
        }
    }
}

#[tokio::test]
async fn a_key_that_this_process_reset_is_refused_at_once() {
    let fixture = Fixture::new().await;
    let keys = &fixture.keys;
    assert_eq!(keys.find(&fixture.key).await, Ok(Some(fixture.project)));
    let id = fixture.project.id;
    // A look-up that overlaps the change must not bring the old answer back.
    let mut overlapping = Box::pin(keys.find("overlapping"));
    assert!((&mut overlapping).now_or_never().is_none());
    let chosen = Some("overlapping".to_owned());
    ProjectKeyChanges::new(&fixture.catalog)
        .rotate(&Actor::system(), id, chosen)
        .await
        .unwrap();
    keys.catch_up().await;
    assert_eq!(keys.cached(&fixture.key), KeyLookup::Missing);
    assert_eq!(keys.find(&fixture.key).await, Ok(None));
    assert_eq!(keys.find("overlapping").await, Ok(Some(fixture.project)));
    overlapping.await.unwrap();
    assert_eq!(
        keys.cached("overlapping"),
        KeyLookup::Found(fixture.project)
    );
}

#[tokio::test]
async fn wrong_checksums_need_no_look_up_unless_the_key_was_imported() {
    let fixture = Fixture::new().await;
    let keys = &fixture.keys;
    let garbage = WRONG_CHECKSUM.replace('a', "b");
    // Until the list of imported keys is known, only the catalog can tell.
    assert_eq!(keys.cached(WRONG_CHECKSUM), KeyLookup::Missing);
    keys.poll_changes().await;
    assert_eq!(keys.cached(WRONG_CHECKSUM), KeyLookup::Unknown);
    let id = fixture.project.id;
    let imported = Some(WRONG_CHECKSUM.to_owned());
    ProjectKeyChanges::new(&fixture.elsewhere().await)
        .rotate(&Actor::system(), id, imported)
        .await
        .unwrap();
    keys.poll_changes().await;
    assert_eq!(keys.cached(WRONG_CHECKSUM), KeyLookup::Missing);
    assert_eq!(keys.find(WRONG_CHECKSUM).await, Ok(Some(fixture.project)));
    assert_eq!(keys.cached(&garbage), KeyLookup::Unknown);
    keys.invalidate_all();
    assert_eq!(keys.cached(&garbage), KeyLookup::Missing);
}

/// Third of the keys that are sent: of `MILLRACE_RANDOM_KEYS`, or of one and a half million.
fn third_of_random_keys() -> u64 {
    number_from_env("MILLRACE_RANDOM_KEYS", 1_500_000) / 3
}

#[tokio::test]
async fn millions_of_random_keys_take_bounded_memory() {
    let fixture = Fixture::new().await;
    let shared = &fixture.keys.0;
    let nobody = LookedUpKey {
        project: None,
        generation: 0,
    };
    let mut resident_after_first = 0;
    let each = third_of_random_keys();
    for third in 0..3 {
        assert_eq!(
            fixture.keys.find(&fixture.key).await,
            Ok(Some(fixture.project))
        );
        for n in 0..each {
            let key: Arc<str> = format!("garbage-{third}-{n}").into();
            shared.store(&key, nobody);
        }
        if third == 0 {
            resident_after_first = resident_bytes();
        }
    }
    shared.unknown.run_pending_tasks();
    assert!(shared.unknown.entry_count() <= UNKNOWN_MAX);
    let grown = resident_bytes().saturating_sub(resident_after_first);
    // Kept, a million would take 200 MB; other tests allocate meanwhile.
    assert!(grown < 128 << 20, "grew by {grown} bytes");
    assert_eq!(
        fixture.keys.cached(&fixture.key),
        KeyLookup::Found(fixture.project)
    );
}

#[test]
fn without_its_runtime_the_catalog_is_unavailable() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let fixture = runtime.block_on(Fixture::new());
    let keys = fixture.keys.clone();
    let key = fixture.key.clone();
    drop(runtime);
    let other = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let found: Result<Option<Project>, CatalogUnavailable> = other.block_on(keys.find(&key));
    assert_eq!(found, Err(CatalogUnavailable));
    assert_eq!(fixture.lookups(), 0);
}

#[test]
fn any_runtime_may_await_a_look_up() {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(1).enable_all().build().unwrap();
    let fixture = runtime.block_on(Fixture::new());
    let other = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    assert_eq!(
        other.block_on(fixture.keys.find(&fixture.key)),
        Ok(Some(fixture.project))
    );
    assert_eq!(fixture.project.id, ProjectId(1));
}

/// Resident memory of this process, from the kernel; pages are 4 KiB where the tests run.
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}
