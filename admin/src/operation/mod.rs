//! One operation: what the router, the stages and the document need to know of it.
//!
//! **Adding an operation** is a row in its resource's table and a handler beside it, in
//! `routes/<resource>.rs`; the table is listed in `routes/mod.rs`. The row says what the stages
//! check and what the document tells; the handler is what remains:
//!
//! ```text
//! const ALL: &str = "/api/organizations/{organization_id}/roles/";
//! const WRITE: [Need; 2] = [Need::write("role"), Need::write("organization")];
//!
//! pub(crate) fn operations() -> Vec<Operation> {
//!     vec![
//!         Operation::create(ALL, create)
//!             .about("Create a role")
//!             .scopes(&WRITE)
//!             .level(Level::Administrator)
//!             .fails(400, "unique", "Another role has this name, in whatever case."),
//!     ]
//! }
//!
//! /// What a role is made of.
//! #[derive(Debug, Deserialize, JsonSchema)]
//! struct NewRole {
//!     #[schemars(length(min = 1, max = 200), regex(pattern = r"\S"))]
//!     name: String,
//! }
//!
//! async fn create(context: Context, new: NewRole) -> Result<RoleBody, ApiError> {
//!     let (actor, id) = (context.actor()?, context.organization_id()?);
//!     let made = context.catalog().create_role(&actor, id, &new.name).await?;
//!     Ok(made.into())
//! }
//! ```
//!
//! - **Paths** are templates with a slash at the end. `{organization_id}` and `{project_id}` are
//!   resolved before the handler runs, `@current` too ([`Context::organization`],
//!   [`Context::project`]). Other parameters are read by [`Context::uuid`], [`Context::integer`]
//!   and [`Context::text`].
//! - **Kinds**: [`Operation::list`], [`get`](Operation::get), [`create`](Operation::create) (201),
//!   [`patch`](Operation::patch) (with `PUT` beside it), [`delete`](Operation::delete) (204),
//!   [`action`](Operation::action) (`POST`, 200), [`patch_action`](Operation::patch_action).
//! - **Bodies** derive `Deserialize` and `JsonSchema`, and are checked against that schema before
//!   the handler runs; the first violation is the answer. The names of types become names in the
//!   document: `#[schemars(rename = "…")]` where two would be alike. Fields that may be left out
//!   are [`Patch`]; null is refused unless they are `Patch<Option<_>>`. Types for `PATCH` carry
//!   `#[serde(default)]` and are named `Patch…`. Texts that may not be blank have the pattern
//!   `\S`. Times are [`Timestamp`]. Unknown fields are ignored by themselves.
//! - **Lists**: `context.list(context.page(), read).await` where `read` answers the catalog's `Page`
//!   of something that the wire type is `From`: it is asked for pieces, as a page ends at 4 MB.
//! - **Bounds** of body, answer and time come with the kind; [`answers_much`](Operation::answers_much)
//!   is for what may be as large as a page. Whatever makes something names the [`Limit`] that counts
//!   it ([`counted`](Operation::counted)): a test asks for one.
//! - **Errors** are [`ApiError`]s; `?` turns those of the catalog into them, in `error`.
//!
//! [`Patch`]: crate::patch::Patch
//! [`Timestamp`]: crate::timestamp::Timestamp

mod bounds;
mod kinds;
mod terms;

pub(crate) use bounds::{Bounds, Limit};

use crate::answer::{Answer, AnswerSchema};
use crate::context::Context;
use crate::error::ApiError;
use crate::schema::BodySchema;
use http::{Method, StatusCode};
use millrace_catalog::{Feature, Level, Need};
use serde_json::Value;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// What a handler makes of a request.
pub(crate) type Outcome = Result<Answer, ApiError>;
type Running = Pin<Box<dyn Future<Output = Outcome> + Send>>;
type Run = dyn Fn(Context, Value) -> Running + Send + Sync;

/// Who may use an operation, beside the scopes of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Anyone; if there is a key it must work.
    Open,
    /// Anyone with a key.
    Authenticated,
    /// Members of the path's organization from this level on.
    Level(Level),
    /// Administrators, and members too where the organization lets them write pipelines.
    Pipelines,
    /// Keys with the scope `operator`.
    Operator,
}

/// A parameter of the query, for the document; handlers read it by [`Context::query`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueryParameter {
    pub(crate) name: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) description: &'static str,
}

/// An error that an operation adds to those that all have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failure {
    pub(crate) status: u16,
    pub(crate) code: &'static str,
    pub(crate) when: &'static str,
}

/// One operation.
#[derive(Clone)]
pub(crate) struct Operation {
    pub(crate) method: Method,
    /// The template of the path: static parts, `{parameters}`, a slash at the end.
    pub(crate) path: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) description: &'static str,
    /// Any one of them will do; none: the key needs no scope.
    pub(crate) scopes: &'static [Need],
    pub(crate) access: Access,
    /// What an operator can take away from the organization.
    pub(crate) feature: Option<Feature>,
    /// The status of success.
    pub(crate) status: StatusCode,
    /// Another one that the handler may give.
    pub(crate) other_status: Option<StatusCode>,
    pub(crate) body: Option<BodySchema>,
    pub(crate) answer: AnswerSchema,
    /// Whether the answer is a page of a list.
    pub(crate) is_list: bool,
    /// What a request may cost, and what counts all of somebody's.
    pub(crate) bounds: Bounds,
    /// Whether it does something beside reading, creating, changing or deleting.
    pub(crate) is_action: bool,
    /// Whether its handler waits for other services: no lock may be held meanwhile, so it depends
    /// on no version.
    pub(crate) waits_outside: bool,
    /// How the thing that it changes is read, if it can be: its version is what that answers. The
    /// router sets it.
    pub(crate) version: Option<Arc<Operation>>,
    /// Fields of the answer that change by themselves: no part of the version, and so no copies are kept.
    pub(crate) live_fields: &'static [&'static str],
    pub(crate) query: Vec<QueryParameter>,
    pub(crate) failures: Vec<Failure>,
    /// Fields of the answer that are secrets, known to nobody once it was sent.
    pub(crate) shown_once: &'static [&'static str],
    /// The fields that PUT requires on top; `None`: no PUT beside this PATCH.
    pub(crate) put_requires: Option<&'static [&'static str]>,
    pub(crate) run: Arc<Run>,
}

impl Operation {
    /// The `PUT` beside this `PATCH`, if there is one.
    pub(crate) fn put(&self) -> Option<Self> {
        let required = self.put_requires?;
        Some(Self {
            method: Method::PUT,
            put_requires: None,
            body: self.body.as_ref().map(|body| body.requiring(required)),
            ..self.clone()
        })
    }

    /// Whether its answer has a tag: single things, read or changed.
    pub(crate) fn has_tag(&self) -> bool {
        match self.method {
            Method::GET => !self.is_list,
            Method::PATCH | Method::PUT => !self.is_action,
            _ => false,
        }
    }

    /// Whether it changes one thing at once, and so may depend on that thing's version, if there
    /// is one.
    pub(crate) fn changes_one_thing(&self) -> bool {
        match self.method {
            Method::GET => false,
            _ if self.waits_outside => false,
            Method::POST => self.is_action && self.hangs_on_one_thing(),
            _ => true,
        }
    }

    /// Whether an action's path goes on from a thing's own, not from a list's.
    fn hangs_on_one_thing(&self) -> bool {
        let path = self.path.trim_end_matches('/');
        let before = path.rsplit_once('/');
        before.is_some_and(|(before, _)| before.ends_with('}'))
    }
}
