//! Traces in the form that OpenTelemetry collectors accept: OTLP over HTTP, in JSON.
//!
//! The id of a trace is that of its request, as the response's `X-Request-Id` has it.

use super::waiting::FinishedTrace;
use millrace_ingest::trace::RequestTrace;
use serde_json::{Value, json};
use std::time::Duration;

/// Kinds of spans: within the program, and an answered request.
const INTERNAL: u8 = 1;
const SERVER: u8 = 2;
/// State of a span that failed.
const ERROR: u8 = 2;
/// Name of the span from the sync of the rows until they are in ClickHouse.
const STORE: &str = "store";

/// Builds the body of an export.
pub fn export_request(node: &str, traces: &[FinishedTrace]) -> Value {
    let spans: Vec<Value> = traces.iter().flat_map(spans).collect();
    json!({
        "resourceSpans": [{
            "resource": { "attributes": [
                text("service.name", "millrace"),
                text("service.version", env!("CARGO_PKG_VERSION")),
                text("service.instance.id", node),
            ] },
            "scopeSpans": [{ "scope": { "name": "millrace" }, "spans": spans }],
        }],
    })
}

/// Span of a request and below it those of its stages.
fn spans(finished: &FinishedTrace) -> Vec<Value> {
    let trace = &finished.trace;
    let stages = trace.stages.iter();
    let mut parts: Vec<_> = stages
        .map(|stage| (stage.name, stage.began, stage.began + stage.took))
        .collect();
    if let Some(stored_after) = finished.stored_after {
        // From the sync on: the last stage of a request that left rows.
        let synced = trace.stages.last();
        let synced = synced.map_or(trace.took, |stage| stage.began + stage.took);
        parts.push((STORE, synced, stored_after.max(synced)));
    }
    let children = parts.iter().zip(1_u64..);
    let children = children.map(|((name, began, ended), number)| {
        let mut span = span(trace, number, name, (*began, *ended));
        set(&mut span, "parentSpanId", json!(span_id(trace, 0)));
        span
    });
    std::iter::once(root(trace)).chain(children).collect()
}

fn root(trace: &RequestTrace) -> Value {
    let name = format!("ingest {}", trace.path);
    let mut root = span(trace, 0, &name, (Duration::ZERO, trace.took));
    let mut attributes = vec![
        text("http.route", trace.path),
        number("http.response.status_code", trace.status),
    ];
    if let Some(rows) = &trace.logged {
        attributes.push(number("millrace.project_id", rows.project_id.0));
        attributes.push(number("millrace.events", rows.events));
        attributes.push(text("millrace.lane", rows.lane.name()));
    }
    set(&mut root, "attributes", attributes.into());
    set(&mut root, "kind", SERVER.into());
    if trace.status >= 500 {
        set(&mut root, "status", json!({ "code": ERROR }));
    }
    root
}

/// Span between two times since the head was read.
fn span(trace: &RequestTrace, number: u64, name: &str, (from, to): (Duration, Duration)) -> Value {
    json!({
        "traceId": trace.request_id.simple().to_string(),
        "spanId": span_id(trace, number),
        "name": name,
        "kind": INTERNAL,
        "startTimeUnixNano": nanos(trace, from),
        "endTimeUnixNano": nanos(trace, to),
    })
}

fn set(span: &mut Value, name: &str, value: Value) {
    if let Some(fields) = span.as_object_mut() {
        fields.insert(name.to_owned(), value);
    }
}

/// Id of a span, of which a trace has few: the random half of the request's id, counted on.
fn span_id(trace: &RequestTrace, number: u64) -> String {
    let (_, random) = trace.request_id.as_u64_pair();
    format!("{:016x}", random.wrapping_add(number))
}

/// Time in nanoseconds since 1970, as text: JSON has no such numbers.
fn nanos(trace: &RequestTrace, since_head: Duration) -> String {
    let head = i128::from(trace.received_at.0) * 1_000;
    let since_head = i128::try_from(since_head.as_nanos()).unwrap_or(0);
    (head + since_head).to_string()
}

fn text(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

fn number(key: &str, value: impl Into<i64>) -> Value {
    let value: i64 = value.into();
    json!({ "key": key, "value": { "intValue": value.to_string() } })
}

#[cfg(test)]
mod tests {
    use super::super::waiting::testing::traced;
    use super::*;

    fn exported(trace: RequestTrace, stored_after: Option<Duration>) -> Vec<Value> {
        let finished = FinishedTrace {
            trace,
            stored_after,
        };
        let request = export_request("node-1", &[finished]);
        let spans = &request["resourceSpans"][0]["scopeSpans"][0]["spans"];
        spans.as_array().unwrap().clone()
    }

    #[test]
    fn a_request_is_a_span_with_its_stages_below_up_to_the_store() {
        let spans = exported(traced(true), Some(Duration::from_millis(300)));
        let times: Vec<_> = spans
            .iter()
            .map(|span| {
                let text = |name: &str| span[name].as_str().unwrap().to_owned();
                let nanos = |name: &str| text(name).parse::<u64>().unwrap() - 1_000_000_000;
                (
                    text("name"),
                    nanos("startTimeUnixNano") / 1_000_000,
                    nanos("endTimeUnixNano") / 1_000_000,
                )
            })
            .collect();
        let expected = [
            ("ingest /batch", 0, 5),
            ("parse", 1, 2),
            ("commit", 2, 4),
            ("store", 4, 300),
        ];
        let expected = expected.map(|(name, from, to)| (name.to_owned(), from, to));
        assert_eq!(times, expected);
        for (span, id) in spans.iter().zip(["1", "2", "3", "4"]) {
            assert_eq!(span["traceId"], "01930000000070008000000000000001");
            assert_eq!(span["spanId"], format!("800000000000000{id}"));
        }
        assert_eq!(spans[0]["parentSpanId"], Value::Null);
        assert_eq!(spans[3]["parentSpanId"], "8000000000000001");
        assert_eq!(
            (&spans[0]["kind"], &spans[3]["kind"]),
            (&json!(2), &json!(1))
        );
        let attributes = spans[0]["attributes"].to_string();
        for attribute in [
            r#"{"key":"millrace.project_id","value":{"intValue":"7"}}"#,
            r#"{"key":"millrace.events","value":{"intValue":"3"}}"#,
            r#"{"key":"millrace.lane","value":{"stringValue":"live"}}"#,
            r#"{"key":"http.response.status_code","value":{"intValue":"200"}}"#,
        ] {
            assert!(attributes.contains(attribute), "{attributes}");
        }
    }

    #[test]
    fn a_request_that_failed_is_marked_and_has_no_store() {
        let failed = RequestTrace {
            status: 503,
            ..traced(false)
        };
        let spans = exported(failed, None);
        assert_eq!(spans[0]["status"]["code"], 2);
        assert!(spans.iter().all(|span| span["name"] != "store"));
    }
}
