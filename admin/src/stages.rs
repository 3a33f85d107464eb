//! A request's way, in this order:
//!
//! route (404) → authenticate (401) → throttle (429) → scope, membership and level (403, 404) →
//! method (405) → length of the body (413) → key, scope and level once more (401, 403, 404) →
//! idempotency (409) → body (415, 400) → version (412) → handler → tag (304).
//!
//! Key, scope and level are looked at again whenever there was something to wait for, the body or
//! another change of the same thing, so that a revoked key does not go on writing meanwhile.
//!
//! Reads end when the client goes away. Changes do not: from the idempotency key on they run as a
//! task of their own, so that what was begun is finished and remembered.

use crate::admission::Arrived;
use crate::answer::response::{self, Success};
use crate::app::App;
use crate::change;
use crate::change::etag;
use crate::context::{Context, Request};
use crate::error::ApiError;
use crate::operation::Operation;
use crate::request::body;
use crate::request::origin::{Origin, Peer};
use crate::request::request_id;
use crate::request::throttle::Allowance;
use bytes::{Buf, Bytes};
use futures_util::Stream;
use http::{HeaderMap, Method, StatusCode, Uri};
use std::sync::Arc;
use std::time::Duration;
use tracing::Instrument;
use warp::reply::Response;

/// How long an answer may take; then the client gets 503.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// A request without its body, as it came.
pub(crate) struct Head {
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
    /// Unknown where there is no socket, as in tests.
    pub(crate) peer: Option<Peer>,
}

/// Answers one request.
pub(crate) async fn handle<S, B>(app: &Arc<App>, head: Head, body: S) -> Response
where
    S: Stream<Item = Result<B, warp::Error>>,
    B: Buf,
{
    let request_id = request_id::of(&head.headers);
    // The template, as paths may hold secrets: the token of an invite.
    let found = app.router.find(head.uri.path());
    let route = found.as_ref().map_or("none", |found| found.item.template);
    let span = tracing::error_span!("request", request_id, method = %head.method, route);
    let problem = response::wants_problem(&head.headers);
    let answered = async {
        let mut allowance = None;
        let outcome = match found {
            Some(found) => {
                let origin = Origin::of(&app.services.config, head.peer, &head.headers);
                let arrived = Arrived {
                    // hyper sends no body where HEAD was asked.
                    method: if head.method == Method::HEAD {
                        Method::GET
                    } else {
                        head.method
                    },
                    address: origin.address,
                    item: found.item,
                    request: Arc::new(Request {
                        uri: head.uri,
                        headers: head.headers,
                        parameters: found.parameters,
                        base_url: origin.base_url,
                    }),
                };
                let staged = pass(arrived, app, body, &mut allowance);
                let staged = tokio::time::timeout(REQUEST_TIMEOUT, staged).await;
                staged.unwrap_or_else(|_| Err(ApiError::unavailable()))
            }
            None => Err(ApiError::not_found()),
        };
        let status = outcome
            .as_ref()
            .map_or_else(ApiError::status, |made| made.status);
        tracing::info!(status = status.as_u16(), "answered");
        response::of(outcome, allowance, problem)
    };
    let mut response = answered.instrument(span).await;
    if let Ok(value) = request_id.parse() {
        response
            .headers_mut()
            .insert(request_id::X_REQUEST_ID, value);
    }
    response
}

/// Takes a request whose path exists through the stages.
async fn pass<S, B>(
    arrived: Arrived,
    app: &Arc<App>,
    body: S,
    allowance: &mut Option<Allowance>,
) -> Result<Success, ApiError>
where
    S: Stream<Item = Result<B, warp::Error>>,
    B: Buf,
{
    let context = arrived.admit(app, allowance).await?;
    let Some(operation) = arrived.operation().cloned() else {
        return Err(ApiError::method_not_allowed(&arrived.item.allow()));
    };
    if arrived.method == Method::GET {
        let outcome = read(&operation, context.clone()).await;
        return outcome.map_err(|error| arrived.counted(app, &context, error));
    }
    let (context, body) = match &operation.body {
        Some(_) => {
            let body = body::gather(&arrived.request.headers, body).await?;
            // The key may have been revoked while the client took its time.
            (arrived.admit_again(app).await?, body)
        }
        None => (context, Bytes::new()),
    };
    let change = change::run(app.clone(), arrived, operation, context, body);
    let done = tokio::spawn(change.in_current_span()).await;
    done.unwrap_or_else(|error| {
        tracing::error!(%error, "a change did not end");
        Err(ApiError::internal())
    })
}

async fn read(operation: &Operation, context: Context) -> Result<Success, ApiError> {
    let request = context.request.clone();
    let answer = (operation.run)(context, serde_json::Value::Null).await?;
    let mut success = Success::of(operation, answer);
    if !operation.is_list {
        let tag = success.tag.take();
        let tag = tag.unwrap_or_else(|| etag::of(&success.body));
        if etag::is_known(&request.headers, &tag) {
            success.status = StatusCode::NOT_MODIFIED;
            success.body = Bytes::new();
        }
        success.tag = Some(tag);
    }
    Ok(success)
}
