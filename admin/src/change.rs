//! The stages of a change: idempotency, body, version, handler.

use crate::app::App;
use crate::body;
use crate::context::Context;
use crate::error::ApiError;
use crate::etag;
use crate::idempotency::{Begun, Idempotency};
use crate::operation::Operation;
use crate::response::Success;
use crate::router::thing_of;
use bytes::Bytes;
use http::Method;
use serde_json::Value;
use std::sync::Arc;

/// Makes a change, or replays the answer of the same one.
pub(crate) async fn run(
    app: Arc<App>,
    operation: Arc<Operation>,
    context: Context,
    body: Bytes,
) -> Result<Success, ApiError> {
    if operation.method != Method::POST {
        return make(&app, &operation, context, &body).await;
    }
    let idempotency = match Idempotency::begin(&context, &body).await? {
        Begun::Unasked => None,
        Begun::Claimed(idempotency) => Some(idempotency),
        Begun::Done(replay) => return Ok(replay),
    };
    let outcome = make(&app, &operation, context, &body).await;
    if let Some(idempotency) = idempotency {
        idempotency.end(&operation, &outcome).await;
    }
    outcome
}

async fn make(
    app: &App,
    operation: &Operation,
    context: Context,
    bytes: &Bytes,
) -> Result<Success, ApiError> {
    let headers = &context.request.headers.clone();
    let body = match &operation.body {
        Some(schema) => body::check(headers, bytes, schema)?,
        None => Value::Null,
    };
    let version = app.router.version(operation);
    // Held until the change is made; see `etag`.
    let _lock = match version {
        Some(_) => app.locks.lock(&address(operation, &context)).await,
        None => None,
    };
    if let Some(read) = version.filter(|_| etag::is_conditional(headers)) {
        let current = current_tag(read, context.clone()).await?;
        if !etag::may_change(headers, &current) {
            return Err(ApiError::precondition_failed());
        }
    }
    let answer = (operation.run)(context, body).await?;
    let mut success = Success::of(operation, answer);
    if operation.has_tag() && version.is_some() {
        success.tag = Some(etag::of(&success.body));
    }
    Ok(success)
}

/// The path of the thing that is changed: an action hangs on it.
fn address(operation: &Operation, context: &Context) -> String {
    let parts = thing_of(operation.path)
        .trim_end_matches('/')
        .split('/')
        .count();
    let path = context.request.uri.path().split('/').take(parts);
    path.collect::<Vec<_>>().join("/")
}

async fn current_tag(read: &Operation, context: Context) -> Result<String, ApiError> {
    let answer = (read.run)(context, Value::Null).await?;
    Ok(etag::of(&answer.body))
}
