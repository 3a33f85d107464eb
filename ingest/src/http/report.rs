//! Response bodies of capture requests: what became of their events.

use crate::admission::response_budget::ResponseShare;
use crate::response::HttpResponse;
use bytes::Bytes;
use http::StatusCode;
use millrace_parse::{ApiError, EventResult, Parsed, Rejection, Warning};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

/// Response body of nearly every request.
const OK: &str = r#"{"status":"Ok"}"#;

/// Response to a request that could be parsed, sent once its rows are on disk.
pub struct CaptureResponse {
    /// True if all events were accepted without a warning.
    plain: bool,
    /// Response, when it is not the usual one.
    response: Option<HttpResponse>,
}

/// Body with its share of the budget.
struct CountedBody {
    body: Bytes,
    _share: ResponseShare,
}

impl AsRef<[u8]> for CountedBody {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

/// Body of a success with a report.
#[derive(Serialize)]
struct SuccessReport<'a> {
    status: &'static str,
    accepted: u32,
    rejected_count: u32,
    rejected: &'a [Rejection],
    #[serde(skip_serializing_if = "Option::is_none")]
    warnings: Option<&'a [Warning]>,
}

/// Body of an error with a report.
#[derive(Serialize)]
struct ErrorReport<'a> {
    #[serde(flatten)]
    error: &'a ApiError,
    /// Key that clients of the per-event protocol read beside the usual ones.
    #[serde(rename = "error", skip_serializing_if = "Option::is_none")]
    tag: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_description: Option<&'a str>,
    accepted: u32,
    rejected_count: u32,
    rejected: &'a [Rejection],
}

/// Returns true if the batch of this request may be stored.
pub fn stores(parsed: &Parsed) -> bool {
    !(parsed.dry_run || refuses_all(parsed))
}

/// Returns true if the request is `strict` and an event was rejected.
fn refuses_all(parsed: &Parsed) -> bool {
    parsed.strict && parsed.report.rejected_count > 0
}

impl CaptureResponse {
    /// Builds the response for these events; `beacon`s are answered 204 whenever others are
    /// answered 200.
    pub fn of(parsed: &Parsed, v1: bool, beacon: bool) -> Self {
        let report = &parsed.report;
        let plain = report.rejected_count == 0 && report.warning_count == 0 && !parsed.dry_run;
        let is_refused = !parsed.dry_run && (refuses_all(parsed) || (!v1 && parsed.accepted == 0));
        let response = if is_refused {
            Some(refusal(parsed, v1))
        } else if beacon {
            Some(HttpResponse::empty())
        } else if v1 {
            let results = ResultsByUuid(&parsed.results);
            Some(HttpResponse::json(StatusCode::OK, &Results { results }))
        } else if plain {
            None
        } else {
            Some(success(parsed))
        };
        Self { plain, response }
    }

    /// Bytes of the body, unless it is the usual one.
    pub fn bytes(&self) -> usize {
        self.response
            .as_ref()
            .map_or(0, |response| response.body.len())
    }

    /// Counts the body as a part of the budget until it was sent.
    pub fn count_in(&mut self, share: ResponseShare) {
        if let Some(response) = &mut self.response {
            let body = std::mem::take(&mut response.body);
            // hyper drops its reference to the body once the socket has taken all of it.
            response.body = Bytes::from_owner(CountedBody {
                body,
                _share: share,
            });
        }
    }

    /// Returns the HTTP response.
    pub fn into_http(self) -> HttpResponse {
        self.response.unwrap_or_else(|| HttpResponse::ok_static(OK))
    }

    /// Returns true if all events were accepted without a warning.
    pub const fn plain(&self) -> bool {
        self.plain
    }
}

fn success(parsed: &Parsed) -> HttpResponse {
    let report = &parsed.report;
    let warned = report.warning_count > 0 || parsed.dry_run;
    HttpResponse::json(
        StatusCode::OK,
        &SuccessReport {
            status: "Ok",
            accepted: parsed.accepted,
            rejected_count: report.rejected_count,
            rejected: &report.rejected,
            warnings: warned.then_some(&report.warnings),
        },
    )
}

/// Builds a 400 with the first rejection as the error, so that clients that read nothing else see
/// why.
fn refusal(parsed: &Parsed, v1: bool) -> HttpResponse {
    let report = &parsed.report;
    let error = match report.rejected.first() {
        Some(first) => ApiError {
            attr: Some(first.attr.clone()).filter(|attr| !attr.is_empty()),
            ..ApiError::invalid(first.code, first.detail.clone())
        },
        None => ApiError::invalid("empty_batch", "There is no event in the request."),
    };
    let body = ErrorReport {
        error: &error,
        tag: v1.then_some(error.code),
        error_description: v1.then_some(&*error.detail),
        accepted: 0,
        rejected_count: report.rejected_count,
        rejected: &report.rejected,
    };
    HttpResponse::json(StatusCode::BAD_REQUEST, &body)
}

/// Body of the per-event protocol's success.
#[derive(Serialize)]
struct Results<'a> {
    results: ResultsByUuid<'a>,
}

/// Results by uuid, in the order of the events.
struct ResultsByUuid<'a>(&'a [EventResult]);

impl Serialize for ResultsByUuid<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct One {
            result: millrace_parse::Outcome,
            #[serde(skip_serializing_if = "Option::is_none")]
            details: Option<&'static str>,
        }
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for result in self.0 {
            let one = One {
                result: result.outcome,
                details: result.details,
            };
            map.serialize_entry(result.uuid.as_str(), &one)?;
        }
        map.end()
    }
}
