//! Description of an operation, for the router, the middleware and the document.
//!
//! **To add an operation**, add a row to its resource's table and a handler beside it, in
//! `routes/<resource>.rs`; the table is listed in `routes/mod.rs`. The row has what the middleware
//! checks and what the document says; the handler does the rest:
//!
//! ```text
//! const ALL: &str = "/api/organizations/{organization_id}/roles/";
//! const WRITE: [RequiredScope; 1] = [RequiredScope::write("role")];
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
//! async fn create(context: Context, new: NewRole) -> Result<RoleBody, ApiError> {
//!     let (actor, id) = (context.actor()?, context.organization_id()?);
//!     let made = context.roles().create(&actor, id, new).await?;
//!     Ok(made.into())
//! }
//!
//! // In `millrace_organizations`, which owns roles:
//!
//! /// Fields of a new role.
//! #[derive(Clone, Debug, Deserialize, JsonSchema)]
//! pub struct NewRole {
//!     /// Name of the role; unique in the organization, ignoring case.
//!     #[schemars(length(min = 1, max = NAME_CHARS_MAX), regex(pattern = r"\S"))]
//!     pub name: String,
//! }
//! ```
//!
//! - **Paths** are templates with a slash at the end. `{organization_id}` and `{project_id}` are
//!   resolved before the handler runs, `@current` too ([`Context::organization`],
//!   [`Context::project`]). Other parameters are read by [`Context::uuid`], [`Context::integer`]
//!   and [`Context::text`].
//! - **Constructors**: [`Operation::list`], [`get`](Operation::get),
//!   [`create`](Operation::create) (201),
//!   [`patch`](Operation::patch) (with `PUT` beside it), [`delete`](Operation::delete) (204),
//!   [`action`](Operation::action) (`POST`, 200), [`patch_action`](Operation::patch_action),
//!   [`stream`](Operation::stream) (`POST` that only reads, with a streamed response),
//!   [`watch`](Operation::watch) (`GET` whose response has no end).
//! - **Bodies** are the inputs of the crate that owns the resource, `New…` and `…Change`; a route
//!   has a type of its own only where a body has other fields. They derive `Deserialize` and
//!   `JsonSchema`, and are checked against that schema before the handler runs; the first
//!   violation is answered. The names of types become names in the document:
//!   `#[schemars(rename = "…")]` where two would be alike; doc comments become descriptions.
//!   Fields that may be left out are [`Patch`], or `Option<_>` in a `New…` if null means the same;
//!   otherwise null is refused unless they are `Patch<Option<_>>`. Types for `PATCH` carry
//!   `#[serde(default)]` and are named `Patch…` in the document. Texts that may not be blank have
//!   the pattern `\S`. Times are [`UtcTime`]. Unknown fields are ignored by default.
//! - **Lists** return `context.list(context.page(), read).await`, where `read` returns the
//!   catalog's `Page` of a type that the wire type is `From`. It is called for pieces of a page,
//!   as a page ends at 4 MB.
//! - **Bounds** of body, response and time come with the constructor;
//!   [`large_response`](Operation::large_response) is for responses as large as a page. An
//!   operation that creates something names its [`Limit`] ([`limited_by`](Operation::limited_by));
//!   a test requires one.
//! - **The page**: a new group of operations has a title in `openapi/tags.rs`; the example comes
//!   from the tests, by `UPDATE=1 cargo test -p millrace-admin --test it paths`.
//! - **Errors** are [`ApiError`]s; `?` converts those of the catalog (module `error`).
//!
//! [`ApiError`]: crate::error::ApiError
//! [`Patch`]: millrace_catalog::Patch
//! [`UtcTime`]: millrace_catalog::UtcTime

mod bounds;
mod builder;
mod constructors;
mod limits;

pub(crate) use bounds::{Bounds, Limit};

use crate::context::Context;
use crate::response::{HandlerResult, ResponseSchema};
use crate::schema::BodySchema;
use http::{Method, StatusCode};
use millrace_catalog::{Feature, Level, RequiredScope};
use serde_json::Value;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

type HandlerFuture = Pin<Box<dyn Future<Output = HandlerResult> + Send>>;
type Handler = dyn Fn(Context, Value) -> HandlerFuture + Send + Sync;

/// Access that an operation requires, beside the scopes of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Anyone; a key is optional, but must work if it is sent.
    Open,
    /// Anyone with a key.
    Authenticated,
    /// Members of the path's organization with at least this level.
    Level(Level),
    /// Administrators, and members if the organization lets them write pipelines.
    Pipelines,
    /// Keys with the scope `operator`.
    Operator,
}

/// Parameter of the query, for the document; handlers read it by [`Context::query`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueryParameter {
    pub(crate) name: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) description: &'static str,
}

/// Error that an operation has beside those of all operations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failure {
    pub(crate) status: u16,
    pub(crate) code: &'static str,
    pub(crate) when: &'static str,
}

/// One method of one path: its checks, its documentation and its handler.
#[derive(Clone)]
pub(crate) struct Operation {
    pub(crate) method: Method,
    /// Template of the path: static parts, `{parameters}`, a slash at the end.
    pub(crate) path: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) description: &'static str,
    /// Scopes of which the key needs one; empty: none.
    pub(crate) scopes: &'static [RequiredScope],
    pub(crate) access: Access,
    /// Feature that the organization needs; an operator can take it away.
    pub(crate) feature: Option<Feature>,
    /// Status of success.
    pub(crate) status: StatusCode,
    /// Another status of success that the handler may set.
    pub(crate) other_status: Option<StatusCode>,
    pub(crate) body: Option<BodySchema>,
    pub(crate) response: ResponseSchema,
    /// True if the response is a page of a list.
    pub(crate) is_list: bool,
    /// Cost bounds of a request, and limits on all requests of an owner.
    pub(crate) bounds: Bounds,
    /// True for an action: it does something else than read, create, change or delete.
    pub(crate) is_action: bool,
    /// True for a read, also one by `POST`, whose response is streamed.
    pub(crate) is_stream: bool,
    /// True if `Idempotency-Key` is ignored: a replay could not set a cookie, and for strangers,
    /// without a token in the path, the catalog keeps nothing.
    pub(crate) is_never_replayed: bool,
    /// True if the handler waits for other services. No lock may be held meanwhile, so the
    /// operation depends on no version.
    pub(crate) waits_outside: bool,
    /// Operation that reads the resource that this one changes, if there is one: its response
    /// determines the version. The router sets it.
    pub(crate) version: Option<Arc<Operation>>,
    /// Fields of the response that change by themselves: they are not part of the version, so the
    /// response may not be cached.
    pub(crate) live_fields: &'static [&'static str],
    pub(crate) query: Vec<QueryParameter>,
    pub(crate) failures: Vec<Failure>,
    /// Fields of the response that hold secrets, which nobody can read again.
    pub(crate) shown_once: &'static [&'static str],
    /// Fields that PUT requires in addition; `None`: no PUT beside this PATCH.
    pub(crate) put_requires: Option<&'static [&'static str]>,
    pub(crate) run: Arc<Handler>,
}

impl Operation {
    /// `PUT` beside this `PATCH`, if there is one.
    pub(crate) fn put(&self) -> Option<Self> {
        let required = self.put_requires?;
        Some(Self {
            method: Method::PUT,
            put_requires: None,
            body: self.body.as_ref().map(|body| body.requiring(required)),
            ..self.clone()
        })
    }

    /// Returns true if the response has an `ETag`: a single resource, read or changed.
    pub(crate) fn has_tag(&self) -> bool {
        match self.method {
            Method::GET => !self.is_list && !self.is_stream,
            Method::PATCH | Method::PUT => !self.is_action,
            _ => false,
        }
    }

    /// Returns true if the operation changes a single resource, and so may depend on its version.
    pub(crate) fn changes_one_resource(&self) -> bool {
        match self.method {
            Method::GET => false,
            _ if self.waits_outside || self.is_stream => false,
            Method::POST => self.is_action && self.continues_one_resource(),
            _ => true,
        }
    }

    /// Returns true if an action's path continues the path of a single resource, not of a list.
    fn continues_one_resource(&self) -> bool {
        let path = self.path.trim_end_matches('/');
        let before = path.rsplit_once('/');
        before.is_some_and(|(before, _)| before.ends_with('}'))
    }
}
