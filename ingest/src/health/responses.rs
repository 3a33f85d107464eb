//! Responses to probes: liveness, readiness and metrics.

use super::{FailedCheck, PartState, Readiness};
use crate::former_metrics::with_former_names;
use crate::metrics;
use crate::metrics_page::MetricsPage;
use crate::metrics_source::MetricsSource;
use crate::response::HttpResponse;
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use millrace_rows::shown_json;
use serde::Serialize;
use uuid::Uuid;

/// Sources of the responses to probes.
pub(super) struct ProbeSources {
    pub(super) readiness: Readiness,
    pub(super) metrics: MetricsSource,
    pub(super) metrics_page: MetricsPage,
}

/// Response to `/_health/live`: a process that answers lives.
pub fn live() -> HttpResponse {
    HttpResponse::ok_static(r#"{"status":"live"}"#).never_cached()
}

/// Response to `/_health/ready`.
pub fn ready(readiness: &Readiness) -> HttpResponse {
    ready_response(readiness, None)
}

/// Response to `/_health/ready?verbose`.
fn ready_verbosely(readiness: &Readiness) -> HttpResponse {
    ready_response(readiness, Some(readiness.parts()))
}

fn ready_response(readiness: &Readiness, parts: Option<Vec<PartState>>) -> HttpResponse {
    #[derive(Serialize)]
    struct Ready {
        status: &'static str,
        parts: Vec<PartState>,
    }
    #[derive(Serialize)]
    struct NotReady {
        r#type: &'static str,
        code: &'static str,
        detail: &'static str,
        attr: Option<&'static str>,
        problems: Vec<FailedCheck>,
        #[serde(skip_serializing_if = "Option::is_none")]
        parts: Option<Vec<PartState>>,
    }
    let problems = readiness.failed_checks();
    if !problems.is_empty() {
        let body = NotReady {
            r#type: "server_error",
            code: "not_ready",
            detail: "The server does not accept events now; problems has the reasons.",
            attr: None,
            problems,
            parts,
        };
        return shown(StatusCode::SERVICE_UNAVAILABLE, &body);
    }
    match parts {
        None => HttpResponse::ok_static(r#"{"status":"ready"}"#).never_cached(),
        Some(parts) => {
            let status = "ready";
            shown(StatusCode::OK, &Ready { status, parts })
        }
    }
}

/// Response for a terminal: errors of parts may quote texts of customers, so control characters and
/// marks of direction are escaped.
fn shown(status: StatusCode, body: &impl Serialize) -> HttpResponse {
    let mut response = HttpResponse::json(status, body).never_cached();
    let escaped = shown_json(&String::from_utf8_lossy(&response.body)).into_owned();
    response.body = escaped.into();
    response
}

/// Response with the list of all nodes. Their names and hosts come from the catalog.
fn listed(nodes: &[u8]) -> HttpResponse {
    let escaped = shown_json(&String::from_utf8_lossy(nodes)).into_owned();
    let mut response = HttpResponse::ok_static("").never_cached();
    response.body = escaped.into();
    response
}

impl ProbeSources {
    fn page(&self) -> Bytes {
        let render = || {
            let ready = self.readiness.failed_checks().is_empty();
            metrics::ready().set(f64::from(u8::from(ready)));
            with_former_names(self.metrics.render())
        };
        self.metrics_page.get(render)
    }
}

/// Response to any request.
pub(super) fn respond(
    request: &Request<Incoming>,
    sources: &ProbeSources,
) -> Response<Full<Bytes>> {
    let readiness = &sources.readiness;
    let path = request.uri().path();
    let path = path.strip_suffix('/').unwrap_or(path);
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let response = match path {
        "" | "/_health/live" | "/_health/ready" | "/_health/nodes" | "/metrics" if !is_read => {
            HttpResponse::method_not_allowed("GET, HEAD", false)
        }
        "/_health/live" | "" => live(),
        "/_health/ready" if is_verbose(request) => ready_verbosely(readiness),
        "/_health/ready" => ready(readiness),
        "/_health/nodes" => match readiness.nodes() {
            Some(nodes) => listed(&nodes),
            None => HttpResponse::not_found(),
        },
        "/metrics" => {
            let mut response = Response::new(Full::new(sources.page()));
            let text = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
            response.headers_mut().insert(header::CONTENT_TYPE, text);
            return response;
        }
        _ => HttpResponse::not_found(),
    };
    response.into_response(None, Uuid::now_v7())
}

fn is_verbose(request: &Request<Incoming>) -> bool {
    let mut fields = request.uri().query().unwrap_or_default().split('&');
    fields.any(|field| field.split('=').next() == Some("verbose"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn every_condition_that_fails_is_named() {
        let readiness = Readiness::new();
        assert_eq!(ready(&readiness).status, StatusCode::OK);
        let full = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&full);
        readiness.require("catalog", || None);
        readiness.require("log", move || {
            flag.load(Ordering::Acquire)
                .then(|| "the log is full".to_owned())
        });
        assert_eq!(readiness.failed_checks(), []);
        full.store(true, Ordering::Release);
        readiness.shut_down();
        let names: Vec<_> = readiness
            .failed_checks()
            .into_iter()
            .map(|check| check.name)
            .collect();
        assert_eq!(names, ["log", "shutdown"]);
        let answer = ready(&readiness);
        assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
        let body = String::from_utf8(answer.body.to_vec()).unwrap();
        assert!(
            body.contains(r#"{"name":"log","detail":"the log is full"}"#),
            "{body}"
        );
    }

    #[test]
    fn a_failed_part_that_is_only_observed_is_listed_and_the_process_stays_ready() {
        let readiness = Readiness::new();
        readiness.require("log", || None);
        readiness.observe("clickhouse", || Some("the password is wrong".to_owned()));
        assert_eq!(readiness.failed_checks(), []);
        assert_eq!(ready(&readiness).body, r#"{"status":"ready"}"#);
        let verbose = ready_verbosely(&readiness);
        assert_eq!(verbose.status, StatusCode::OK);
        let body: serde_json::Value = serde_json::from_slice(&verbose.body).unwrap();
        let log =
            serde_json::json!({"name": "log", "status": "ok", "required": true, "detail": null});
        assert_eq!(body["status"], "ready");
        assert_eq!(body["parts"][0], log);
        assert_eq!(body["parts"][1]["detail"], "the password is wrong");
        readiness.shut_down();
        let verbose = ready_verbosely(&readiness);
        assert_eq!(verbose.status, StatusCode::SERVICE_UNAVAILABLE);
        let body: serde_json::Value = serde_json::from_slice(&verbose.body).unwrap();
        assert_eq!(body["problems"][0]["name"], "shutdown");
        assert_eq!(body["parts"][1]["status"], "failed");
    }

    #[test]
    fn the_list_of_nodes_is_escaped_for_terminals() {
        let readiness = Readiness::new();
        assert_eq!(readiness.nodes(), None);
        readiness.set_nodes("{\"nodes\":[\"\u{9b}2J\"]}".into());
        let body = listed(&readiness.nodes().unwrap()).body;
        assert!(!String::from_utf8_lossy(&body).contains('\u{9b}'));
        serde_json::from_slice::<serde_json::Value>(&body).unwrap();
    }

    #[test]
    fn no_error_of_a_part_reaches_a_terminal_unescaped() {
        let hostile = "\u{1b}[2J\u{202e}\u{2028}\u{9b}\u{7f}\"";
        let readiness = Readiness::new();
        readiness.observe("clickhouse", move || Some(hostile.to_owned()));
        for is_ready in [true, false] {
            if !is_ready {
                readiness.require("log", move || Some(hostile.to_owned()));
            }
            let verbose = ready_verbosely(&readiness);
            let text = String::from_utf8(verbose.body.to_vec()).unwrap();
            assert!(!text.contains(millrace_rows::is_control), "{text:?}");
            let body: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!(body["parts"][0]["detail"], hostile, "{is_ready}");
        }
    }
}
