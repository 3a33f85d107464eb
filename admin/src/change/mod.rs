//! The stages of a change: idempotency, body, version, handler.
//!
//! | Module | Holds |
//! |---|---|
//! | `idempotency` | the same request twice |
//! | `etag` | versions of a thing |

pub(crate) mod etag;
mod idempotency;

use crate::answer::response::Success;
use crate::app::App;
use crate::context::Context;
use crate::error::ApiError;
use crate::operation::Operation;
use crate::request::body;
use crate::router::{parameter_names, thing_of};
use bytes::Bytes;
use http::Method;
use idempotency::{Begun, Idempotency};
use serde_json::Value;
use std::sync::Arc;
use uuid::Uuid;

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
        Some(_) => app.locks.lock(&thing(operation, &context)).await,
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

/// What is changed: its id in one form, whichever of its paths was taken. Things whose ids are
/// alike share a lock, which costs time and nothing else.
fn thing(operation: &Operation, context: &Context) -> String {
    let name = parameter_names(thing_of(operation.path)).last();
    let of_organization = || {
        context
            .organization()
            .map(|it| it.organization.id.to_string())
    };
    let id = match (name, name.map(|name| context.text(name))) {
        (Some("organization_id"), _) => of_organization().ok(),
        (Some("project_id"), _) => context.project().map(|it| it.id.to_string()).ok(),
        (_, Some("@me")) => context.caller().map(|it| it.user.uuid.to_string()).ok(),
        (_, Some("@current")) => context.caller().map(|it| it.key_id.to_string()).ok(),
        (_, Some(text)) => Uuid::parse_str(text).map(|id| id.to_string()).ok(),
        (_, None) => None,
    };
    id.unwrap_or_else(|| context.request.uri.path().to_owned())
}

async fn current_tag(read: &Operation, context: Context) -> Result<String, ApiError> {
    let answer = (read.run)(context, Value::Null).await?;
    Ok(etag::of(&answer.body))
}
