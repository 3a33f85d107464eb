//! Middleware of every request, in this order:
//!
//! route (404) → authenticate (401) → throttle (429) → scope, membership and level (403, 404) →
//! throttle of the organization (429) → method (405) → length of the body (413) → key, scope and
//! level once more (401, 403, 404) → idempotency (409) → body (415, 400) → version (412) →
//! handler → `ETag` (304).
//!
//! Key, scope and level are checked again after every wait, for the body or for another change of
//! the same resource, so that a key that was revoked meanwhile does not write.
//!
//! Reads, also those whose response is streamed, are cancelled when the client disconnects. Changes
//! are not: from the idempotency key on they run as a task of their own, so that a change that has
//! begun is finished and its response is kept.

use crate::app::App;
use crate::authorization::RoutedRequest;
use crate::change;
use crate::change::etag;
use crate::context::{Context, Request};
use crate::error::ApiError;
use crate::metrics;
use crate::operation::{Bounds, Operation};
use crate::request::body;
use crate::request::origin::{Origin, Peer};
use crate::request::request_id;
use crate::request::throttle::RateLimitStatus;
use crate::response::budget::ResponseMemory;
use crate::response::render::{self, Success};
use crate::router::RouteMatch;
use bytes::{Buf, Bytes};
use futures_util::Stream;
use http::{HeaderMap, Method, StatusCode, Uri};
use std::sync::Arc;
use std::time::Instant;
use tracing::Instrument;
use warp::reply::Response;

/// Head of a request as it arrived, before routing.
pub(crate) struct RequestHead {
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
    /// Other end of the connection; `None` without a socket, as in tests.
    pub(crate) peer: Option<Peer>,
}

/// Answers one request and counts it.
pub(crate) async fn handle<S, B>(app: &Arc<App>, head: RequestHead, body: S) -> Response
where
    S: Stream<Item = Result<B, warp::Error>>,
    B: Buf,
{
    let begun = Instant::now();
    let found = app.router.find(head.uri.path());
    let operation = metrics::operation_name(found.as_ref(), &head.method);
    let response = answer(app, head, found, body).await;
    metrics::answered(operation, response.status(), begun.elapsed());
    response
}

async fn answer<S, B>(
    app: &Arc<App>,
    head: RequestHead,
    found: Option<RouteMatch>,
    body: S,
) -> Response
where
    S: Stream<Item = Result<B, warp::Error>>,
    B: Buf,
{
    let request_id = request_id::of(&head.headers);
    // The template is logged, as paths may hold secrets: the token of an invite.
    let route = found.as_ref().map_or("none", |found| found.item.template);
    let span = tracing::error_span!("request", request_id, method = %head.method, route);
    let problem = render::wants_problem(&head.headers);
    let is_read = is_read(&head.method, found.as_ref());
    let answered = async {
        let (mut rate_limit, mut memory) = (None, None);
        let outcome = match found {
            Some(found) => {
                let origin = Origin::of(&app.services.config, head.peer, &head.headers);
                let routed = RoutedRequest {
                    // hyper sends no body where HEAD was asked.
                    method: if head.method == Method::HEAD {
                        Method::GET
                    } else {
                        head.method
                    },
                    item: found.item,
                    request: Arc::new(Request {
                        uri: head.uri,
                        headers: head.headers,
                        parameters: found.parameters,
                        base_url: origin.base_url,
                        address: origin.address,
                    }),
                };
                let timeout = routed
                    .operation()
                    .map_or(Bounds::timeout_of_none(), |operation| {
                        operation.bounds.timeout
                    });
                let processed = process(routed, app, body, (&mut rate_limit, &mut memory));
                let processed = tokio::time::timeout(timeout, processed).await;
                processed.unwrap_or_else(|_| Err(ApiError::timed_out(is_read)))
            }
            None => Err(ApiError::not_found()),
        };
        let bytes = outcome.as_ref().map_or(0, Success::memory_bytes);
        let has_memory = memory.as_mut().is_none_or(|memory| memory.resize(bytes));
        // A change that was made is answered even if the budget is used up.
        let outcome = match has_memory || !is_read {
            true => outcome,
            false => Err(ApiError::responses_unread()),
        };
        let status = outcome
            .as_ref()
            .map_or_else(ApiError::status, |made| made.status);
        tracing::info!(status = status.as_u16(), "answered");
        let mut response = render::http_response(outcome, rate_limit, problem);
        if let Some(memory) = memory {
            response.extensions_mut().insert(Arc::new(memory));
        }
        response
    };
    let mut response = answered.instrument(span).await;
    if let Ok(value) = request_id.parse() {
        response
            .headers_mut()
            .insert(request_id::X_REQUEST_ID, value);
    }
    response
}

/// Returns true for requests that change nothing, whatever their method.
fn is_read(method: &Method, found: Option<&RouteMatch>) -> bool {
    let operation = found.and_then(|found| found.item.operation(method));
    let is_stream = operation.is_some_and(|operation| operation.is_stream);
    is_stream || matches!(*method, Method::GET | Method::HEAD)
}

/// Runs a routed request through authorization, limits, body and handler.
async fn process<S, B>(
    routed: RoutedRequest,
    app: &Arc<App>,
    body: S,
    (rate_limit, memory): (&mut Option<RateLimitStatus>, &mut Option<ResponseMemory>),
) -> Result<Success, ApiError>
where
    S: Stream<Item = Result<B, warp::Error>>,
    B: Buf,
{
    let context = routed.authorize(app, rate_limit).await?;
    let Some(operation) = routed.operation().cloned() else {
        return Err(ApiError::method_not_allowed(&routed.item.allow()));
    };
    let organization_id = context.organization.as_ref();
    let organization_id = organization_id.map(|access| access.organization.id);
    if let Some(caller) = &context.caller {
        let bounds = &operation.bounds;
        let body_bytes = body::declared_bytes(&routed.request.headers)
            .unwrap_or(bounds.body_bytes_max)
            .min(bounds.body_bytes_max);
        let bytes = bounds.answer_bytes_max + body_bytes;
        let reserved = app
            .response_budget
            .reserve(caller.user.id, organization_id, bytes);
        *memory = Some(reserved.await?);
    }
    if operation.is_stream && operation.body.is_none() {
        return stream(&operation, context, &Bytes::new()).await;
    }
    if routed.method == Method::GET {
        let _permit = match &context.caller {
            Some(caller) if operation.takes_read_slot() => {
                let slots = &app.read_slots;
                Some(slots.acquire(caller.user.id, organization_id).await)
            }
            _ => None,
        };
        let outcome = read(&operation, context.clone()).await;
        return outcome.map_err(|error| routed.count_wrong_token(app, &context, error));
    }
    let (context, body) = match &operation.body {
        Some(_) => {
            let body = body::gather(
                &routed.request.headers,
                body,
                operation.bounds.body_bytes_max,
                app.services.config.body_timeout,
                &app.services.stopping,
            )
            .await?;
            // The key may have been revoked while the body arrived.
            (routed.reauthorize(app).await?, body)
        }
        None => (context, Bytes::new()),
    };
    if operation.is_stream {
        return stream(&operation, context, &body).await;
    }
    let change = change::run(app.clone(), routed, operation, context, body);
    let done = tokio::spawn(change.in_current_span()).await;
    done.unwrap_or_else(|error| {
        tracing::error!(%error, "a change did not end");
        Err(ApiError::internal())
    })
}

/// Begins a streamed response. It is a read, whatever its method.
async fn stream(
    operation: &Operation,
    context: Context,
    body: &Bytes,
) -> Result<Success, ApiError> {
    let sent = match &operation.body {
        Some(schema) => body::check(&context.request.headers, body, schema)?,
        None => serde_json::Value::Null,
    };
    let answer = (operation.run)(context, sent).await?;
    Ok(Success::of(operation, answer))
}

async fn read(operation: &Operation, context: Context) -> Result<Success, ApiError> {
    let request = context.request.clone();
    let answer = (operation.run)(context, serde_json::Value::Null).await?;
    let mut success = Success::of(operation, answer);
    if !operation.is_list {
        let tag = success.tag.take();
        let tag = tag.unwrap_or_else(|| etag::without(operation.live_fields, &success.body));
        if etag::is_known(&request.headers, &tag) {
            success.status = StatusCode::NOT_MODIFIED;
            success.body = Bytes::new();
        }
        success.tag = Some(tag);
    }
    Ok(success)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::router::Router;
    use crate::services::Services;
    use futures_util::stream;
    use http_body_util::BodyExt as _;
    use millrace_catalog::Catalog;
    use millrace_catalog::testing::{DatabaseKind, TestDatabase};
    use millrace_exports::SecretKey;
    use std::time::Duration;

    async fn never<T>(_: Context) -> Result<T, ApiError> {
        std::future::pending().await
    }

    #[tokio::test]
    async fn a_request_that_exceeds_its_operations_timeout_is_answered_503() {
        let database = TestDatabase::of(DatabaseKind::Sqlite).await;
        let catalog = Catalog::open(database.url()).await.unwrap();
        let services = Services::new(catalog, SecretKey::generate().unwrap());
        let mut app = App::new(services).unwrap();
        let slow = [
            Operation::get("/api/slow/", never::<String>)
                .about("Wait")
                .open(),
            Operation::delete("/api/change/", never::<()>)
                .about("Wait")
                .open(),
        ];
        app.router = Arc::new(Router::new(slow.into()).unwrap());
        let app = Arc::new(app);
        // The database, which has its own clock, is not used.
        tokio::time::pause();
        for (method, path, words) in [
            (Method::GET, "/api/slow/", "cannot answer right now"),
            (Method::DELETE, "/api/change/", "may have been executed"),
        ] {
            let head = RequestHead {
                method: method.clone(),
                uri: Uri::from_static(path),
                headers: HeaderMap::new(),
                peer: None,
            };
            let begun = tokio::time::Instant::now();
            let body = stream::empty::<Result<Bytes, warp::Error>>();
            let answer = handle(&app, head, body).await;
            assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE, "{method}");
            assert_eq!(begun.elapsed().as_secs(), 30, "{method}");
            let body = answer.into_body().collect().await.unwrap().to_bytes();
            let body = String::from_utf8_lossy(&body);
            assert!(body.contains(words), "{method}: {body}");
        }
        assert_eq!(Bounds::timeout_of_none(), Duration::from_secs(30));
    }
}
