//! Constructors of operations, one for each kind; they take path and handler.

use super::{Access, Bounds, Handler, HandlerFuture, Operation};
use crate::context::Context;
use crate::error::ApiError;
use crate::page::Envelope;
use crate::request::body;
use crate::response::{ApiResponse, HandlerResult, IntoApiResponse, ResponseSchema};
use crate::schema::BodySchema;
use http::{Method, StatusCode};
use millrace_catalog::Level;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::future::Future;
use std::sync::Arc;

impl Operation {
    /// Creates a `GET` of a list, in pages.
    pub(crate) fn list<H, F, T>(path: &'static str, handler: H) -> Self
    where
        H: Fn(Context) -> F + Send + Sync + 'static,
        F: Future<Output = Result<Envelope<T>, ApiError>> + Send + 'static,
        T: Serialize + JsonSchema + 'static,
    {
        let mut operation = Self::get(path, handler);
        operation.is_list = true;
        operation.page_response()
    }

    /// Creates a `GET` of one resource: 200 with a strong `ETag`.
    pub(crate) fn get<H, F, A>(path: &'static str, handler: H) -> Self
    where
        H: Fn(Context) -> F + Send + Sync + 'static,
        F: Future<Output = Result<A, ApiError>> + Send + 'static,
        A: IntoApiResponse + 'static,
    {
        Self::without_body(Method::GET, path, handler)
    }

    /// Creates a `POST` to a list: 201 with the new resource.
    pub(crate) fn create<H, F, B, A>(path: &'static str, handler: H) -> Self
    where
        H: Fn(Context, B) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Result<A, ApiError>> + Send + 'static,
        B: DeserializeOwned + JsonSchema + Send + 'static,
        A: IntoApiResponse + 'static,
    {
        let mut operation = Self::with_body(Method::POST, path, handler);
        operation.status = StatusCode::CREATED;
        operation
    }

    /// Creates a `POST` of an action: 200. Its handler takes [`Nothing`] if it needs no body.
    ///
    /// [`Nothing`]: crate::schema::Nothing
    pub(crate) fn action<H, F, B, A>(path: &'static str, handler: H) -> Self
    where
        H: Fn(Context, B) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Result<A, ApiError>> + Send + 'static,
        B: DeserializeOwned + JsonSchema + Send + 'static,
        A: IntoApiResponse + 'static,
    {
        let mut operation = Self::with_body(Method::POST, path, handler);
        operation.is_action = true;
        operation
    }

    /// Creates a `POST` whose response is streamed: it changes nothing, so it is cancelled when the
    /// client disconnects, and has no idempotency key.
    pub(crate) fn stream<H, F, B>(
        path: &'static str,
        media_types: &'static [&'static str],
        handler: H,
    ) -> Self
    where
        H: Fn(Context, B) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = HandlerResult> + Send + 'static,
        B: DeserializeOwned + JsonSchema + Send + 'static,
    {
        let run = Arc::new(move |context, sent| -> HandlerFuture {
            let handler = handler.clone();
            Box::pin(async move { handler(context, body::read(sent)?).await })
        });
        let response = ResponseSchema::Stream(media_types);
        let mut operation = Self::new(Method::POST, path, StatusCode::OK, response, run);
        operation.bounds = Bounds::of(true, &operation.response);
        operation.body = Some(BodySchema::of::<B>());
        operation.is_action = true;
        operation.is_stream = true;
        operation
    }

    /// Creates a `GET` whose response is streamed for as long as the client reads it. It has no
    /// `ETag`.
    pub(crate) fn watch<H, F>(
        path: &'static str,
        media_types: &'static [&'static str],
        handler: H,
    ) -> Self
    where
        H: Fn(Context) -> F + Send + Sync + 'static,
        F: Future<Output = HandlerResult> + Send + 'static,
    {
        let run = Arc::new(move |context, _| -> HandlerFuture { Box::pin(handler(context)) });
        let response = ResponseSchema::Stream(media_types);
        let mut operation = Self::new(Method::GET, path, StatusCode::OK, response, run);
        operation.is_stream = true;
        operation
    }

    /// Creates a `PATCH` of one resource: 200 with the changed resource. `PUT` is routed beside it,
    /// and requires the fields `put_requires`.
    pub(crate) fn patch<H, F, B, A>(
        path: &'static str,
        put_requires: &'static [&'static str],
        handler: H,
    ) -> Self
    where
        H: Fn(Context, B) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Result<A, ApiError>> + Send + 'static,
        B: DeserializeOwned + JsonSchema + Send + 'static,
        A: IntoApiResponse + 'static,
    {
        let mut operation = Self::with_body(Method::PATCH, path, handler);
        operation.put_requires = Some(put_requires);
        operation
    }

    /// Creates a `PATCH` of an action: 200, and no `PUT` beside it.
    pub(crate) fn patch_action<H, F, B, A>(path: &'static str, handler: H) -> Self
    where
        H: Fn(Context, B) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Result<A, ApiError>> + Send + 'static,
        B: DeserializeOwned + JsonSchema + Send + 'static,
        A: IntoApiResponse + 'static,
    {
        let mut operation = Self::with_body(Method::PATCH, path, handler);
        operation.is_action = true;
        operation
    }

    /// Creates a `DELETE`: 204.
    pub(crate) fn delete<H, F>(path: &'static str, handler: H) -> Self
    where
        H: Fn(Context) -> F + Send + Sync + 'static,
        F: Future<Output = Result<(), ApiError>> + Send + 'static,
    {
        let run = Arc::new(move |context, _| -> HandlerFuture {
            let made = handler(context);
            Box::pin(async move { made.await.map(|()| ApiResponse::empty()) })
        });
        let status = StatusCode::NO_CONTENT;
        Self::new(Method::DELETE, path, status, ResponseSchema::Empty, run)
    }

    fn without_body<H, F, A>(method: Method, path: &'static str, handler: H) -> Self
    where
        H: Fn(Context) -> F + Send + Sync + 'static,
        F: Future<Output = Result<A, ApiError>> + Send + 'static,
        A: IntoApiResponse + 'static,
    {
        let run = Arc::new(move |context, _| -> HandlerFuture {
            let made = handler(context);
            Box::pin(async move { made.await?.into_api_response() })
        });
        let response = A::schema();
        Self::new(method, path, StatusCode::OK, response, run)
    }

    fn with_body<H, F, B, A>(method: Method, path: &'static str, handler: H) -> Self
    where
        H: Fn(Context, B) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Result<A, ApiError>> + Send + 'static,
        B: DeserializeOwned + JsonSchema + Send + 'static,
        A: IntoApiResponse + 'static,
    {
        let run = Arc::new(move |context, sent| -> HandlerFuture {
            let handler = handler.clone();
            Box::pin(async move {
                let body: B = body::read(sent)?;
                handler(context, body).await?.into_api_response()
            })
        });
        let response = A::schema();
        let mut operation = Self::new(method, path, StatusCode::OK, response, run);
        operation.bounds = Bounds::of(true, &operation.response);
        operation.body = Some(BodySchema::of::<B>());
        operation
    }

    fn new(
        method: Method,
        path: &'static str,
        status: StatusCode,
        response: ResponseSchema,
        run: Arc<Handler>,
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
            bounds: Bounds::of(false, &response),
            response,
            is_list: false,
            is_action: false,
            is_stream: false,
            is_never_replayed: false,
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
