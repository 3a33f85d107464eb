//! What a client is told of its events.

use super::answer::Answer;
use http::StatusCode;
use millrace_parse::{ApiError, EventResult, Parsed, Rejection, Warning};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

/// The answer to nearly every request.
const OK: &str = r#"{"status":"Ok"}"#;

/// What became of a request that could be read; what the answer is made from once the rows are
/// on disk.
pub struct Told {
    /// Whether everything was stored without remark.
    plain: bool,
    /// The answer, when it is not the usual one.
    answer: Option<Answer>,
}

/// A report in a success.
#[derive(Serialize)]
struct Stored<'a> {
    status: &'static str,
    accepted: u32,
    rejected_count: u32,
    rejected: &'a [Rejection],
    #[serde(skip_serializing_if = "Option::is_none")]
    warnings: Option<&'a [Warning]>,
}

/// A report in an error.
#[derive(Serialize)]
struct Refused<'a> {
    #[serde(flatten)]
    error: &'a ApiError,
    /// What clients of the per-event protocol read beside the usual keys.
    #[serde(rename = "error", skip_serializing_if = "Option::is_none")]
    tag: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_description: Option<&'a str>,
    accepted: u32,
    rejected_count: u32,
    rejected: &'a [Rejection],
}

/// Whether the batch of this request may be stored.
pub fn stores(parsed: &Parsed) -> bool {
    !(parsed.dry_run || refuses_all(parsed))
}

/// `strict`, and something is wrong.
fn refuses_all(parsed: &Parsed) -> bool {
    parsed.strict && parsed.report.rejected_count > 0
}

impl Told {
    /// What to tell the client of these events.
    pub fn of(parsed: &Parsed, v1: bool) -> Self {
        let report = &parsed.report;
        let plain = report.rejected_count == 0 && report.warning_count == 0 && !parsed.dry_run;
        if v1 && (parsed.dry_run || !refuses_all(parsed)) {
            let results = Answer::json(
                StatusCode::OK,
                &Results {
                    results: By(&parsed.results),
                },
            );
            return Self {
                plain,
                answer: Some(results),
            };
        }
        let answer = if plain {
            None
        } else if !parsed.dry_run && (refuses_all(parsed) || parsed.accepted == 0) {
            Some(refusal(parsed, v1))
        } else {
            Some(success(parsed))
        };
        Self { plain, answer }
    }

    /// The answer; `beacon`s are answered 204 whenever others are answered 200.
    pub fn answer(self, beacon: bool) -> Answer {
        match self.answer {
            Some(answer) if answer.status != StatusCode::OK => answer,
            _ if beacon => Answer::empty(),
            Some(answer) => answer,
            None => Answer::ok_static(OK),
        }
    }

    /// Whether everything was stored without remark.
    pub const fn plain(&self) -> bool {
        self.plain
    }
}

fn success(parsed: &Parsed) -> Answer {
    let report = &parsed.report;
    let warned = report.warning_count > 0 || parsed.dry_run;
    Answer::json(
        StatusCode::OK,
        &Stored {
            status: "Ok",
            accepted: parsed.accepted,
            rejected_count: report.rejected_count,
            rejected: &report.rejected,
            warnings: warned.then_some(&report.warnings),
        },
    )
}

/// 400 with the first rejection as the error, so that clients that read nothing else see why.
fn refusal(parsed: &Parsed, v1: bool) -> Answer {
    let report = &parsed.report;
    let error = match report.rejected.first() {
        Some(first) => ApiError {
            attr: Some(first.attr.clone()).filter(|attr| !attr.is_empty()),
            ..ApiError::invalid(first.code, first.detail.clone())
        },
        None => ApiError::invalid("empty_batch", "There is no event in the request."),
    };
    let body = Refused {
        error: &error,
        tag: v1.then_some(error.code),
        error_description: v1.then_some(&*error.detail),
        accepted: 0,
        rejected_count: report.rejected_count,
        rejected: &report.rejected,
    };
    Answer::json(StatusCode::BAD_REQUEST, &body)
}

/// The per-event protocol's success.
#[derive(Serialize)]
struct Results<'a> {
    results: By<'a>,
}

/// Results by uuid, in the order of the events.
struct By<'a>(&'a [EventResult]);

impl Serialize for By<'_> {
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
