//! Errors of the catalog.
//!
//! [`CatalogError`] is a fault of the database itself; its messages are for the operator.
//! [`ChangeError`] is the answer to a change that breaks a rule.

use crate::key::KeyFormError;
use crate::scopes::ScopeError;
use sea_orm::DbErr;
use sea_orm::prelude::Uuid;
use std::borrow::Cow;
use std::fmt;

/// Fault of the database. Each message names the location and the next step.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CatalogError {
    /// The URL names no database that we can use.
    #[error(
        "the database URL is not usable: {reason}; give sqlite://<path>?mode=rwc or \
         postgres://<user>:<password>@<host>/<database>"
    )]
    Url {
        /// Fault of the URL; never the URL itself, because it may hold a password.
        reason: String,
    },
    /// The file or its directory is missing, or may not be read or written.
    #[error(
        "cannot open the catalog {location}: {reason}; check that the directory exists and that \
         this user may read and write there"
    )]
    CannotOpen {
        /// Path of the file.
        location: String,
        /// Message of the database.
        reason: String,
    },
    /// There is no catalog where one was expected.
    #[error(
        "there is no catalog at {location}; give the data folder or the database URL of a server, \
         whose first start creates it (in PostgreSQL `millrace migrate` does, too)"
    )]
    Missing {
        /// Path of the file, or server and database.
        location: String,
    },
    /// The file is something else, or damaged.
    #[error(
        "the catalog {location} is not a readable SQLite database: {reason}; restore it from a \
         backup, or begin anew with an empty data folder"
    )]
    Damaged {
        /// Path of the file.
        location: String,
        /// Message of the database.
        reason: String,
    },
    /// Another process kept the file locked longer than we wait.
    #[error("the catalog {location} is locked by another process; stop it or try again")]
    Locked {
        /// Path of the file.
        location: String,
    },
    /// Two changes waited for each other, or this one too long for another; it was given up.
    #[error("two changes of the catalog {location} got in each other's way: {reason}; try again")]
    Conflict {
        /// Server and database.
        location: String,
        /// Message of the database.
        reason: String,
    },
    /// The condition of a change does not hold any more.
    #[error("what the change depends on was changed by somebody else meanwhile; read it again")]
    ConditionBroken,
    /// The disk is full.
    #[error("no space left on the disk of the catalog {location}; free some and try again")]
    Full {
        /// Path of the file, or server and database.
        location: String,
    },
    /// The server does not know the user, or the password is wrong.
    #[error("{location} refuses the user or password: {reason}; correct the database URL")]
    Refused {
        /// Server and database.
        location: String,
        /// Message of the database.
        reason: String,
    },
    /// The server has no such database.
    #[error("{location}: {reason}; create the database first, for example with createdb")]
    NoSuchDatabase {
        /// Server and database.
        location: String,
        /// Message of the database.
        reason: String,
    },
    /// The catalog was written by a newer version.
    #[error(
        "the catalog {location} was written by a newer version of millrace ({detail}); start that \
         version, or restore a backup made before the upgrade"
    )]
    NewerSchema {
        /// Path of the file, or server and database.
        location: String,
        /// Names of the migrations that are unknown here.
        detail: String,
    },
    /// The catalog was written by a version before commit 4bbccd5.
    #[error(
        "the catalog {location} is of a version before commit 4bbccd5 (it lacks the migration \
         {missing}), which this one cannot open; start the millrace of that commit with it once, \
         which brings it up to date, stop it, and start this one again"
    )]
    OlderSchema {
        /// Path of the file, or server and database.
        location: String,
        /// First migration of that commit that was not applied.
        missing: &'static str,
    },
    /// The database does not answer, or not in time.
    #[error("cannot reach the catalog {location}: {reason}")]
    Unreachable {
        /// Path of the file, or server and database.
        location: String,
        /// Failed attempt and its error.
        reason: String,
    },
    /// Any other error of the database.
    #[error("the catalog {location} failed: {reason}")]
    Failed {
        /// Path of the file, or server and database.
        location: String,
        /// Message of the database.
        reason: String,
    },
    /// The interval in an export's row is none: another program wrote it, or a newer version.
    #[error(
        "the export {export_id} has the interval {interval:?} in the catalog, which is not valid; \
         give the export another one"
    )]
    WrongInterval {
        /// Export that is left alone until its interval is corrected.
        export_id: Uuid,
        /// Interval as it is stored.
        interval: String,
    },
    /// The system gave no random bytes.
    #[error("the system has no randomness for a new key: {0}")]
    NoRandomness(#[from] getrandom::Error),
}

/// Reason why a change was not made.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ChangeError {
    /// Nothing has that name.
    #[error("there is no {what} {name:?}")]
    NotFound {
        /// Kind of the resource, such as organization, project, user or key.
        what: &'static str,
        /// Requested name; masked if it was a key.
        name: String,
    },
    /// A name is empty, or longer than allowed.
    #[error("{what} must have 1 to {chars_max} characters")]
    BadName {
        /// Description of the name, for people.
        what: &'static str,
        /// Field in the API.
        field: &'static str,
        /// True if it is empty rather than too long.
        empty: bool,
        /// Longest allowed name, in characters.
        chars_max: usize,
    },
    /// A text is not an address.
    #[error("{0:?} is not an e-mail address")]
    BadEmail(String),
    /// The format of a key is wrong.
    #[error(transparent)]
    BadKey(#[from] KeyFormError),
    /// A scope is unknown, or there is none.
    #[error(transparent)]
    BadScope(#[from] ScopeError),
    /// A key would expire at once.
    #[error("the key would have expired already; give a time in the future")]
    Expired,
    /// A user has the most keys allowed.
    #[error("the user has {0} keys, the most allowed; revoke one first")]
    TooManyKeys(u64),
    /// Another project has that key.
    #[error("another project has this key already")]
    KeyTaken,
    /// The project has a key already; a second one would replace it silently.
    #[error("project {0} has a key already; rotate it to replace it")]
    HasKey(i64),
    /// Another user has that address.
    #[error("a user with the address {0:?} exists already")]
    EmailTaken(String),
    /// A value breaks a rule.
    #[error("{}", .0.detail)]
    Invalid(Box<Violation>),
    /// The caller may not do this.
    #[error("{0}")]
    Forbidden(Cow<'static, str>),
    /// The organization lacks a feature that an operator took away.
    #[error("the organization does not have the feature {0}")]
    FeatureMissing(&'static str),
    /// A service besides the database is unavailable.
    #[error("{0}")]
    Unavailable(String),
    /// The database failed.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
}

/// Rule that a value breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Field at fault, as the API names it, nested ones joined with `__`; `None` if no single field
    /// is at fault.
    pub field: Option<String>,
    /// Code in the API: `required`, `unique`, `invalid_input`, ….
    pub code: &'static str,
    /// Fault and remedy, for people.
    pub detail: String,
}

impl ChangeError {
    /// Error about a rule that the value of `field` breaks.
    #[must_use]
    pub fn invalid(
        field: impl Into<Option<&'static str>>,
        code: &'static str,
        detail: impl Into<String>,
    ) -> Self {
        Self::Invalid(Box::new(Violation {
            field: field.into().map(str::to_owned),
            code,
            detail: detail.into(),
        }))
    }

    /// Refusal of an action that the caller may not take.
    #[must_use]
    pub fn forbidden(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::Forbidden(detail.into())
    }

    /// Error for a name that nothing has.
    #[must_use]
    pub fn not_found(what: &'static str, name: &dyn fmt::Display) -> Self {
        let name = name.to_string();
        Self::NotFound { what, name }
    }

    /// Broken rule, whichever variant carries it; `None` for errors that are no fault of a value:
    /// [`ChangeError::NotFound`], [`ChangeError::Forbidden`], [`ChangeError::FeatureMissing`],
    /// [`ChangeError::Unavailable`], [`ChangeError::Catalog`].
    #[must_use]
    pub fn violation(&self) -> Option<Violation> {
        let (field, code) = match self {
            Self::NotFound { .. }
            | Self::Forbidden(_)
            | Self::FeatureMissing(_)
            | Self::Unavailable(_)
            | Self::Catalog(_) => return None,
            Self::Invalid(violation) => return Some((**violation).clone()),
            Self::BadName { field, empty, .. } if *empty => (Some(*field), "blank"),
            Self::BadName { field, .. } => (Some(*field), "max_length"),
            Self::BadEmail(_) => (Some("email"), "invalid_input"),
            Self::BadKey(_) => (Some("api_token"), "invalid_input"),
            Self::BadScope(_) => (Some("scopes"), "invalid_input"),
            Self::Expired => (Some("expires_at"), "invalid_input"),
            Self::TooManyKeys(_) | Self::HasKey(_) => (None, "invalid_input"),
            Self::KeyTaken => (Some("api_token"), "unique"),
            Self::EmailTaken(_) => (Some("email"), "unique"),
        };
        Some(Violation {
            field: field.map(str::to_owned),
            code,
            detail: self.to_string(),
        })
    }
}

impl From<getrandom::Error> for ChangeError {
    fn from(error: getrandom::Error) -> Self {
        Self::Catalog(error.into())
    }
}

/// Returns true if a unique index refused a row.
#[must_use]
pub fn is_duplicate(error: &DbErr) -> bool {
    matches!(
        error.sql_err(),
        Some(sea_orm::SqlErr::UniqueConstraintViolation(_))
    )
}
