//! The kinds of operations: constructors that take path and handler.

use super::{Access, Bounds, Operation, Run, Running};
use crate::answer::{Answer, AnswerSchema, IntoAnswer};
use crate::context::Context;
use crate::error::ApiError;
use crate::page::Envelope;
use crate::request::body;
use crate::schema::BodySchema;
use http::{Method, StatusCode};
use millrace_catalog::Level;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::future::Future;
use std::sync::Arc;

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
        operation.answers_a_page()
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
        let run = Arc::new(move |context, sent| -> Running {
            let handler = handler.clone();
            Box::pin(async move {
                let body: B = body::read(sent)?;
                handler(context, body).await?.into_answer()
            })
        });
        let answer = A::schema();
        let mut operation = Self::new(method, path, StatusCode::OK, answer, run);
        operation.bounds = Bounds::of(true, &operation.answer);
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
            bounds: Bounds::of(false, &answer),
            answer,
            is_list: false,
            is_action: false,
            waits_outside: false,
            version: None,
            live_fields: &[],
            query: Vec::new(),
            failures: Vec::new(),
            shown_once: &[],
            put_requires: None,
            run,
        }
    }
}
