//! HTTP: from hyper's request to hyper's response.
//!
//! | Module | Does |
//! |---|---|
//! | `context` | context of one request, for its handlers |
//! | `payload`, `body` | reads the body, once it is admitted |
//! | `decode` | decodes it to JSON, within limits |
//! | `parse` | parses that to rows |
//! | `capture`, `report` | stores rows, and builds the response |
//! | `live` | shows rows to those who watch |
//! | `scripts` | posthog-js for pages |
//! | `compat`, `cors` | all other responses |

mod body;
mod capture;
mod compat;
mod context;
mod cors;
mod decode;
mod live;
mod parse;
mod payload;
mod report;
mod scripts;

use crate::connection::state::ConnectionState;
use crate::core::Core;
use crate::health;
use crate::request::head::RequestHead;
use crate::request::route::{Route, RouteKind};
use crate::response::{Content, HttpResponse};
use bytes::Bytes;
use context::RequestContext;
use http::{Method, Request, Response, StatusCode};
use http_body::Body;
use http_body_util::Full;
use hyper::body::Incoming;
use millrace_parse::ApiError;
use std::cell::Cell;
use std::convert::Infallible;
use std::rc::Rc;

/// Bytes of a body's rest that are read at most for the sake of the connection.
const SKIMMED_BYTES_MAX: u64 = 256 << 10;

/// Handles one request. `ambiguous` is [`ConnectionState::begin`]'s.
pub async fn handle(
    core: Rc<Core>,
    conn: Rc<ConnectionState>,
    request: Request<Incoming>,
    ambiguous: bool,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let epoch_guard = core.enter_epoch();
    let received_at = epoch_guard.received_at;
    let (parts, mut body) = request.into_parts();
    let request_id = core.request_id(received_at);
    let tracer = &core.process.config.tracer;
    let request = RequestContext {
        core: &core,
        conn: &conn,
        parts: &parts,
        head: RequestHead::read(&parts),
        route: Route::of(parts.uri.path()),
        received_at,
        request_id,
        timed: core.metrics.times(received_at.0 / 1_000_000),
        trace: tracer.begin(request_id, received_at, || core.random_number()),
        is_watched: core.process.deps.live.is_watched(),
        epoch_guard: Cell::new(Some(epoch_guard)),
        body_ended: Cell::new(body.is_end_stream()),
    };
    let header_bytes_max = core.process.config.limits.header_bytes_max;
    let mut response = match request
        .head
        .check(parts.version, ambiguous, header_bytes_max)
    {
        Ok(()) => dispatch(&request, &mut body).await.unwrap_or_else(|error| {
            if request.route == Route::V1 {
                HttpResponse::error_v1(&error)
            } else {
                HttpResponse::error(&error)
            }
        }),
        Err(error) => {
            let mut response = HttpResponse::error(&error);
            response.close = true;
            response
        }
    };
    request.release_epoch();
    finish_body(&request, &mut body, &mut response).await;
    response.close |= core.process.deps.readiness.is_shutting_down();
    core.metrics.answered(request.route, response.status);
    if let Some(trace) = &request.trace
        && request.route.kind().takes_events()
    {
        tracer.end(trace, request.route.name(), response.status.as_u16());
    }
    conn.end();
    Ok(response.into_response(request.head.origin, request.request_id))
}

async fn dispatch(
    request: &RequestContext<'_>,
    body: &mut Incoming,
) -> Result<HttpResponse, ApiError> {
    let kind = request.route.kind();
    match (kind, &request.parts.method) {
        (RouteKind::Unknown, _) => Ok(HttpResponse::not_found()),
        (_, &Method::OPTIONS) => Ok(cors::preflight(&request.head, kind.allow())),
        (RouteKind::Capture, &Method::POST | &Method::GET)
        | (RouteKind::V1 | RouteKind::Ai, &Method::POST) => capture::capture(request, body).await,
        (RouteKind::Compat, &Method::POST) => {
            request.release_epoch();
            discard_body(request, body).await?;
            Ok(compat::stub(request.route))
        }
        (RouteKind::Page, &Method::GET | &Method::HEAD) => Ok(page(request)),
        _ => Ok(HttpResponse::method_not_allowed(
            kind.allow(),
            request.route == Route::V1,
        )),
    }
}

/// Deals with a body that the response did not need. A short one is read, so that the connection
/// can be used again; otherwise it lies between us and the next request, and the connection is
/// closed once the client has had time to read the response.
async fn finish_body(
    request: &RequestContext<'_>,
    body: &mut Incoming,
    response: &mut HttpResponse,
) {
    if request.body_ended.get() {
        return;
    }
    // There is no next request on the connection then.
    response.close |= request.core.process.deps.readiness.is_shutting_down();
    let short = body
        .size_hint()
        .exact()
        .is_some_and(|bytes| bytes <= SKIMMED_BYTES_MAX);
    // A client that waits for leave to send a body had better get the response at once.
    let waits = request.parts.headers.contains_key(http::header::EXPECT);
    if short && !waits && !response.close && response.status != StatusCode::REQUEST_TIMEOUT {
        // A failure shows in the next line.
        let _ = discard_body(request, body).await;
    }
    if !request.body_ended.get() {
        response.close = true;
        request.conn.linger();
    }
}

/// Reads a body that is not needed, so that the connection can be used again.
async fn discard_body(
    request: &RequestContext<'_>,
    incoming: &mut Incoming,
) -> Result<(), ApiError> {
    body::drain(incoming, request.core).await?;
    request.body_ended.set(true);
    Ok(())
}

fn page(request: &RequestContext<'_>) -> HttpResponse {
    let readiness = &request.core.process.deps.readiness;
    match request.route {
        Route::Config | Route::ConfigJs => compat::config(request.route, request.parts.uri.path()),
        Route::ArrayJs | Route::Static => scripts::script(request.route, request.parts),
        Route::Ready => health::ready(readiness),
        Route::Live => health::live(),
        _ => HttpResponse::new(
            StatusCode::OK,
            Content::Text,
            "Millrace accepts analytics events. Send them to /batch/.\n",
        ),
    }
}
