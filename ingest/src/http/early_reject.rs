//! Admission control of the early reject ([`crate::early_reject`]), by the same code and with the
//! same responses as the handlers.

use super::Route;
use super::cached_error::{CachedErrorResponse, error_bytes};
use super::payload::admit_to_queue;
use super::route::RouteKind;
use crate::connection::Conn;
use crate::core::Core;
use crate::early_reject::{AdmissionControl, RejectedRequest};
use http::HeaderValue;
use httparse::{EMPTY_HEADER, Request, Status};
use millrace_rows::Lane;
use std::cell::RefCell;

/// Headers of a request that is looked at, at most; those of SDKs have some ten.
const HEADERS_MAX: usize = 32;
/// Bytes of the smallest body that is rejected early: below, looking costs more than reading.
const BODY_BYTES_MIN: usize = 16 << 10;

/// Headers of requests that are left to hyper, and a second length.
const UNPLAIN: [&str; 4] = ["content-length", "transfer-encoding", "expect", "upgrade"];

thread_local! {
    static CACHED_ERROR: RefCell<CachedErrorResponse> = RefCell::default();
}

/// Head that is as plain as those of SDKs and importers.
struct PlainHead<'a> {
    route: Route,
    head_bytes: usize,
    body_bytes: usize,
    origin: Option<&'a [u8]>,
}

impl AdmissionControl for Core {
    fn is_overloaded(&self) -> bool {
        self.fair_queue.is_overloaded() && !self.shared.deps.readiness.is_shutting_down()
    }

    fn reject(&self, conn: &Conn, beginning: &[u8]) -> Option<RejectedRequest> {
        let plain = PlainHead::read(beginning)?;
        if plain.body_bytes > self.shared.config.limits.body_bytes_max {
            return None;
        }
        let body = beginning.get(plain.head_bytes..)?;
        let admitted = admit_to_queue(self, conn, Lane::Live, None, body, plain.body_bytes);
        let error = admitted.err()?;
        self.metrics.answered(plain.route, error.status);
        let now = self.shared.deps.clock.now();
        let request_id = self.request_id(now);
        let response = match plain.origin {
            None => CACHED_ERROR
                .with_borrow_mut(|cached_error| cached_error.render(&error, request_id, now)),
            Some(origin) => {
                let origin = HeaderValue::from_bytes(origin).ok();
                error_bytes(&error, origin.as_ref(), request_id, now)
            }
        };
        Some(RejectedRequest {
            response,
            request_bytes: plain.head_bytes + plain.body_bytes,
        })
    }
}

impl<'a> PlainHead<'a> {
    /// Reads a head; `None` for one that is not plain or not there yet.
    fn read(beginning: &'a [u8]) -> Option<Self> {
        let mut headers = [EMPTY_HEADER; HEADERS_MAX];
        let mut request = Request::new(&mut headers);
        let Ok(Status::Complete(head_bytes)) = request.parse(beginning) else {
            return None;
        };
        if request.method != Some("POST") || request.version != Some(1) {
            return None;
        }
        let target = request.path?;
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let route = Route::of(path);
        // Flags in the query are not handled here; most queries have a version or a compression.
        let is_asking = ["dry_run", "historical"]
            .iter()
            .any(|it| query.contains(it));
        let is_batch = route.kind() == RouteKind::Capture || route == Route::AiBatch;
        if !is_batch || is_asking || query.contains('%') {
            return None;
        }
        let (mut hosts, mut length, mut origin, mut is_kept) = (0, None, None, true);
        for header in request.headers.iter() {
            let is = |name: &str| header.name.eq_ignore_ascii_case(name);
            if is("host") {
                hosts += 1;
            } else if is("origin") {
                origin = Some(header.value);
            } else if is("content-length") && length.is_none() {
                length = Some(number(header.value)?);
            } else if is("connection") {
                is_kept &= header.value.eq_ignore_ascii_case(b"keep-alive");
            } else if UNPLAIN.iter().any(|name| is(name)) {
                return None;
            }
        }
        let body_bytes = length.filter(|bytes| *bytes >= BODY_BYTES_MIN)?;
        (hosts == 1 && is_kept).then_some(Self {
            route,
            head_bytes,
            body_bytes,
            origin,
        })
    }
}

fn number(value: &[u8]) -> Option<usize> {
    let digits = value.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(value).ok().filter(|_| digits)?;
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: &str = "Host: t\r\n";
    const LONG: &str = "Content-Length: 50000\r\n";

    /// Returns true if a head of this line and these fields is read, and checks what it is read as.
    fn is_plain(line: &str, fields: &[&str]) -> bool {
        let head = format!("{line} HTTP/1.1\r\n{}\r\n", fields.concat());
        let cut = head.as_bytes().split_last().unwrap().1;
        assert!(PlainHead::read(cut).is_none(), "{head:?}");
        let read = PlainHead::read(head.as_bytes()).map(|it| (it.head_bytes, it.body_bytes));
        assert!(
            read.is_none_or(|it| it == (head.len(), 50_000)),
            "{head:?}: {read:?}"
        );
        read.is_some()
    }

    #[test]
    fn only_heads_with_plain_fields_are_read() {
        let table: [(&[&str], bool); 12] = [
            (&[HOST, LONG], true),
            (&[HOST, LONG, "Origin: x\r\n"], true),
            (&[HOST, LONG, "Connection: Keep-Alive\r\n"], true),
            (&[HOST, LONG, "Connection: close\r\n"], false),
            (&[HOST, LONG, "Expect: 100-continue\r\n"], false),
            (&[HOST, LONG, "Transfer-Encoding: chunked\r\n"], false),
            (&[HOST, LONG, LONG], false),
            (&[HOST, HOST, LONG], false),
            (&[LONG], false),
            (&[HOST], false),
            (&[HOST, "Content-Length: +50000\r\n"], false),
            (&[HOST, "Content-Length: 5\r\n"], false),
        ];
        for (fields, expected) in table {
            assert_eq!(is_plain("POST /batch/", fields), expected, "{fields:?}");
        }
    }

    #[test]
    fn only_plain_requests_with_events_are_read() {
        let table = [
            ("POST /batch/", true),
            ("POST /e/?ver=1&compression=gzip-js", true),
            ("POST /i/v0/ai/batch/", true),
            ("POST /batch/?dry_run=true", false),
            ("POST /batch/?historical_migration=true", false),
            ("POST /batch/?dry%5Frun=true", false),
            ("POST /flags/", false),
            ("POST /i/v1/analytics/events", false),
            ("GET /batch/", false),
        ];
        for (line, expected) in table {
            assert_eq!(is_plain(line, &[HOST, LONG]), expected, "{line}");
        }
    }
}
