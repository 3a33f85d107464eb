//! Signing in of people: links that work once, and the sessions of browsers.
//!
//! | Module | Holds |
//! |---|---|
//! | `links` | links, which the operator makes or the user asks for by mail |
//! | `sign_in` | a link becomes a session |
//! | `authenticate` | caller of a presented token |
//! | `owned` | sessions that their user lists and ends |
//!
//! A session has all rights of its user, as they are at each request: the row is read each time, so
//! a session that was ended is refused from the next request on. It ends after 12 hours without
//! use, 30 days after signing in at the latest, when it is ended, and when a membership of its user
//! is removed. Ended sessions have no row, or one that `cleanup` deletes.
//!
//! Every way of signing in leads to [`Sessions::open`], which is where further ones, and a second
//! factor, belong.

mod authenticate;
mod links;
mod owned;
mod sign_in;

pub use links::{CreatedLink, SIGN_IN_LINK_LIFETIME};
pub(crate) use owned::{end_all_of, must_be_in_force};
pub use sign_in::OpenedSession;

use millrace_catalog::entities::{sessions, users};
use millrace_catalog::{Activity, ActivityScope, AuditChange, Catalog};
use std::time::Duration;

/// Longest time from signing in to the end of a session.
pub const SESSION_LIFETIME: Duration = Duration::from_secs(30 * 24 * 3_600);
/// Longest name of a browser that is kept, in characters.
const USER_AGENT_CHARS_MAX: usize = 200;

/// Sessions of users, and the links that lead to them.
#[derive(Clone, Copy, Debug)]
pub struct Sessions<'a>(&'a Catalog);

impl<'a> Sessions<'a> {
    /// Returns a handle to the sessions in a catalog.
    #[must_use]
    pub const fn new(catalog: &'a Catalog) -> Self {
        Self(catalog)
    }
}

fn session_audit(
    activity: Activity,
    session: &sessions::Model,
    user: &users::Model,
) -> AuditChange {
    let scope = ActivityScope::Session;
    AuditChange::new(activity, scope, None, &session.id, &user.email)
}
