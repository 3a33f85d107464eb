//! HTTP: from hyper's request to hyper's response.
//!
//! | Module | Does |
//! |---|---|
//! | `route`, `head`, `query` | path, headers and query of a request |
//! | `body`, `payload` | reads the body |
//! | `decode` | decodes it to JSON, within limits |
//! | `parse` | parses that to rows |
//! | `offload` | threads for either where it takes long |
//! | `imports` | admits imports |
//! | `capture`, `report` | stores rows, and builds the response |
//! | `early_reject`, `cached_error` | rejects requests before they are read |
//! | `scripts` | posthog-js for pages |
//! | `compat`, `cors`, `response` | all other responses |

mod body;
mod cached_error;
mod capture;
mod compat;
mod cors;
mod decode;
mod early_reject;
mod head;
mod imports;
mod offload;
mod parse;
mod payload;
mod query;
mod report;
mod response;
mod route;
mod scripts;

pub use offload::OffloadPool;
pub use response::HttpResponse;
pub use route::Route;

use crate::connection::Conn;
use crate::core::Core;
use crate::health;
use crate::metrics::Stage;
use crate::watermark::EpochGuard;
use bytes::Bytes;
use head::RequestHead;
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body::Body;
use http_body_util::Full;
use hyper::body::Incoming;
use millrace_parse::ApiError;
use millrace_rows::Micros;
use route::RouteKind;
use std::cell::Cell;
use std::convert::Infallible;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Instant;
use uuid::Uuid;

/// Bytes of a body's rest that are read at most for the sake of the connection.
const SKIMMED_BYTES_MAX: u64 = 256 << 10;

/// Context of one request, for its handlers.
pub(crate) struct RequestContext<'a> {
    core: &'a Rc<Core>,
    conn: &'a Conn,
    parts: &'a Parts,
    head: RequestHead<'a>,
    route: Route,
    received_at: Micros,
    request_id: Uuid,
    timed: bool,
    /// Guard that holds the watermark back, as long as there may be rows of this request.
    epoch_guard: Cell<Option<EpochGuard>>,
    /// True once the body was read to its end; hyper cannot tell when it was chunked.
    body_ended: Cell<bool>,
}

impl RequestContext<'_> {
    /// Start of a stage, when this request's stages are timed.
    fn now(&self) -> Option<Instant> {
        self.timed.then(Instant::now)
    }

    /// Records the end of a stage.
    fn took(&self, stage: Stage, started: Option<Instant>) {
        if let Some(started) = started {
            self.core.metrics.took(stage, started.elapsed());
        }
    }

    /// Epoch guard for this request's rows: a new one if the watermark did not wait for it.
    fn epoch_guard(&self) -> EpochGuard {
        let epoch_guard = self.epoch_guard.take();
        epoch_guard.unwrap_or_else(|| self.core.enter_epoch())
    }

    /// Lets the watermark pass: there will be no rows of this epoch.
    fn release_epoch(&self) {
        drop(self.epoch_guard.take());
    }

    fn client_ip(&self) -> IpAddr {
        let trusted = &self.core.shared.config.trusted_proxies;
        self.head.client_ip(self.parts, self.conn.peer, trusted)
    }
}

/// Handles one request. `ambiguous` is [`Conn::begin`]'s.
pub async fn handle(
    core: Rc<Core>,
    conn: Rc<Conn>,
    request: Request<Incoming>,
    ambiguous: bool,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let epoch_guard = core.enter_epoch();
    let received_at = epoch_guard.received_at;
    let (parts, mut body) = request.into_parts();
    let request = RequestContext {
        core: &core,
        conn: &conn,
        parts: &parts,
        head: RequestHead::read(&parts),
        route: Route::of(parts.uri.path()),
        received_at,
        request_id: core.request_id(received_at),
        timed: core.metrics.times(received_at.0 / 1_000_000),
        epoch_guard: Cell::new(Some(epoch_guard)),
        body_ended: Cell::new(body.is_end_stream()),
    };
    let header_bytes_max = core.shared.config.limits.header_bytes_max;
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
    response.close |= core.shared.deps.readiness.is_shutting_down();
    core.metrics.answered(request.route, response.status);
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
            skim(request, body).await?;
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
    let short = body
        .size_hint()
        .exact()
        .is_some_and(|bytes| bytes <= SKIMMED_BYTES_MAX);
    // A client that waits for leave to send a body had better get the response at once.
    let waits = request.parts.headers.contains_key(http::header::EXPECT);
    if short && !waits && !response.close && response.status != StatusCode::REQUEST_TIMEOUT {
        // A failure shows in the next line.
        let _ = skim(request, body).await;
    }
    if !request.body_ended.get() {
        response.close = true;
        request.conn.linger();
    }
}

/// Reads a body that is not needed, so that the connection can be used again.
async fn skim(request: &RequestContext<'_>, incoming: &mut Incoming) -> Result<(), ApiError> {
    body::drain(incoming, &request.core.shared.config.limits).await?;
    request.body_ended.set(true);
    Ok(())
}

fn page(request: &RequestContext<'_>) -> HttpResponse {
    let readiness = &request.core.shared.deps.readiness;
    match request.route {
        Route::Config | Route::ConfigJs => compat::config(request.route, request.parts.uri.path()),
        Route::ArrayJs | Route::Static => scripts::script(request.route, request.parts),
        Route::Ready => health::ready(readiness),
        Route::Live => health::live(),
        _ => HttpResponse::new(
            StatusCode::OK,
            response::Content::Text,
            "Millrace takes analytics events. Send them to /batch/.\n",
        ),
    }
}
