//! Processing of requests that write: idempotency key, body, version, handler.
//!
//! | Module | Holds |
//! |---|---|
//! | `idempotency` | replays of a request that is sent again |
//! | `etag` | versions of a resource |
//! | `lock` | one change of a resource at a time, in this process |
//! | `version` | one change of a version, in all processes |

pub(crate) mod etag;
mod idempotency;
pub(crate) mod lock;
mod version;

use crate::app::App;
use crate::authorization::RoutedRequest;
use crate::context::Context;
use crate::error::ApiError;
use crate::operation::{Access, Operation};
use crate::request::{body, path_id};
use crate::response::render::Success;
use bytes::Bytes;
use http::Method;
use idempotency::{ClaimOutcome, Idempotency};
use serde_json::Value;
use std::sync::Arc;

/// Runs a change, or replays the response of the same request.
pub(crate) async fn run(
    app: Arc<App>,
    routed: RoutedRequest,
    operation: Arc<Operation>,
    context: Context,
    body: Bytes,
) -> Result<Success, ApiError> {
    if operation.method != Method::POST {
        return apply(&app, &routed, &operation, context, &body).await;
    }
    if operation.is_never_replayed {
        let applied = apply(&app, &routed, &operation, context.clone(), &body).await;
        return applied.map_err(|error| routed.count_wrong_token(&app, &context, error));
    }
    let idempotency = Idempotency::of(&context, operation.path, &body)?;
    if operation.access == Access::Open {
        // A claim is a write, and nothing is written for a request without a valid token. The first
        // request uses its token up, so one that is sent again has none: its replay is looked for
        // when the token is found to be invalid, as the claim was written before.
        if let Err(error) = check_token(&routed, &context).await {
            if let Some(idempotency) = &idempotency
                && let Some(replay) = idempotency.replay().await?
            {
                return Ok(replay);
            }
            return Err(routed.count_wrong_token(&app, &context, error));
        }
    }
    let claimed = match idempotency {
        None => None,
        Some(idempotency) => match idempotency.begin().await? {
            ClaimOutcome::New(claimed) => Some(claimed),
            ClaimOutcome::Done(replay) => return Ok(replay),
        },
    };
    let outcome = apply(&app, &routed, &operation, context, &body).await;
    if let Some(claimed) = claimed {
        claimed.end(&operation, &outcome).await;
    }
    outcome
}

/// Reads the resource at an open operation's path, which fails without a valid token.
async fn check_token(routed: &RoutedRequest, context: &Context) -> Result<(), ApiError> {
    let Some(read) = routed.item.operation(&Method::GET) else {
        return Ok(());
    };
    let looked = (read.run)(context.clone(), Value::Null).await;
    looked.map(drop)
}

async fn apply(
    app: &App,
    routed: &RoutedRequest,
    operation: &Operation,
    mut context: Context,
    bytes: &Bytes,
) -> Result<Success, ApiError> {
    let headers = &context.request.headers.clone();
    let body = match &operation.body {
        Some(schema) => body::check(headers, bytes, schema)?,
        None => Value::Null,
    };
    // Held until the handler returns; see `lock`.
    let mut _lock = None;
    if let Some(read) = &operation.version {
        _lock = Some(app.locks.lock(resource_name(read, &context)).await?);
        // The previous holder of the lock may have changed the project, or revoked the key.
        context = routed.reauthorize(app).await?;
        if etag::is_conditional(headers) {
            let current = version::tag_of(read, context.clone()).await?;
            if !etag::may_change(headers, &current) {
                return Err(ApiError::precondition_failed());
            }
            context = version::conditional(context, read.clone());
        }
    }
    let response = (operation.run)(context, body).await;
    // Even a handler that failed may have changed something.
    app.services.key_cache.catch_up().await;
    let response = response?;
    let mut success = Success::of(operation, response);
    if operation.has_tag()
        && let Some(read) = &operation.version
    {
        success.tag = Some(etag::without(read.live_fields, &success.body));
    }
    Ok(success)
}

/// Name of the resource that `read` reads: its kind and its normalized id, the same on each of
/// its paths.
fn resource_name(read: &Operation, context: &Context) -> String {
    let (kind, name) = kind_and_parameter(read.path);
    let id = path_id::resolved(context, name);
    format!("{kind} {id}")
}

/// Kind of resource that a template names, and the parameter with the resource's id: that of its
/// owner, if the owner has one such resource.
fn kind_and_parameter(template: &str) -> (&str, &str) {
    let mut parts = template.trim_end_matches('/').rsplit('/');
    let (last, before) = (
        parts.next().unwrap_or_default(),
        parts.next().unwrap_or_default(),
    );
    let (collection, name) = match last.starts_with('{') {
        true => (before, last),
        false => (last, before),
    };
    let name = name.trim_start_matches('{').trim_end_matches('}');
    // Views of plugins: one plugin can be in several.
    let is_view = collection.starts_with("pipeline_");
    (if is_view { "plugins" } else { collection }, name)
}

#[cfg(test)]
mod tests {
    use super::kind_and_parameter;

    #[test]
    fn a_resource_has_one_kind_on_all_its_paths() {
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
        let of_project = kind_and_parameter("/api/projects/{project_id}/property_columns/");
        assert_eq!(of_project, ("property_columns", "project_id"));
    }
}
