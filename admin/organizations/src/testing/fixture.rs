//! Fixture with an organization for a test, and another that must not be affected.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests end here"
)]

use crate::{
    ActivityFilter, ActivityLog, BootstrapOptions, NewUser, Organizations, PersonalKeys, Projects,
    Users, bootstrap,
};
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{ActivityEntry, ActivityScope, Actor, Catalog, Level, PageRequest, User};
use millrace_rows::{Clock, Micros, ProjectId, TestClock};
use std::sync::Arc;
use uuid::Uuid;

/// Start of tests: 2026-01-01T00:00:00Z, a Thursday.
pub const NOW: Micros = Micros(1_767_225_600_000_000);
/// Page that holds all of a short list.
pub const ALL: PageRequest = PageRequest {
    limit: 100,
    offset: 0,
};

/// Catalog with two organizations, one of which the actor owns.
#[derive(Debug)]
pub struct Fixture {
    /// Catalog with a clock of the test's.
    pub catalog: Catalog,
    clock: TestClock,
    /// Owner of the organization.
    pub actor: Actor,
    /// Organization of the test.
    pub organization_id: Uuid,
    /// Project of that organization.
    pub project_id: ProjectId,
    /// Organization that must not be affected.
    pub foreign_id: Uuid,
    /// Project of that organization.
    pub foreign_project_id: ProjectId,
}

impl Fixture {
    /// Makes both organizations in a catalog with the schema.
    ///
    /// # Panics
    ///
    /// Any database error.
    pub async fn open(database: &TestDatabase) -> Self {
        let clock = TestClock::at(NOW);
        let catalog = Catalog::open_with_clock(database.url(), Arc::new(clock.clone()))
            .await
            .unwrap();
        let options = BootstrapOptions::default();
        let made = bootstrap(&catalog, options).await.unwrap().unwrap();
        let key = made.personal_api_key.expose();
        let caller = PersonalKeys::new(&catalog)
            .authenticate(key)
            .await
            .unwrap()
            .unwrap();
        let actor = caller.actor();
        let foreign = Organizations::new(&catalog)
            .create(&actor, "Foreign", None)
            .await
            .unwrap();
        let projects = Projects::new(&catalog)
            .list_all(Some(foreign.id))
            .await
            .unwrap();
        Self {
            catalog,
            clock,
            actor,
            organization_id: made.organization_id,
            project_id: made.project_id,
            foreign_id: foreign.id,
            foreign_project_id: ProjectId(projects[0].id),
        }
    }

    /// Adds a member of the lowest level.
    ///
    /// # Panics
    ///
    /// Any database error.
    pub async fn member(&self) -> User {
        let new = NewUser {
            email: "mia@example.com".to_owned(),
            first_name: "Mia".to_owned(),
            last_name: String::new(),
        };
        let user = Users::new(&self.catalog).create(new).await.unwrap();
        let organization_id = self.organization_id;
        let added = self
            .catalog
            .add_member(organization_id, user.id, Level::Member);
        added.await.unwrap();
        user
    }

    /// Time by the test's clock.
    #[must_use]
    pub fn now(&self) -> Micros {
        self.clock.now()
    }

    /// Advances the clock.
    pub fn pass_micros(&self, micros: i64) {
        self.clock.set(Micros(self.now().0 + micros));
    }

    /// Entries of a scope in the activity log, newest first.
    ///
    /// # Panics
    ///
    /// Any database error.
    pub async fn activity(&self, scope: ActivityScope) -> Vec<ActivityEntry> {
        let filter = ActivityFilter {
            organization_id: self.organization_id,
            scopes: vec![scope],
            item_id: None,
        };
        ActivityLog::new(&self.catalog)
            .list(&filter, ALL)
            .await
            .unwrap()
            .rows
    }
}
