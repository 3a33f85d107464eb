//! Notes of a project's first events, and their cost.

use super::super::answers::{FOUND_MICROS, RETRY_MICROS, lock};
use super::Fixture;
use millrace_catalog::ProjectKeys;
use millrace_organizations::Projects;
use millrace_parse::{KeyLookup, Project};

impl Fixture {
    /// Notes the first event as a core does once events of the project are on disk.
    fn store_events(&self) {
        let KeyLookup::Found(project) = self.keys.cached(&self.key) else {
            panic!("the key is not cached");
        };
        if !project.ingested_event {
            self.keys.note_first_event(&self.key, project.id);
        }
    }

    async fn is_noted(&self) -> bool {
        let project = Projects::new(&self.catalog).get(self.project.id).await;
        project.unwrap().unwrap().ingested_event
    }

    fn is_working(&self) -> bool {
        lock(&self.keys.0.first_events).is_running
    }

    async fn until_done(&self) {
        while self.is_working() {
            tokio::task::yield_now().await;
        }
    }

    fn known(&self) -> Project {
        Project {
            ingested_event: true,
            ..self.project
        }
    }
}

#[tokio::test]
async fn first_events_are_noted_and_later_ones_ask_nothing() {
    let fixture = Fixture::new().await;
    let keys = &fixture.keys;
    assert_eq!(keys.find(&fixture.key).await, Ok(Some(fixture.project)));
    assert!(!fixture.is_noted().await);
    for _ in 0..100 {
        fixture.store_events();
    }
    assert_eq!(lock(&keys.0.first_events).waiting.len(), 1);
    fixture.until_done().await;
    assert!(fixture.is_noted().await);
    // This thread learns with its next events at the latest.
    fixture.store_events();
    assert!(!fixture.is_working());
    assert_eq!(keys.cached(&fixture.key), KeyLookup::Found(fixture.known()));
    fixture.pass_micros(FOUND_MICROS);
    assert_eq!(keys.find(&fixture.key).await, Ok(Some(fixture.known())));
}

#[tokio::test]
async fn a_note_by_another_process_is_known_with_the_next_look_up() {
    let fixture = Fixture::new().await;
    assert!(fixture.keys.find(&fixture.key).await.is_ok());
    let elsewhere = fixture.elsewhere().await;
    let noted = ProjectKeys::new(&elsewhere)
        .note_first_event(fixture.project.id)
        .await;
    noted.unwrap();
    fixture.pass_micros(FOUND_MICROS);
    let found = fixture.keys.find(&fixture.key).await;
    assert_eq!(found, Ok(Some(fixture.known())));
    fixture.store_events();
    assert!(!fixture.is_working());
}

#[tokio::test]
async fn without_the_catalog_the_next_events_note_the_project() {
    let fixture = Fixture::new().await;
    let keys = &fixture.keys;
    assert_eq!(keys.find(&fixture.key).await, Ok(Some(fixture.project)));
    fixture.catalog.close().await.unwrap();
    fixture.store_events();
    fixture.until_done().await;
    // The catalog is left alone for a while, and its failure does not affect keys.
    fixture.store_events();
    assert!(!fixture.is_working());
    assert_eq!(keys.cached(&fixture.key), KeyLookup::Found(fixture.project));
    fixture.pass_micros(RETRY_MICROS);
    fixture.store_events();
    assert!(fixture.is_working());
    fixture.until_done().await;
    // Nor is it asked while it is known to be unreachable.
    fixture.pass_micros(RETRY_MICROS);
    keys.poll_changes().await;
    fixture.store_events();
    assert!(!fixture.is_working());
}

#[tokio::test]
async fn a_key_that_is_revoked_meanwhile_does_not_come_back() {
    let fixture = Fixture::new().await;
    let keys = &fixture.keys;
    assert_eq!(keys.find(&fixture.key).await, Ok(Some(fixture.project)));
    fixture.store_events();
    keys.invalidate_all();
    keys.0.found.invalidate(&*fixture.key);
    fixture.until_done().await;
    assert!(fixture.is_noted().await);
    assert!(keys.0.found.get(&*fixture.key).is_none());
}
