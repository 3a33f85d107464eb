//! Look-ups under way: shared by requests for one key, and bounded.

use super::super::answers::{CatalogUnavailable, FOUND_MICROS, lock};
use super::super::lookup::{LOOKUPS_MAX, LOOKUPS_WITH_FOUND_MAX};
use super::Fixture;
use futures_util::FutureExt;
use futures_util::future::join_all;
use millrace_parse::KeyLookup;

#[tokio::test]
async fn requests_for_one_key_share_one_look_up() {
    let fixture = Fixture::new().await;
    let mut finding = join_all((0..100).map(|_| fixture.keys.find(&fixture.key)));
    assert!((&mut finding).now_or_never().is_none());
    assert_eq!(fixture.lookups(), 1);
    for found in finding.await {
        assert_eq!(found, Ok(Some(fixture.project)));
    }
    assert_eq!(fixture.lookups(), 0);
}

#[tokio::test]
async fn a_look_up_goes_on_when_its_first_caller_is_cancelled() {
    let fixture = Fixture::new().await;
    let mut first = Box::pin(fixture.keys.find(&fixture.key));
    assert!((&mut first).now_or_never().is_none());
    let second = fixture.keys.find(&fixture.key);
    drop(first);
    assert_eq!(second.await, Ok(Some(fixture.project)));
}

#[tokio::test]
async fn look_ups_at_a_time_are_bounded() {
    let fixture = Fixture::new().await;
    let names: Vec<String> = (0..=LOOKUPS_MAX).map(|n| format!("key-{n}")).collect();
    let mut finding = join_all(names.iter().map(|name| fixture.keys.find(name)));
    assert!((&mut finding).now_or_never().is_none());
    assert_eq!(fixture.lookups(), LOOKUPS_MAX);
    let refused = finding.await.into_iter().filter(Result::is_err).count();
    assert_eq!(refused, 1);
    assert_eq!(fixture.lookups(), 0);
}

#[tokio::test]
async fn a_key_that_was_found_does_not_wait_for_keys_of_nobody() {
    let fixture = Fixture::new().await;
    let keys = &fixture.keys;
    assert_eq!(keys.find(&fixture.key).await, Ok(Some(fixture.project)));
    fixture.pass_micros(FOUND_MICROS);
    // No look-up makes progress before one is awaited.
    let names: Vec<String> = (0..=LOOKUPS_MAX).map(|n| format!("key-{n}")).collect();
    let mut garbage = join_all(names.iter().map(|name| keys.find(name)));
    assert!((&mut garbage).now_or_never().is_none());
    let mut found = Box::pin(keys.find(&fixture.key));
    assert!((&mut found).now_or_never().is_none());
    assert_eq!(fixture.lookups(), LOOKUPS_MAX + 1);
    assert_eq!(found.await, Ok(Some(fixture.project)));
    garbage.await;
    assert_eq!(keys.cached(&fixture.key), KeyLookup::Found(fixture.project));
}

#[tokio::test]
async fn a_known_key_is_taken_from_the_cache_while_lookups_are_full() {
    let fixture = Fixture::new().await;
    let keys = &fixture.keys;
    assert_eq!(keys.find(&fixture.key).await, Ok(Some(fixture.project)));
    fixture.pass_micros(FOUND_MICROS);
    let fill = || {
        let mut lookups = lock(&keys.0.lookups);
        let (_, pending) = tokio::sync::watch::channel(None);
        for n in lookups.len()..LOOKUPS_WITH_FOUND_MAX {
            lookups.insert(format!("key-{n}").into(), pending.clone());
        }
    };
    fill();
    assert_eq!(keys.find(&fixture.key).await, Ok(Some(fixture.project)));
    assert_eq!(keys.find("never-seen").await, Err(CatalogUnavailable));
    // Unless it may have been revoked meanwhile.
    keys.invalidate_all();
    assert_eq!(keys.find(&fixture.key).await, Err(CatalogUnavailable));
    lock(&keys.0.lookups).clear();
    assert_eq!(keys.find(&fixture.key).await, Ok(Some(fixture.project)));
}
