//! Test environment: a catalog with one organization and a test clock.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests end here")]

use crate::{
    ActivityFilter, ActivityLog, Caller, NewPersonalKey, NewUser, Organizations, PersonalKeys,
    Users,
};
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{
    ActivityEntry, ActivityScope, Actor, Catalog, ChangeError, PageRequest, Scopes, User, Violation,
};
use millrace_rows::{Micros, TestClock};
use std::sync::Arc;
use uuid::Uuid;

/// First page of a list.
pub const FIRST: PageRequest = PageRequest {
    limit: 100,
    offset: 0,
};
/// A day, in microseconds.
pub const DAY_MICROS: i64 = 86_400_000_000;
/// Start of tests.
pub const START: Micros = Micros(1_800_000_000_000_000);

/// Catalog with an organization "Acme" that Ann owns.
#[derive(Debug)]
pub struct TestEnv {
    /// Catalog with the test's clock.
    pub catalog: Catalog,
    /// Clock of the catalog.
    pub clock: TestClock,
    /// The organization.
    pub organization: Uuid,
    /// Owner of the organization.
    pub ann: User,
    /// Ann as an actor.
    pub owner: Actor,
}

impl TestEnv {
    /// Makes the organization in a catalog with the schema.
    ///
    /// # Panics
    ///
    /// Any database error.
    pub async fn new(database: &TestDatabase) -> Self {
        let clock = TestClock::at(START);
        let opened = Catalog::open_with_clock(database.url(), Arc::new(clock.clone()));
        let catalog = opened.await.unwrap();
        let ann = add_user(&catalog, "ann").await;
        let owner = actor(&ann);
        let made = Organizations::new(&catalog).create(&owner, "Acme", Some(ann.id));
        let organization = made.await.unwrap().id;
        Self {
            catalog,
            clock,
            organization,
            owner,
            ann,
        }
    }

    /// Adds a user `<name>@example.com` without memberships.
    ///
    /// # Panics
    ///
    /// Any database error.
    pub async fn user(&self, name: &str) -> User {
        add_user(&self.catalog, name).await
    }

    /// Caller with a key for everything.
    ///
    /// # Panics
    ///
    /// Any database error.
    pub async fn caller(&self, user: &User) -> Caller {
        self.caller_with(user, |_| ()).await
    }

    /// Caller with another key.
    ///
    /// # Panics
    ///
    /// Any database error.
    pub async fn caller_with(
        &self,
        user: &User,
        change: impl FnOnce(&mut NewPersonalKey),
    ) -> Caller {
        let mut new = NewPersonalKey {
            email: user.email.clone(),
            label: "Test".to_owned(),
            scopes: Scopes::all(),
            expires_at: None,
            scoped_organizations: None,
        };
        change(&mut new);
        let made = PersonalKeys::new(&self.catalog)
            .create(&actor(user), new)
            .await;
        let key = made.unwrap().value;
        let caller = PersonalKeys::new(&self.catalog)
            .authenticate(key.expose())
            .await
            .unwrap();
        caller.unwrap()
    }

    /// Newest entry of the activity log.
    ///
    /// # Panics
    ///
    /// Any database error.
    pub async fn newest_entry(&self) -> ActivityEntry {
        self.entries(None).await.remove(0)
    }

    /// Entries of a scope, newest first.
    ///
    /// # Panics
    ///
    /// Any database error.
    pub async fn entries(&self, scope: impl Into<Option<ActivityScope>>) -> Vec<ActivityEntry> {
        let filter = ActivityFilter {
            organization_id: self.organization,
            scopes: scope.into().into_iter().collect(),
            item_id: None,
        };
        let entries = ActivityLog::new(&self.catalog).list(&filter, FIRST).await;
        entries.unwrap().rows
    }
}

async fn add_user(catalog: &Catalog, name: &str) -> User {
    let new = NewUser {
        email: format!("{name}@example.com"),
        first_name: name.to_owned(),
        last_name: String::new(),
    };
    Users::new(catalog).create(new).await.unwrap()
}

/// Returns a user as an actor, without a key.
#[must_use]
pub fn actor(user: &User) -> Actor {
    Actor::user(user, None)
}

/// Code and field of a refusal.
///
/// # Panics
///
/// Nothing was refused, or the database failed.
pub fn violation<T: std::fmt::Debug>(
    refused: Result<T, ChangeError>,
) -> (&'static str, Option<String>) {
    let error = refused.unwrap_err();
    match (error.violation(), &error) {
        (Some(Violation { field, code, .. }), _) => (code, field),
        (None, ChangeError::Forbidden(_)) => ("permission_denied", None),
        (None, ChangeError::FeatureMissing(feature)) => {
            ("payment_required", Some((*feature).to_owned()))
        }
        (None, ChangeError::NotFound { .. }) => ("not_found", None),
        (None, _) => panic!("{error:?}"),
    }
}

/// Refusal that names a field.
#[must_use]
pub fn field(code: &'static str, name: &str) -> (&'static str, Option<String>) {
    (code, Some(name.to_owned()))
}
