//! Author of a change.

use crate::entities::users;
use sea_orm::prelude::Uuid;

/// Author of a change. Every function that writes takes one, because every write leaves an entry in
/// the activity log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Actor {
    /// User, through a personal key or a session, or while signing up or in.
    User {
        /// Number of the user.
        user_id: i64,
        /// First name at the time of the change; may be empty.
        first_name: String,
        /// Address at the time of the change.
        email: String,
        /// Key that was presented; `None` without one.
        key_id: Option<Uuid>,
    },
    /// Operator at a terminal, who may open the database.
    CommandLine,
    /// Millrace itself.
    System,
}

impl Actor {
    /// User with the key that was presented, if one was.
    #[must_use]
    pub fn user(user: &users::Model, key_id: Option<Uuid>) -> Self {
        Self::User {
            user_id: user.id,
            first_name: user.first_name.clone(),
            email: user.email.clone(),
            key_id,
        }
    }

    /// Operator at a terminal.
    #[must_use]
    pub const fn command_line() -> Self {
        Self::CommandLine
    }

    /// Millrace itself.
    #[must_use]
    pub const fn system() -> Self {
        Self::System
    }

    /// Number of the user; `None` unless the actor is a user.
    #[must_use]
    pub const fn user_id(&self) -> Option<i64> {
        match self {
            Self::User { user_id, .. } => Some(*user_id),
            Self::CommandLine | Self::System => None,
        }
    }

    /// Name in the activity log.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::User { first_name, .. } => first_name,
            Self::CommandLine => "Command line",
            Self::System => "System",
        }
    }

    pub(crate) fn email(&self) -> Option<&str> {
        match self {
            Self::User { email, .. } => Some(email),
            Self::CommandLine | Self::System => None,
        }
    }

    pub(crate) const fn key_id(&self) -> Option<Uuid> {
        match self {
            Self::User { key_id, .. } => *key_id,
            Self::CommandLine | Self::System => None,
        }
    }
}
