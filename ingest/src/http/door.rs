//! Who is sent away at the door ([`crate::door`]), and with which words: the same that the handlers
//! have for it.

use super::Route;
use super::answer::Answer;
use super::payload::admit_to_queue;
use super::route::Kind;
use crate::core::Core;
use crate::door::{Doorkeeper, Refused};
use crate::edge::Conn;
use http::header::{CONTENT_LENGTH, DATE};
use http::{HeaderMap, HeaderValue, StatusCode};
use httparse::{EMPTY_HEADER, Request, Status};
use millrace_rows::{Lane, Micros};
use std::time::{Duration, UNIX_EPOCH};

/// Headers of a request that is looked at; those of SDKs have some ten.
const HEADERS_MAX: usize = 32;
/// Bytes of the smallest body that is worth it: below, looking costs more than reading.
const BODY_BYTES_MIN: usize = 16 << 10;

/// A head that is as plain as those of SDKs and importers.
struct Plain<'a> {
    route: Route,
    head_bytes: usize,
    body_bytes: usize,
    origin: Option<&'a [u8]>,
}

impl Doorkeeper for Core {
    fn is_crowded(&self) -> bool {
        self.turns.is_crowded() && !self.shared.deps.readiness.is_shutting_down()
    }

    fn refuse(&self, conn: &Conn, beginning: &[u8]) -> Option<Refused> {
        let plain = Plain::read(beginning)?;
        if plain.body_bytes > self.shared.config.limits.body_bytes_max {
            return None;
        }
        let body = beginning.get(plain.head_bytes..)?;
        let admitted = admit_to_queue(self, conn, Lane::Live, None, body, plain.body_bytes);
        let answer = Answer::error(&admitted.err()?);
        self.metrics.answered(plain.route, answer.status);
        let origin = plain.origin.and_then(|it| HeaderValue::from_bytes(it).ok());
        let now = self.shared.deps.clock.now();
        let response = answer.into_response(origin.as_ref(), self.request_id(now));
        let (parts, body) = response.into_parts();
        let body = body.into_inner().unwrap_or_default();
        Some(Refused {
            answer: written(parts.status, parts.headers, &body, now),
            request_bytes: plain.head_bytes + plain.body_bytes,
        })
    }
}

impl<'a> Plain<'a> {
    /// `None` for whatever else there may be, and for heads that are not there yet.
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
        // What a query may ask for is not for here; most have a version or a compression.
        let is_asking = ["dry_run", "historical"]
            .iter()
            .any(|it| query.contains(it));
        if route.kind() != Kind::Capture || is_asking || query.contains('%') {
            return None;
        }
        let (mut hosts, mut length, mut origin) = (0, None, None);
        for header in request.headers.iter() {
            match header.name.to_ascii_lowercase().as_str() {
                "host" => hosts += 1,
                "origin" => origin = Some(header.value),
                "content-length" if length.is_none() => length = Some(number(header.value)?),
                "content-length" | "transfer-encoding" | "expect" | "upgrade" => return None,
                "connection" if !header.value.eq_ignore_ascii_case(b"keep-alive") => return None,
                _ => {}
            }
        }
        let body_bytes = length.filter(|bytes| *bytes >= BODY_BYTES_MIN)?;
        (hosts == 1).then_some(Self {
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

/// An answer as it goes over the wire.
fn written(status: StatusCode, mut headers: HeaderMap, body: &[u8], now: Micros) -> Vec<u8> {
    headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    let since_1970 = Duration::from_micros(u64::try_from(now.0).unwrap_or_default());
    let date = httpdate::fmt_http_date(UNIX_EPOCH + since_1970);
    if let Ok(date) = HeaderValue::from_str(&date) {
        headers.insert(DATE, date);
    }
    let mut out = format!("HTTP/1.1 {status}\r\n").into_bytes();
    for (name, value) in &headers {
        out.extend_from_slice(name.as_str().as_bytes());
        out.extend_from_slice(b": ");
        out.extend_from_slice(value.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(body);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_heads_are_looked_at() {
        let host = "Host: t\r\n";
        let long = "Content-Length: 50000\r\n";
        let table = [
            ("POST /batch/", format!("{host}{long}"), true),
            (
                "POST /e/?ver=1&compression=gzip-js",
                format!("{host}{long}Origin: x\r\n"),
                true,
            ),
            (
                "POST /batch/",
                format!("{host}{long}Connection: Keep-Alive\r\n"),
                true,
            ),
            (
                "POST /batch/",
                format!("{host}{long}Connection: close\r\n"),
                false,
            ),
            (
                "POST /batch/",
                format!("{host}{long}Expect: 100-continue\r\n"),
                false,
            ),
            (
                "POST /batch/",
                format!("{host}{long}Transfer-Encoding: chunked\r\n"),
                false,
            ),
            ("POST /batch/", format!("{host}{long}{long}"), false),
            ("POST /batch/", format!("{host}{host}{long}"), false),
            ("POST /batch/", long.to_owned(), false),
            ("POST /batch/", host.to_owned(), false),
            (
                "POST /batch/",
                format!("{host}Content-Length: +50000\r\n"),
                false,
            ),
            (
                "POST /batch/",
                format!("{host}Content-Length: 5\r\n"),
                false,
            ),
            ("POST /batch/?dry_run=true", format!("{host}{long}"), false),
            (
                "POST /batch/?historical_migration=true",
                format!("{host}{long}"),
                false,
            ),
            (
                "POST /batch/?dry%5Frun=true",
                format!("{host}{long}"),
                false,
            ),
            ("POST /flags/", format!("{host}{long}"), false),
            (
                "POST /i/v1/analytics/events",
                format!("{host}{long}"),
                false,
            ),
            ("GET /batch/", format!("{host}{long}"), false),
        ];
        for (line, fields, plain) in table {
            let head = format!("{line} HTTP/1.1\r\n{fields}\r\n");
            let read = Plain::read(head.as_bytes()).map(|it| (it.head_bytes, it.body_bytes));
            assert_eq!(read, plain.then_some((head.len(), 50_000)), "{head:?}");
            let cut = head.as_bytes().split_last().unwrap().1;
            assert!(Plain::read(cut).is_none(), "{head:?}");
        }
    }
}
