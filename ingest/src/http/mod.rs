//! HTTP: from hyper's request to hyper's response.
//!
//! | Module | Does |
//! |---|---|
//! | `route`, `head`, `query` | read what the request says |
//! | `body`, `payload` | read what it carries |
//! | `decode` | make JSON of it, which is not to be many times as much |
//! | `parse` | make rows of that |
//! | `beside` | do either on a thread of its own, where it is long |
//! | `imports` | whether an import may be stored |
//! | `capture`, `report` | store it, and say what became of it |
//! | `door`, `letter` | who is sent away unread, and what they are told |
//! | `scripts` | posthog-js for pages |
//! | `courtesy`, `cors`, `answer` | everything else that is answered, and how |

mod answer;
mod beside;
mod body;
mod capture;
mod cors;
mod courtesy;
mod decode;
mod door;
mod head;
mod imports;
mod letter;
mod parse;
mod payload;
mod query;
mod report;
mod route;
mod scripts;

pub use answer::Answer;
pub use beside::Threads;
pub use route::Route;

use crate::core::Core;
use crate::edge::Conn;
use crate::health;
use crate::metrics::Stage;
use crate::watermark::Arrival;
use bytes::Bytes;
use head::Head;
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body::Body;
use http_body_util::Full;
use hyper::body::Incoming;
use millrace_parse::ApiError;
use millrace_rows::Micros;
use route::Kind;
use std::cell::Cell;
use std::convert::Infallible;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Instant;
use uuid::Uuid;

/// The longest rest of a body that is read for the sake of the connection.
const SKIMMED_BYTES_MAX: u64 = 256 << 10;

/// One request, as the handlers see it.
pub(crate) struct Call<'a> {
    core: &'a Rc<Core>,
    conn: &'a Conn,
    parts: &'a Parts,
    head: Head<'a>,
    route: Route,
    received_at: Micros,
    request_id: Uuid,
    timed: bool,
    /// Holds the watermark back, as long as there may be rows of this request.
    arrival: Cell<Option<Arrival>>,
    /// The body was read to its end; hyper cannot tell when it was chunked.
    body_ended: Cell<bool>,
}

impl Call<'_> {
    /// The start of a stage, when this request's stages are timed.
    fn now(&self) -> Option<Instant> {
        self.timed.then(Instant::now)
    }

    /// The end of a stage.
    fn took(&self, stage: Stage, started: Option<Instant>) {
        if let Some(started) = started {
            self.core.metrics.took(stage, started.elapsed());
        }
    }

    /// This request's arrival, for its rows: again, when the watermark did not wait for it.
    fn arrival(&self) -> Arrival {
        let arrival = self.arrival.take();
        arrival.unwrap_or_else(|| self.core.arrive())
    }

    /// Lets the watermark pass: there will be no rows of this arrival.
    fn step_aside(&self) {
        drop(self.arrival.take());
    }

    fn client_ip(&self) -> IpAddr {
        let trusted = &self.core.shared.config.trusted_proxies;
        self.head.client_ip(self.parts, self.conn.peer, trusted)
    }
}

/// Answers one request. `ambiguous` is [`Conn::begin`]'s.
pub async fn handle(
    core: Rc<Core>,
    conn: Rc<Conn>,
    request: Request<Incoming>,
    ambiguous: bool,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let arrival = core.arrive();
    let received_at = arrival.received_at;
    let (parts, mut body) = request.into_parts();
    let call = Call {
        core: &core,
        conn: &conn,
        parts: &parts,
        head: Head::read(&parts),
        route: Route::of(parts.uri.path()),
        received_at,
        request_id: core.request_id(received_at),
        timed: core.metrics.times(received_at.0 / 1_000_000),
        arrival: Cell::new(Some(arrival)),
        body_ended: Cell::new(body.is_end_stream()),
    };
    let header_bytes_max = core.shared.config.limits.header_bytes_max;
    let mut answer = match call.head.check(parts.version, ambiguous, header_bytes_max) {
        Ok(()) => answer(&call, &mut body).await.unwrap_or_else(|error| {
            if call.route == Route::V1 {
                Answer::error_v1(&error)
            } else {
                Answer::error(&error)
            }
        }),
        Err(error) => {
            let mut answer = Answer::error(&error);
            answer.close = true;
            answer
        }
    };
    call.step_aside();
    finish_body(&call, &mut body, &mut answer).await;
    answer.close |= core.shared.deps.readiness.is_shutting_down();
    core.metrics.answered(call.route, answer.status);
    conn.end();
    Ok(answer.into_response(call.head.origin, call.request_id))
}

async fn answer(call: &Call<'_>, body: &mut Incoming) -> Result<Answer, ApiError> {
    let kind = call.route.kind();
    match (kind, &call.parts.method) {
        (Kind::Unknown, _) => Ok(Answer::not_found()),
        (_, &Method::OPTIONS) => Ok(cors::preflight(&call.head, kind.allow())),
        (Kind::Capture, &Method::POST | &Method::GET) | (Kind::V1 | Kind::Ai, &Method::POST) => {
            capture::capture(call, body).await
        }
        (Kind::Courtesy, &Method::POST) => {
            call.step_aside();
            skim(call, body).await?;
            Ok(courtesy::quiet(call.route))
        }
        (Kind::Page, &Method::GET | &Method::HEAD) => Ok(page(call)),
        _ => Ok(Answer::method_not_allowed(
            kind.allow(),
            call.route == Route::V1,
        )),
    }
}

/// Deals with a body that the answer did not need. A short one is read, so that the connection
/// can be used again; otherwise it stands between us and the next request, and the connection is
/// closed once the client has had time to read the answer.
async fn finish_body(call: &Call<'_>, body: &mut Incoming, answer: &mut Answer) {
    if call.body_ended.get() {
        return;
    }
    let short = body
        .size_hint()
        .exact()
        .is_some_and(|bytes| bytes <= SKIMMED_BYTES_MAX);
    // Who waits for leave to send a body is better told at once.
    let waits = call.parts.headers.contains_key(http::header::EXPECT);
    if short && !waits && !answer.close && answer.status != StatusCode::REQUEST_TIMEOUT {
        // What goes wrong now shows in the next line.
        let _ = skim(call, body).await;
    }
    if !call.body_ended.get() {
        answer.close = true;
        call.conn.linger();
    }
}

/// Reads a body that means nothing, so that the connection can be used again.
async fn skim(call: &Call<'_>, incoming: &mut Incoming) -> Result<(), ApiError> {
    body::drain(incoming, &call.core.shared.config.limits).await?;
    call.body_ended.set(true);
    Ok(())
}

fn page(call: &Call<'_>) -> Answer {
    let readiness = &call.core.shared.deps.readiness;
    match call.route {
        Route::Config | Route::ConfigJs => courtesy::config(call.route, call.parts.uri.path()),
        Route::ArrayJs | Route::Static => scripts::script(call.route, call.parts),
        Route::Ready => health::ready(readiness),
        Route::Live => health::live(),
        _ => Answer::new(
            StatusCode::OK,
            answer::Content::Text,
            "Millrace takes analytics events. Send them to /batch/.\n",
        ),
    }
}
