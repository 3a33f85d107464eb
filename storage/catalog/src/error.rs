//! What can go wrong with the catalog, and what to do about it.
//!
//! [`CatalogError`] is trouble with the database itself and is written for the operator.
//! [`ChangeError`] is the answer to a change that breaks a rule.

use crate::key::KeyFormError;
use crate::scopes::ScopeError;
use sea_orm::DbErr;
use std::borrow::Cow;
use std::fmt;

/// Trouble with the database. Each message names the place and the next step.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CatalogError {
    /// The URL names no database that we can use.
    #[error(
        "the database URL is not usable: {reason}; give sqlite://<path>?mode=rwc or \
         postgres://<user>:<password>@<host>/<database>"
    )]
    Url {
        /// What is wrong with it; never the URL itself, because it may hold a password.
        reason: String,
    },
    /// The file or its directory is missing, or may not be read or written.
    #[error(
        "cannot open the catalog {place}: {reason}; check that the directory exists and that \
         this user may read and write there"
    )]
    CannotOpen {
        /// The file.
        place: String,
        /// What the database says.
        reason: String,
    },
    /// There is none, where one was expected.
    #[error(
        "there is no catalog at {place}; give the data folder or the database URL of a server, whose \
         first start makes it (in PostgreSQL `millrace migrate` does, too)"
    )]
    Missing {
        /// The file or server.
        place: String,
    },
    /// The file is something else, or damaged.
    #[error(
        "the catalog {place} is not a readable SQLite database: {reason}; restore it from a \
         backup, or move it away to start with an empty one"
    )]
    Damaged {
        /// The file.
        place: String,
        /// What the database says.
        reason: String,
    },
    /// Somebody else kept it locked longer than we wait.
    #[error("the catalog {place} is locked by another process; stop it or try again")]
    Locked {
        /// The file.
        place: String,
    },
    /// Two changes waited for each other, and this one was given up.
    #[error("two changes of the catalog {place} got in each other's way: {reason}; try again")]
    Conflict {
        /// The server.
        place: String,
        /// What the database says.
        reason: String,
    },
    /// What a change depends on is not so any more.
    #[error("what the change depends on was changed by somebody else meanwhile; read it again")]
    ConditionBroken,
    /// The disk is full.
    #[error("no room left on the disk of the catalog {place}; make room and try again")]
    Full {
        /// The file or server.
        place: String,
    },
    /// The server knows the user not, or the password is another one.
    #[error("{place} refuses the user or password: {reason}; correct the database URL")]
    Refused {
        /// The server.
        place: String,
        /// What the database says.
        reason: String,
    },
    /// The server has no such database.
    #[error("{place}: {reason}; create the database first, for example with createdb")]
    NoSuchDatabase {
        /// The server.
        place: String,
        /// What the database says.
        reason: String,
    },
    /// The catalog was written by a newer version.
    #[error(
        "the catalog {place} was written by a newer version of millrace ({detail}); start that \
         version, or restore a backup made before the upgrade"
    )]
    NewerSchema {
        /// The file or server.
        place: String,
        /// Which migrations are unknown here.
        detail: String,
    },
    /// It does not answer, or not in time.
    #[error("cannot reach the catalog {place}: {reason}")]
    Unreachable {
        /// The file or server.
        place: String,
        /// What was tried.
        reason: String,
    },
    /// Anything else the database says.
    #[error("the catalog {place} failed: {reason}")]
    Failed {
        /// The file or server.
        place: String,
        /// What the database says.
        reason: String,
    },
    /// The system gave no random bytes.
    #[error("the system has no randomness for a new key: {0}")]
    NoRandomness(#[from] getrandom::Error),
}

/// Why a change was not made.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ChangeError {
    /// There is nothing of that name.
    #[error("there is no {what} {name:?}")]
    NotFound {
        /// Organization, project, user, key.
        what: &'static str,
        /// How it was asked for; masked if it was a key.
        name: String,
    },
    /// Empty, or longer than allowed.
    #[error("{what} must have 1 to {chars_max} characters")]
    BadName {
        /// Of what.
        what: &'static str,
        /// The field's name in the API.
        field: &'static str,
        /// Whether it is empty rather than too long.
        empty: bool,
        /// The longest allowed, in characters.
        chars_max: usize,
    },
    /// Not an address.
    #[error("{0:?} is not an e-mail address")]
    BadEmail(String),
    /// The form of a key is wrong.
    #[error(transparent)]
    BadKey(#[from] KeyFormError),
    /// A scope is unknown, or there is none.
    #[error(transparent)]
    BadScope(#[from] ScopeError),
    /// A key that would be dead at once.
    #[error("the key would have expired already; give a time in the future")]
    Expired,
    /// A user has the most keys allowed.
    #[error("the user has {0} keys, the most allowed; revoke one first")]
    TooManyKeys(u64),
    /// Another project has that key.
    #[error("another project has this key already")]
    KeyTaken,
    /// The project has a key; a second one would kill it silently.
    #[error("project {0} has a key already; rotate it to replace it")]
    HasKey(i64),
    /// Another user has that address.
    #[error("a user with the address {0:?} exists already")]
    EmailTaken(String),
    /// A value breaks a rule.
    #[error("{}", .0.detail)]
    Invalid(Box<Violation>),
    /// Whoever asked may not do this.
    #[error("{0}")]
    Forbidden(Cow<'static, str>),
    /// An operator took away from the organization what this needs.
    #[error("the organization does not have the feature {0}")]
    FeatureMissing(&'static str),
    /// Something besides the database that this needs cannot do it now.
    #[error("{0}")]
    Unavailable(String),
    /// The database failed.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
}

/// A rule that a value breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The field to blame, as the API names it, nested ones joined with `__`; `None` if it is no
    /// single one's fault.
    pub field: Option<String>,
    /// The API's code: `required`, `unique`, `invalid_input`, ….
    pub code: &'static str,
    /// What is wrong and what to do, for people.
    pub detail: String,
}

impl ChangeError {
    /// A rule that the value of `field` breaks.
    pub(crate) fn invalid(
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

    /// Something that whoever asked may not do.
    pub(crate) fn forbidden(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::Forbidden(detail.into())
    }

    /// Nothing of that name.
    pub(crate) fn not_found(what: &'static str, name: &dyn fmt::Display) -> Self {
        let name = name.to_string();
        Self::NotFound { what, name }
    }

    /// The broken rule, whichever variant tells of it; `None` for what is no fault of a value:
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

/// Whether a unique index refused a row.
pub(crate) fn is_duplicate(error: &DbErr) -> bool {
    matches!(
        error.sql_err(),
        Some(sea_orm::SqlErr::UniqueConstraintViolation(_))
    )
}
