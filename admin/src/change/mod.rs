//! The stages of a change: idempotency, body, version, handler.
//!
//! | Module | Holds |
//! |---|---|
//! | `idempotency` | the same request twice |
//! | `etag` | versions of a thing |
//! | `lock` | one change of a thing at a time, in this process |
//! | `version` | one change of a version, in all processes |

pub(crate) mod etag;
mod idempotency;
pub(crate) mod lock;
mod version;

use crate::admission::Arrived;
use crate::answer::response::Success;
use crate::app::App;
use crate::context::Context;
use crate::error::ApiError;
use crate::operation::{Access, Operation};
use crate::request::{body, path_id};
use bytes::Bytes;
use http::Method;
use idempotency::{Begun, Idempotency};
use serde_json::Value;
use std::sync::Arc;

/// Makes a change, or replays the answer of the same one.
pub(crate) async fn run(
    app: Arc<App>,
    arrived: Arrived,
    operation: Arc<Operation>,
    context: Context,
    body: Bytes,
) -> Result<Success, ApiError> {
    if operation.method != Method::POST {
        return make(&app, &arrived, &operation, context, &body).await;
    }
    let idempotency = Idempotency::of(&context, operation.path, &body)?;
    if operation.access == Access::Open {
        // The claim writes already: nothing is written for those who have nothing to show. Whoever
        // sends a request again may have nothing left to show: the claim of the first one was
        // there before that was used up, so that it is looked for afterwards.
        if let Err(error) = look(&arrived, &context).await {
            if let Some(idempotency) = &idempotency
                && let Some(replay) = idempotency.replay().await?
            {
                return Ok(replay);
            }
            return Err(arrived.counted(&app, &context, error));
        }
    }
    let claimed = match idempotency {
        None => None,
        Some(idempotency) => match idempotency.begin().await? {
            Begun::Claimed(claimed) => Some(claimed),
            Begun::Done(replay) => return Ok(replay),
        },
    };
    let outcome = make(&app, &arrived, &operation, context, &body).await;
    if let Some(claimed) = claimed {
        claimed.end(&operation, &outcome).await;
    }
    outcome
}

/// Reads the thing at an open operation's path, so that whoever has no right token is refused.
async fn look(arrived: &Arrived, context: &Context) -> Result<(), ApiError> {
    let Some(read) = arrived.item.operation(&Method::GET) else {
        return Ok(());
    };
    let looked = (read.run)(context.clone(), Value::Null).await;
    looked.map(drop)
}

async fn make(
    app: &App,
    arrived: &Arrived,
    operation: &Operation,
    mut context: Context,
    bytes: &Bytes,
) -> Result<Success, ApiError> {
    let headers = &context.request.headers.clone();
    let body = match &operation.body {
        Some(schema) => body::check(headers, bytes, schema)?,
        None => Value::Null,
    };
    // Held until the change is made; see `lock`.
    let mut _lock = None;
    if let Some(read) = &operation.version {
        _lock = Some(app.locks.lock(thing(read, &context)).await?);
        // Whoever had the lock may have changed the project, or taken the caller's key.
        context = arrived.admit_again(app).await?;
        if etag::is_conditional(headers) {
            let current = version::tag_of(read, context.clone()).await?;
            if !etag::may_change(headers, &current) {
                return Err(ApiError::precondition_failed());
            }
            context = version::depending(context, read.clone());
        }
    }
    let answer = (operation.run)(context, body).await;
    // Whatever the handler says, it may have changed something.
    app.services.key_cache.catch_up().await;
    let answer = answer?;
    let mut success = Success::of(operation, answer);
    if operation.has_tag()
        && let Some(read) = &operation.version
    {
        success.tag = Some(etag::without(read.live_fields, &success.body));
    }
    Ok(success)
}

/// What is changed: its kind and its id in one form, whichever of its paths was taken. `read` is
/// how it is read.
fn thing(read: &Operation, context: &Context) -> String {
    let (kind, name) = kind_and_parameter(read.path);
    let id = path_id::resolved(context, name);
    format!("{kind} {id}")
}

/// The kind that a thing's template names, and the parameter of the thing itself.
fn kind_and_parameter(template: &str) -> (&str, &str) {
    let mut parts = template.trim_end_matches('/').rsplit('/');
    let name = parts.next().unwrap_or_default();
    let name = name.trim_start_matches('{').trim_end_matches('}');
    let collection = parts.next().unwrap_or_default();
    // Views of plugins: one thing can be in several.
    let is_view = collection.starts_with("pipeline_");
    (if is_view { "plugins" } else { collection }, name)
}

#[cfg(test)]
mod tests {
    use super::kind_and_parameter;

    #[test]
    fn a_thing_has_one_kind_on_all_its_paths() {
        let table = [
            ("{organization_id}/", "organizations", "organization_id"),
            ("{organization_id}/plugins/{id}/", "plugins", "id"),
            (
                "{organization_id}/pipeline_transformations/{id}/",
                "plugins",
                "id",
            ),
            (
                "{organization_id}/members/{user_uuid}/",
                "members",
                "user_uuid",
            ),
        ];
        for (below, kind, name) in table {
            let template = format!("/api/organizations/{below}");
            assert_eq!(kind_and_parameter(&template), (kind, name), "{template}");
        }
    }
}
