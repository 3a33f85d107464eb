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
//! - **Lists**: `Ok(context.envelope(page, found))` with `page = context.page()` and `found` the
//!   catalog's `Page` of something that the wire type is `From`.
//! - **Errors** are [`ApiError`]s; `?` turns those of the catalog into them, in `error`.
//!
//! [`Patch`]: crate::patch::Patch
//! [`Timestamp`]: crate::timestamp::Timestamp

use crate::answer::{Answer, AnswerSchema, IntoAnswer};
use crate::context::Context;
use crate::error::ApiError;
use crate::page::Envelope;
use crate::schema::BodySchema;
use http::{Method, StatusCode};
use millrace_catalog::{Level, Need};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
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
    pub(crate) feature: Option<&'static str>,
    /// The status of success.
    pub(crate) status: StatusCode,
    /// Another one that the handler may give.
    pub(crate) other_status: Option<StatusCode>,
    pub(crate) body: Option<BodySchema>,
    pub(crate) answer: AnswerSchema,
    /// Whether the answer is a page of a list.
    pub(crate) is_list: bool,
    /// Whether it does something beside reading, creating, changing or deleting.
    pub(crate) is_action: bool,
    pub(crate) query: Vec<QueryParameter>,
    pub(crate) failures: Vec<Failure>,
    /// Fields of the answer that are secrets, known to nobody once it was sent.
    pub(crate) shown_once: &'static [&'static str],
    /// The fields that PUT requires on top; `None`: no PUT beside this PATCH.
    pub(crate) put_requires: Option<&'static [&'static str]>,
    pub(crate) run: Arc<Run>,
}

// === constructors ===

impl Operation {
    /// `GET` of a list, in pages.
    pub(crate) fn list<H, F, T>(path: &'static str, handler: H) -> Self
    where
        H: Fn(Context) -> F + Send + Sync + 'static,
        F: Future<Output = Result<Envelope<T>, ApiError>> + Send + 'static,
        T: Serialize + JsonSchema + 'static,
    {
        let mut operation = Self::get(path, handler);
        operation.is_list = true;
        operation
    }

    /// `GET` of one thing: 200 with a strong `ETag`.
    pub(crate) fn get<H, F, A>(path: &'static str, handler: H) -> Self
    where
        H: Fn(Context) -> F + Send + Sync + 'static,
        F: Future<Output = Result<A, ApiError>> + Send + 'static,
        A: IntoAnswer + 'static,
    {
        Self::without_body(Method::GET, path, handler)
    }

    /// `POST` to a list: 201 with what was made.
    pub(crate) fn create<H, F, B, A>(path: &'static str, handler: H) -> Self
    where
        H: Fn(Context, B) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Result<A, ApiError>> + Send + 'static,
        B: DeserializeOwned + JsonSchema + Send + 'static,
        A: IntoAnswer + 'static,
    {
        let mut operation = Self::with_body(Method::POST, path, handler);
        operation.status = StatusCode::CREATED;
        operation
    }

    /// `POST` that does something: 200. Without a body of its own, take [`Nothing`].
    ///
    /// [`Nothing`]: crate::schema::Nothing
    pub(crate) fn action<H, F, B, A>(path: &'static str, handler: H) -> Self
    where
        H: Fn(Context, B) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Result<A, ApiError>> + Send + 'static,
        B: DeserializeOwned + JsonSchema + Send + 'static,
        A: IntoAnswer + 'static,
    {
        let mut operation = Self::with_body(Method::POST, path, handler);
        operation.is_action = true;
        operation
    }

    /// `PATCH` of one thing: 200 with the thing as it is now. `PUT` is routed beside it, and
    /// requires the fields `put_requires`.
    pub(crate) fn patch<H, F, B, A>(
        path: &'static str,
        put_requires: &'static [&'static str],
        handler: H,
    ) -> Self
    where
        H: Fn(Context, B) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Result<A, ApiError>> + Send + 'static,
        B: DeserializeOwned + JsonSchema + Send + 'static,
        A: IntoAnswer + 'static,
    {
        let mut operation = Self::with_body(Method::PATCH, path, handler);
        operation.put_requires = Some(put_requires);
        operation
    }

    /// `PATCH` that does something: 200, and no `PUT` beside it.
    pub(crate) fn patch_action<H, F, B, A>(path: &'static str, handler: H) -> Self
    where
        H: Fn(Context, B) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Result<A, ApiError>> + Send + 'static,
        B: DeserializeOwned + JsonSchema + Send + 'static,
        A: IntoAnswer + 'static,
    {
        let mut operation = Self::with_body(Method::PATCH, path, handler);
        operation.is_action = true;
        operation
    }

    /// `DELETE`: 204.
    pub(crate) fn delete<H, F>(path: &'static str, handler: H) -> Self
    where
        H: Fn(Context) -> F + Send + Sync + 'static,
        F: Future<Output = Result<(), ApiError>> + Send + 'static,
    {
        let run = Arc::new(move |context, _| -> Running {
            let made = handler(context);
            Box::pin(async move { made.await.map(|()| Answer::empty()) })
        });
        let status = StatusCode::NO_CONTENT;
        Self::new(Method::DELETE, path, status, AnswerSchema::Empty, run)
    }

    fn without_body<H, F, A>(method: Method, path: &'static str, handler: H) -> Self
    where
        H: Fn(Context) -> F + Send + Sync + 'static,
        F: Future<Output = Result<A, ApiError>> + Send + 'static,
        A: IntoAnswer + 'static,
    {
        let run = Arc::new(move |context, _| -> Running {
            let made = handler(context);
            Box::pin(async move { made.await?.into_answer() })
        });
        let answer = A::schema();
        Self::new(method, path, StatusCode::OK, answer, run)
    }

    fn with_body<H, F, B, A>(method: Method, path: &'static str, handler: H) -> Self
    where
        H: Fn(Context, B) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Result<A, ApiError>> + Send + 'static,
        B: DeserializeOwned + JsonSchema + Send + 'static,
        A: IntoAnswer + 'static,
    {
        let run = Arc::new(move |context, body| -> Running {
            let handler = handler.clone();
            Box::pin(async move {
                let body: B = crate::body::read(body)?;
                handler(context, body).await?.into_answer()
            })
        });
        let answer = A::schema();
        let mut operation = Self::new(method, path, StatusCode::OK, answer, run);
        operation.body = Some(BodySchema::of::<B>());
        operation
    }

    fn new(
        method: Method,
        path: &'static str,
        status: StatusCode,
        answer: AnswerSchema,
        run: Arc<Run>,
    ) -> Self {
        let access = if path.contains("{organization_id}") || path.contains("{project_id}") {
            Access::Level(Level::Member)
        } else {
            Access::Authenticated
        };
        Self {
            method,
            path,
            summary: "",
            description: "",
            scopes: &[],
            access,
            feature: None,
            status,
            other_status: None,
            body: None,
            answer,
            is_list: false,
            is_action: false,
            query: Vec::new(),
            failures: Vec::new(),
            shown_once: &[],
            put_requires: None,
            run,
        }
    }
}

// === what narrows them ===

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

    /// A headline for the document.
    pub(crate) fn about(mut self, summary: &'static str) -> Self {
        self.summary = summary;
        self
    }

    /// More than the headline says.
    pub(crate) fn note(mut self, description: &'static str) -> Self {
        self.description = description;
        self
    }

    /// Scopes of the key, any one of which will do.
    pub(crate) fn scopes(mut self, scopes: &'static [Need]) -> Self {
        self.scopes = scopes;
        self
    }

    /// From which level on, in the organization of the path; members otherwise.
    pub(crate) fn level(mut self, level: Level) -> Self {
        self.access = Access::Level(level);
        self
    }

    /// Administrators; members too, unless `members_can_write_pipelines` is off.
    pub(crate) fn pipelines_level(mut self) -> Self {
        self.access = Access::Pipelines;
        self
    }

    /// Open to all; a key is looked at if there is one.
    pub(crate) fn open(mut self) -> Self {
        self.access = Access::Open;
        self
    }

    /// Only keys with the scope `operator`.
    pub(crate) fn operator(mut self) -> Self {
        self.access = Access::Operator;
        self
    }

    /// 403 `payment_required` where an operator took this feature away.
    pub(crate) fn feature(mut self, feature: &'static str) -> Self {
        self.feature = Some(feature);
        self
    }

    /// A parameter of the query; `kind` is a JSON type.
    pub(crate) fn query(
        mut self,
        name: &'static str,
        kind: &'static str,
        description: &'static str,
    ) -> Self {
        self.query.push(QueryParameter {
            name,
            kind,
            description,
        });
        self
    }

    /// An error that is this operation's own, for the document.
    pub(crate) fn fails(mut self, status: u16, code: &'static str, when: &'static str) -> Self {
        self.failures.push(Failure { status, code, when });
        self
    }

    /// Another status of success, that the handler gives by [`WithStatus`].
    ///
    /// [`WithStatus`]: crate::answer::WithStatus
    pub(crate) fn also_answers(mut self, status: StatusCode) -> Self {
        self.other_status = Some(status);
        self
    }

    /// Fields of the answer that hold secrets: null when the answer is replayed.
    pub(crate) fn shown_once(mut self, fields: &'static [&'static str]) -> Self {
        self.shown_once = fields;
        self
    }
}
