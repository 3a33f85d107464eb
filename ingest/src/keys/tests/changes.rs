//! What other processes change.

use super::Fixture;
use crate::keys::CatalogUnavailable;
use millrace_catalog::{Actor, NewProject};
use millrace_parse::KeyLookup;
use millrace_rows::TeamId;

#[tokio::test]
async fn changes_by_other_processes_are_noticed() {
    let fixture = Fixture::new().await;
    let keys = &fixture.keys;
    let mut seen = None;
    keys.look_for_changes(&mut seen).await;
    assert_eq!(keys.find(&fixture.key).await, Ok(Some(fixture.project)));
    keys.look_for_changes(&mut seen).await;
    assert_eq!(keys.cached(&fixture.key), KeyLookup::Found(fixture.project));
    fixture.revoke_elsewhere().await;
    keys.look_for_changes(&mut seen).await;
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
    let mut seen = None;
    keys.look_for_changes(&mut seen).await;
    for key in [fixture.key.as_str(), "other-key"] {
        assert!(keys.find(key).await.unwrap().is_some());
    }
    fixture.revoke_elsewhere().await;
    // Seen, and not used between that and the outage.
    keys.look_for_changes(&mut seen).await;
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
