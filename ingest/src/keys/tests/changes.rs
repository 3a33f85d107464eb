//! Changes of keys by this process and by others.

use super::super::answers::{CatalogUnavailable, FOUND_MICROS, RETRY_MICROS};
use super::Fixture;
use millrace_catalog::{Actor, ProjectKeys};
use millrace_organizations::{NewProject, Projects};
use millrace_parse::KeyLookup;
use millrace_rows::ProjectId;
use std::sync::atomic::Ordering;

#[tokio::test]
async fn changes_by_other_processes_are_noticed() {
    let fixture = Fixture::new().await;
    let keys = &fixture.keys;
    keys.poll_changes().await;
    assert_eq!(keys.find(&fixture.key).await, Ok(Some(fixture.project)));
    keys.poll_changes().await;
    assert_eq!(keys.cached(&fixture.key), KeyLookup::Found(fixture.project));
    fixture.revoke_elsewhere().await;
    keys.poll_changes().await;
    assert_eq!(keys.cached(&fixture.key), KeyLookup::Missing);
    assert_eq!(keys.find(&fixture.key).await, Ok(None));
}

#[tokio::test]
async fn a_key_revoked_before_an_outage_is_dead_in_it_and_others_live() {
    let fixture = Fixture::new().await;
    let keys = &fixture.keys;
    let mut other = NewProject::named("Other");
    other.key = Some("other-key".to_owned());
    let (organization, system) = (fixture.organization, Actor::system());
    let made = Projects::new(&fixture.catalog).create(&system, organization, other);
    let other = ProjectId(made.await.unwrap().id);
    keys.poll_changes().await;
    for key in [fixture.key.as_str(), "other-key"] {
        assert!(keys.find(key).await.unwrap().is_some());
    }
    fixture.revoke_elsewhere().await;
    // Seen, and not used between that and the outage.
    keys.poll_changes().await;
    fixture.catalog.close().await.unwrap();
    assert_eq!(keys.find(&fixture.key).await, Err(CatalogUnavailable));
    let found = keys.find("other-key").await.unwrap();
    assert_eq!(found.map(|project| project.id), Some(other));
}

#[tokio::test]
async fn the_watcher_notices_a_revoked_key_by_itself() {
    let fixture = Fixture::new().await;
    let keys = &fixture.keys;
    assert_eq!(keys.find(&fixture.key).await, Ok(Some(fixture.project)));
    let watcher = tokio::spawn(keys.clone().watch_changes());
    fixture.revoke_elsewhere().await;
    while keys.find(&fixture.key).await == Ok(Some(fixture.project)) {
        tokio::task::yield_now().await;
    }
    watcher.abort();
    assert_eq!(keys.find(&fixture.key).await, Ok(None));
}

#[tokio::test]
async fn catching_up_makes_answers_stale_only_if_a_key_changed() {
    let fixture = Fixture::new().await;
    let keys = &fixture.keys;
    let found = KeyLookup::Found(fixture.project);
    // The counter is not known yet, so anything may have changed.
    assert_eq!(keys.find(&fixture.key).await, Ok(Some(fixture.project)));
    keys.catch_up().await;
    assert_eq!(keys.cached(&fixture.key), KeyLookup::Missing);
    keys.poll_changes().await;
    assert_eq!(keys.find(&fixture.key).await, Ok(Some(fixture.project)));
    keys.catch_up().await;
    assert_eq!(keys.cached(&fixture.key), found);
    fixture.revoke_elsewhere().await;
    keys.catch_up().await;
    assert_eq!(keys.find(&fixture.key).await, Ok(None));
    // The watcher still sees that change, as it does more than make answers stale.
    assert_eq!(keys.find("new-key").await, Ok(None));
    keys.poll_changes().await;
    assert_eq!(keys.cached("new-key"), KeyLookup::Missing);
}

#[tokio::test]
async fn without_the_catalog_catching_up_makes_every_answer_stale() {
    let fixture = Fixture::new().await;
    let keys = &fixture.keys;
    keys.poll_changes().await;
    assert_eq!(keys.find(&fixture.key).await, Ok(Some(fixture.project)));
    let generation = keys.0.generation.load(Ordering::Acquire);
    fixture.catalog.close().await.unwrap();
    keys.catch_up().await;
    assert_ne!(keys.0.generation.load(Ordering::Acquire), generation);
}

/// Renames a table, so that queries of it fail.
async fn rename(fixture: &Fixture, table: &str, name: &str) {
    let renamed = format!("ALTER TABLE {table} RENAME TO {name}");
    fixture.database.execute(&renamed).await.unwrap();
}

#[tokio::test]
async fn a_key_whose_change_could_not_be_looked_at_is_not_believed_until_it_can() {
    // The look that fails: at the counter, after a change by this process; at the keys, after one
    // by another.
    for (table, is_here) in [("catalog_versions", true), ("projects", false)] {
        let fixture = Fixture::new().await;
        let (keys, system) = (&fixture.keys, Actor::system());
        let mut other = NewProject::named("Other");
        other.key = Some("other-key".to_owned());
        let made = Projects::new(&fixture.catalog).create(&system, fixture.organization, other);
        let other = ProjectId(made.await.unwrap().id);
        keys.poll_changes().await;
        for key in [fixture.key.as_str(), "other-key"] {
            assert!(keys.find(key).await.unwrap().is_some());
        }
        fixture.revoke_elsewhere().await;
        rename(&fixture, table, "away").await;
        match is_here {
            true => keys.catch_up().await,
            false => keys.poll_changes().await,
        }
        for key in [fixture.key.as_str(), "other-key"] {
            assert_eq!(keys.cached(key), KeyLookup::Missing, "{table} {key}");
            let found = keys.find(key).await;
            assert_eq!(found, Err(CatalogUnavailable), "{table} {key}");
        }
        rename(&fixture, "away", table).await;
        keys.poll_changes().await;
        assert_eq!(keys.find(&fixture.key).await, Ok(None), "{table}");
        fixture.catalog.close().await.unwrap();
        keys.poll_changes().await;
        let found = keys.find("other-key").await.unwrap();
        assert_eq!(found.map(|project| project.id), Some(other), "{table}");
    }
}

#[tokio::test]
async fn keys_that_a_failed_look_made_stale_count_again_after_the_next_one() {
    let fixture = Fixture::new().await;
    let keys = &fixture.keys;
    keys.poll_changes().await;
    assert_eq!(keys.find(&fixture.key).await, Ok(Some(fixture.project)));
    rename(&fixture, "catalog_versions", "away").await;
    keys.catch_up().await;
    assert_eq!(keys.find(&fixture.key).await, Err(CatalogUnavailable));
    rename(&fixture, "away", "catalog_versions").await;
    keys.poll_changes().await;
    fixture.catalog.close().await.unwrap();
    keys.poll_changes().await;
    assert_eq!(keys.find(&fixture.key).await, Ok(Some(fixture.project)));
}

#[tokio::test]
async fn a_key_that_was_looked_up_after_the_change_outlives_an_outage() {
    let fixture = Fixture::new().await;
    let keys = &fixture.keys;
    keys.catch_up().await;
    assert_eq!(keys.find(&fixture.key).await, Ok(Some(fixture.project)));
    fixture.catalog.close().await.unwrap();
    keys.poll_changes().await;
    fixture.pass_micros(FOUND_MICROS);
    assert_eq!(keys.find(&fixture.key).await, Ok(Some(fixture.project)));
}

#[tokio::test]
async fn preloaded_keys_work_while_the_catalog_is_away_and_are_asked_for_once_it_answers() {
    let fixture = Fixture::new().await;
    let listed = ProjectKeys::new(&fixture.catalog).list_behind(ProjectId(0), 10);
    let listed = listed.await.unwrap();
    assert_eq!(listed.len(), 1);
    let keys = &fixture.keys;
    keys.preload(listed);
    assert_eq!(keys.checked_version(), None);
    assert_eq!(keys.failure(), None, "known keys work");
    assert_eq!(keys.cached(&fixture.key), KeyLookup::Found(fixture.project));
    let project_id = fixture.project.id;
    assert_eq!(keys.organization_of(project_id), Some(fixture.organization));
    assert_eq!(keys.find("new-key").await, Err(CatalogUnavailable));
    // Revoked while this process did not run.
    fixture.revoke_elsewhere().await;
    fixture.pass_micros(RETRY_MICROS);
    keys.poll_changes().await;
    assert!(keys.checked_version().is_some());
    assert_eq!(keys.find(&fixture.key).await, Ok(None));
    fixture.catalog.close().await.unwrap();
    fixture.pass_micros(FOUND_MICROS);
    assert_eq!(keys.find(&fixture.key).await, Err(CatalogUnavailable));
}
