//! Bodies of requests: read as fast as they come, up to a limit of size and time.
//!
//! hyper waits for bodies without end; here a pause longer than the stall timeout, a window of the
//! same length in which fewer bytes came than at the lowest speed, or more time than any body has,
//! ends in 408. (By the mean speed since the start, a client that sent much at once could pause for
//! hours.) Once the process stops, a shorter pause ends in 503: the stop waits for every request,
//! and nobody listens meanwhile. The bytes are counted against the process's budget as they arrive,
//! in steps: counting the declared length at once would let a few silent connections use the budget
//! up.

use super::context::RequestContext;
use crate::admission::budget::{SMALL_BYTES_MAX, Share};
use crate::admission::policy::Admission;
use crate::admission::rejection::Rejection;
use crate::config::HttpLimits;
use crate::core::Core;
use crate::metrics;
use bytes::Bytes;
use http::StatusCode;
use http_body::{Body, Frame};
use hyper::body::Incoming;
use millrace_encoding::BodyBuf;
use millrace_parse::{ApiError, ErrorType};
use millrace_pipeline::Refusal;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;
use tokio::time::Sleep;

/// Bytes of a step in which the budget is asked: a small body is one step.
const SHARE_STEP_BYTES: usize = SMALL_BYTES_MAX;
/// Bytes that are allocated at most for a declared length alone.
const RESERVE_BYTES_MAX: usize = 1 << 20;

/// Reads the body into one piece. `check_beginning` is given its beginning, and its length as far
/// as that is known: a body that is refused then is not kept. `is_known` is given the beginning of
/// a large body, and returns true if that names a known project.
pub async fn gather<T>(
    body: &mut Incoming,
    request: &RequestContext<'_>,
    share: &mut Share,
    check_beginning: impl Fn(&[u8], usize) -> Result<T, ApiError>,
    is_known: impl Fn(&[u8]) -> bool,
) -> Result<BodyBuf, ApiError> {
    let core = request.core;
    let declared = declared_bytes(body, &core.admission)?;
    let mut out: Option<Vec<u8>> = None;
    // While this is alive, hyper reads the next bytes into a buffer of just the size that it wants.
    // A buffer that it has alone it doubles, and keeps for as long as the connection lasts.
    let mut before = Bytes::new();
    let mut pace = Pace::new(core);
    let mut is_large = false;
    while let Some(bytes) = pace
        .data(body, |late| wait_on(request, share, late))
        .await?
    {
        if pace.bytes == bytes.len() {
            check_beginning(&bytes, declared.max(bytes.len()))?;
        }
        if pace.bytes > SMALL_BYTES_MAX && !std::mem::replace(&mut is_large, true) {
            let beginning = out.as_deref().unwrap_or(&bytes);
            if is_known(beginning) {
                share.mark_project_known();
            }
        }
        if !share.grow_to(pace.bytes.next_multiple_of(SHARE_STEP_BYTES)) {
            return Err(core.admission.overloaded());
        }
        if out.is_none() && body.is_end_stream() {
            return Ok(BodyBuf::Frame(bytes));
        }
        let out = out.get_or_insert_with(|| {
            let mut out = core.buffers.take();
            out.reserve(declared.min(RESERVE_BYTES_MAX));
            out
        });
        out.extend_from_slice(&bytes);
        drop(std::mem::replace(&mut before, bytes));
    }
    share.mark_complete();
    Ok(out.map_or_else(|| BodyBuf::Frame(Bytes::new()), BodyBuf::Buffer))
}

/// Lets the watermark pass a body that is late, whether it comes slowly or not at all, and counts a
/// slow one among the slow ones.
fn wait_on(
    request: &RequestContext<'_>,
    share: &mut Share,
    late: Lateness,
) -> Result<(), ApiError> {
    if late.is_past_hold {
        request.release_epoch();
    }
    match !late.is_slow || share.slow_down() {
        true => Ok(()),
        false => Err(request.core.admission.overloaded()),
    }
}

/// Reads and discards a body that is not needed.
pub async fn drain(body: &mut Incoming, core: &Core) -> Result<(), ApiError> {
    declared_bytes(body, &core.admission)?;
    let mut pace = Pace::new(core);
    while pace.data(body, |_| Ok(())).await?.is_some() {}
    Ok(())
}

/// Length that the head declares, in bytes; 0 for chunks.
pub fn declared_bytes(body: &Incoming, admission: &Admission) -> Result<usize, ApiError> {
    let bytes_max = admission.limits().body_bytes_max;
    usize::try_from(body.size_hint().lower())
        .ok()
        .filter(|declared| *declared <= bytes_max)
        .ok_or_else(|| admission.error(Rejection::BodyTooLarge { bytes_max }))
}

/// Returns true if a body is empty but for white space.
pub fn is_blank(json: &[u8]) -> bool {
    json.iter().all(u8::is_ascii_whitespace)
}

/// Lateness of a body that is not complete.
#[derive(Clone, Copy, Debug)]
struct Lateness {
    /// Later than [`HttpLimits::body_hold`].
    is_past_hold: bool,
    /// Later than [`HttpLimits::body_slow_after`].
    is_slow: bool,
}

/// Pace at which a body comes.
struct Pace<'a> {
    core: &'a Core,
    limits: &'a HttpLimits,
    started: Instant,
    /// Time at which the last bytes came.
    last: Instant,
    bytes: usize,
    /// Start of the window in which its speed is measured.
    window: Instant,
    /// Bytes that had come before the window.
    window_bytes: usize,
    /// Timer, made when the body is first waited for, which most never are.
    timer: Option<Pin<Box<Sleep>>>,
}

impl<'a> Pace<'a> {
    fn new(core: &'a Core) -> Self {
        let now = Instant::now();
        Self {
            core,
            limits: core.admission.limits(),
            started: now,
            last: now,
            bytes: 0,
            window: now,
            window_bytes: 0,
            timer: None,
        }
    }

    /// Next bytes; `None` at the body's end. Calls `wait_on`, which may refuse the body, with its
    /// lateness whenever it has to be waited for.
    async fn data(
        &mut self,
        body: &mut Incoming,
        mut wait_on: impl FnMut(Lateness) -> Result<(), ApiError>,
    ) -> Result<Option<Bytes>, ApiError> {
        while let Some(frame) = poll_fn(|cx| self.poll_frame(body, cx, &mut wait_on)).await? {
            let Ok(bytes) = frame.into_data() else {
                continue; // Trailers mean nothing here.
            };
            self.arrived(bytes.len())?;
            return Ok(Some(bytes));
        }
        Ok(None)
    }

    fn poll_frame(
        &mut self,
        body: &mut Incoming,
        cx: &mut Context<'_>,
        wait_on: &mut impl FnMut(Lateness) -> Result<(), ApiError>,
    ) -> Poll<Result<Option<Frame<Bytes>>, ApiError>> {
        match Pin::new(body).poll_frame(cx) {
            Poll::Ready(None) => Poll::Ready(Ok(None)),
            Poll::Ready(Some(Ok(frame))) => Poll::Ready(Ok(Some(frame))),
            Poll::Ready(Some(Err(_))) => Poll::Ready(Err(cut_short())),
            Poll::Pending => self.poll_stall(cx, wait_on).map(Err),
        }
    }

    /// Ready with an error when no bytes have come for too long, or the body takes too long. A stop
    /// of the process wakes the connection's task, and so comes here.
    fn poll_stall(
        &mut self,
        cx: &mut Context<'_>,
        wait_on: &mut impl FnMut(Lateness) -> Result<(), ApiError>,
    ) -> Poll<ApiError> {
        let stalled_at = self.last + self.limits.body_stall_timeout;
        let end = self.started.checked_add(self.limits.body_timeout);
        let deadline = end.map_or(stalled_at, |end| end.min(stalled_at));
        let hold_end = self.started.checked_add(self.limits.body_hold);
        let slow_at = self.started.checked_add(self.limits.body_slow_after);
        let stop_end = self.stop_end();
        let due = |now: Instant| {
            let next = [hold_end, slow_at, stop_end].into_iter().flatten();
            next.filter(|at| *at > now).fold(deadline, Instant::min)
        };
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(due(self.last).into())));
        if let Some(stop_end) = stop_end
            && timer.deadline() > stop_end.into()
        {
            timer.as_mut().reset(stop_end.into());
        }
        while timer.as_mut().poll(cx).is_ready() {
            let now = Instant::now();
            if now >= deadline {
                return Poll::Ready(stalled());
            }
            if stop_end.is_some_and(|end| now >= end) {
                let stopping = Rejection::Pipeline(Refusal::ShuttingDown);
                return Poll::Ready(self.core.admission.error(stopping));
            }
            timer.as_mut().reset(due(now).into());
        }
        let now = Instant::now();
        let is_past = |at: Option<Instant>| at.is_some_and(|at| now >= at);
        let late = Lateness {
            is_past_hold: is_past(hold_end),
            is_slow: is_past(slow_at),
        };
        match wait_on(late) {
            Ok(()) => Poll::Pending,
            Err(refused) => Poll::Ready(refused),
        }
    }

    /// Time at which a body that stays silent is given up because the process stops.
    fn stop_end(&self) -> Option<Instant> {
        let since = self.core.stopping_since()?.max(self.last);
        since.checked_add(self.limits.stop_stall_timeout)
    }

    /// Counts bytes that came; refuses when all of them together are too many, or came too slowly.
    fn arrived(&mut self, bytes: usize) -> Result<(), ApiError> {
        self.bytes += bytes;
        let bytes_max = self.limits.body_bytes_max;
        if self.bytes > bytes_max {
            let too_large = Rejection::BodyTooLarge { bytes_max };
            return Err(self.core.admission.error(too_large));
        }
        if self.timer.is_none() {
            return Ok(());
        }
        self.last = Instant::now();
        if self.last.duration_since(self.started) >= self.limits.body_timeout {
            return Err(stalled());
        }
        let window = self.last.duration_since(self.window);
        if window >= self.limits.body_stall_timeout {
            let due = window.as_secs_f64() * self.limits.body_bytes_per_second_min as f64;
            if ((self.bytes - self.window_bytes) as f64) < due {
                return Err(stalled());
            }
            (self.window, self.window_bytes) = (self.last, self.bytes);
        }
        Ok(())
    }
}

fn stalled() -> ApiError {
    metrics::timed_out("body");
    ApiError::new(
        StatusCode::REQUEST_TIMEOUT,
        ErrorType::InvalidRequest,
        "request_timeout",
        "The body arrived too slowly. Send it again.",
    )
}

fn cut_short() -> ApiError {
    ApiError::new(
        StatusCode::BAD_REQUEST,
        ErrorType::InvalidRequest,
        "incomplete_body",
        "The body ended early or its chunks are malformed. Send it again.",
    )
}
