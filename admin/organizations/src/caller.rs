//! Authenticated caller of the admin API: a program with a key, or a person with a session.

use millrace_catalog::entities::personal_api_keys::OrganizationIds;
use millrace_catalog::entities::users;
use millrace_catalog::{Actor, Scopes};
use sea_orm::prelude::Uuid;

/// Authenticated caller, with the permissions of the credential.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Owner of the credential.
    pub user: users::Model,
    /// Credential that was presented.
    pub credential: Credential,
    /// Scopes of the key, or all for a session; they never exceed the present permissions of the
    /// user.
    pub scopes: Scopes,
    /// Only organizations that the key can access; `None`: all of its owner's.
    pub scoped_organizations: Option<OrganizationIds>,
}

/// Credential by its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credential {
    /// Personal key.
    Key(Uuid),
    /// Session of a browser.
    Session(Uuid),
}

impl Caller {
    /// Actor of this request's changes.
    #[must_use]
    pub fn actor(&self) -> Actor {
        Actor::user(&self.user, self.credential.key_id())
    }
}

impl Credential {
    /// Id of the key or of the session.
    #[must_use]
    pub const fn id(self) -> Uuid {
        match self {
            Self::Key(id) | Self::Session(id) => id,
        }
    }

    /// Id of the key; `None` for a session.
    #[must_use]
    pub const fn key_id(self) -> Option<Uuid> {
        match self {
            Self::Key(id) => Some(id),
            Self::Session(_) => None,
        }
    }

    /// Id of the session; `None` for a key.
    #[must_use]
    pub const fn session_id(self) -> Option<Uuid> {
        match self {
            Self::Key(_) => None,
            Self::Session(id) => Some(id),
        }
    }
}
