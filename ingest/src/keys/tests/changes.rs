//! What this process and others change.

use super::{Fixture, Ordering};
use crate::keys::CatalogUnavailable;
use millrace_catalog::{Actor, NewProject};
use millrace_parse::KeyLookup;
use millrace_rows::TeamId;

#[tokio::test]
async fn changes_by_other_processes_are_noticed() {
    let fixture = Fixture::new().await;
    let keys = &fixture.keys;
    keys.look_for_changes().await;
    assert_eq!(keys.find(&fixture.key).await, Ok(Some(fixture.project)));
    keys.look_for_changes().await;
    assert_eq!(keys.cached(&fixture.key), KeyLookup::Found(fixture.project));
    fixture.revoke_elsewhere().await;
    keys.look_for_changes().await;
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
    let made = fixture.catalog.create_project(&system, organization, other);
    let other = TeamId(made.await.unwrap().id);
    keys.look_for_changes().await;
    for key in [fixture.key.as_str(), "other-key"] {
        assert!(keys.find(key).await.unwrap().is_some());
    }
    fixture.revoke_elsewhere().await;
    // Seen, and not used between that and the outage.
    keys.look_for_changes().await;
    fixture.catalog.close().await.unwrap();
    assert_eq!(keys.find(&fixture.key).await, Err(CatalogUnavailable));
    let found = keys.find("other-key").await.unwrap();
    assert_eq!(found.map(|project| project.team_id), Some(other));
}

#[tokio::test]
async fn the_watcher_looks_by_itself() {
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
async fn catching_up_doubts_answers_only_if_a_key_changed() {
    let fixture = Fixture::new().await;
    let keys = &fixture.keys;
    let found = KeyLookup::Found(fixture.project);
    // What the counter showed before is not known yet, so that anything may have changed.
    assert_eq!(keys.find(&fixture.key).await, Ok(Some(fixture.project)));
    keys.catch_up().await;
    assert_eq!(keys.cached(&fixture.key), KeyLookup::Missing);
    keys.look_for_changes().await;
    assert_eq!(keys.find(&fixture.key).await, Ok(Some(fixture.project)));
    keys.catch_up().await;
    assert_eq!(keys.cached(&fixture.key), found);
    fixture.revoke_elsewhere().await;
    keys.catch_up().await;
    assert_eq!(keys.find(&fixture.key).await, Ok(None));
    // The watcher still sees that change, as it does more than doubt.
    assert_eq!(keys.find("new-key").await, Ok(None));
    keys.look_for_changes().await;
    assert_eq!(keys.cached("new-key"), KeyLookup::Missing);
}

#[tokio::test]
async fn without_the_catalog_catching_up_doubts_everything() {
    let fixture = Fixture::new().await;
    let keys = &fixture.keys;
    keys.look_for_changes().await;
    assert_eq!(keys.find(&fixture.key).await, Ok(Some(fixture.project)));
    let generation = keys.0.generation.load(Ordering::Acquire);
    fixture.catalog.close().await.unwrap();
    keys.catch_up().await;
    assert_ne!(keys.0.generation.load(Ordering::Acquire), generation);
}
