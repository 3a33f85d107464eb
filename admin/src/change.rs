//! The stages of a change: idempotency, body, version, handler.

use crate::app::App;
use crate::body;
use crate::context::Context;
use crate::error::ApiError;
use crate::etag;
use crate::idempotency::{Begun, Idempotency};
use crate::operation::Operation;
use crate::response::Success;
use bytes::Bytes;
use http::Method;
use serde_json::Value;
use std::sync::Arc;

/// Makes a change, or replays the answer of the same one. `version` is the `GET` of the same
/// path, if there is one.
pub(crate) async fn run(
    app: Arc<App>,
    operation: Arc<Operation>,
    version: Option<Arc<Operation>>,
    context: Context,
    body: Bytes,
) -> Result<Success, ApiError> {
    let version = version.filter(|read| !read.is_list);
    if operation.method != Method::POST {
        return make(&app, &operation, version, context, &body).await;
    }
    let idempotency = match Idempotency::begin(&context, &body).await? {
        Begun::Unasked => None,
        Begun::Claimed(idempotency) => Some(idempotency),
        Begun::Done(replay) => return Ok(replay),
    };
    let outcome = make(&app, &operation, version, context, &body).await;
    if let Some(idempotency) = idempotency {
        idempotency.end(&operation, &outcome).await;
    }
    outcome
}

async fn make(
    app: &App,
    operation: &Operation,
    version: Option<Arc<Operation>>,
    context: Context,
    bytes: &Bytes,
) -> Result<Success, ApiError> {
    let headers = &context.request.headers.clone();
    let body = match &operation.body {
        Some(schema) => body::check(headers, bytes, schema)?,
        None => Value::Null,
    };
    // Held until the change is made; see `etag`.
    let _lock = match &version {
        Some(_) => {
            app.locks
                .lock(context.request.uri.path().trim_end_matches('/'))
                .await
        }
        None => None,
    };
    if etag::is_conditional(headers) {
        let current = match &version {
            Some(read) => Some(current_tag(read, context.clone()).await?),
            None => None,
        };
        if !etag::may_change(headers, current.as_deref()) {
            return Err(ApiError::precondition_failed());
        }
    }
    let answer = (operation.run)(context, body).await?;
    let mut success = Success::of(operation, answer);
    if matches!(operation.method, Method::PATCH | Method::PUT) && version.is_some() {
        success.tag = Some(etag::of(&success.body));
    }
    Ok(success)
}

async fn current_tag(read: &Operation, context: Context) -> Result<String, ApiError> {
    let answer = (read.run)(context, Value::Null).await?;
    Ok(etag::of(&answer.body))
}
