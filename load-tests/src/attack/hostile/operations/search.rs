//! Search for operations that take longest for their bytes, or have the longest response.
//!
//! Random bodies alone have no direction. Those that were answered slowest for their bytes, and
//! those with the longest responses, are kept and mutated further. One request of each operation is
//! kept at the most, so that no single operation takes all places.

use super::mutation::mutated;
use super::operation::Operation;
use crate::attack::lock::lock;
use rand::RngExt;
use rand::rngs::StdRng;
use serde::Serialize;
use serde_json::Value;
use std::cmp::Reverse;
use std::fmt;
use std::sync::Mutex;
use std::time::Duration;

/// Requests that are kept by their time, and as many by their response.
const KEPT_MAX: usize = 8;
/// Bytes that a shorter request counts as: a connection and a head have their cost, too.
const COUNTED_BYTES_MIN: usize = 1 << 10;
/// Characters of a body that are shown.
const SHOWN_CHARS: usize = 100;

/// An operation with its query and body.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Attempt {
    /// Method and path template.
    pub(super) operation: String,
    pub(super) query: String,
    pub(super) body: Value,
}

/// A request with its cost.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    attempt: Attempt,
    sent_bytes: usize,
    answered_bytes: usize,
    /// Least response time of those seen.
    least: Duration,
}

/// Requests that cost most, the costliest first.
#[derive(Debug, Default)]
pub(in crate::attack::hostile) struct OperationSearch {
    by_time: Kept,
    by_response: Kept,
}

#[derive(Debug, Default)]
struct Kept(Mutex<Vec<Measured>>);

impl Measured {
    pub(super) fn new(attempt: Attempt, answered_bytes: usize, took: Duration) -> Self {
        let body_bytes = match &attempt.body {
            Value::Null => 0,
            body => body.to_string().len(),
        };
        Self {
            sent_bytes: body_bytes + attempt.query.len(),
            attempt,
            answered_bytes,
            least: took,
        }
    }

    pub(super) fn body(&self) -> &Value {
        &self.attempt.body
    }

    /// The same request with the time of another try.
    pub(super) fn tried_again(self, took: Duration) -> Self {
        let least = self.least.min(took);
        Self { least, ..self }
    }

    fn nanoseconds_per_byte(&self) -> u128 {
        self.least.as_nanos() / self.sent_bytes.max(COUNTED_BYTES_MIN) as u128
    }

    fn answered(&self) -> u128 {
        self.answered_bytes as u128
    }
}

impl Kept {
    fn would_keep(&self, measured: &Measured, cost: fn(&Measured) -> u128) -> bool {
        let kept = lock(&self.0);
        let operation = &measured.attempt.operation;
        let same = kept.iter().find(|it| it.attempt.operation == *operation);
        let rival = same.or_else(|| kept.get(KEPT_MAX - 1));
        rival.is_none_or(|rival| cost(measured) > cost(rival))
    }

    fn keep(&self, measured: &Measured, cost: fn(&Measured) -> u128) {
        if self.would_keep(measured, cost) {
            let mut kept = lock(&self.0);
            kept.retain(|it| it.attempt.operation != measured.attempt.operation);
            kept.push(measured.clone());
            kept.sort_by_key(|it| Reverse(cost(it)));
            kept.truncate(KEPT_MAX);
        }
    }

    fn any(&self, rng: &mut StdRng) -> Option<Attempt> {
        let kept = lock(&self.0);
        let at = rng.random_range(0..kept.len().max(1));
        kept.get(at).map(|it| it.attempt.clone())
    }
}

impl OperationSearch {
    /// Mutation of a kept request: its body is changed, or `query` drawn again if it has none.
    pub(super) fn next<'a>(
        &self,
        operations: &'a [Operation],
        query: impl Fn(&Operation, &mut StdRng) -> String,
        rng: &mut StdRng,
    ) -> Option<(&'a Operation, Attempt)> {
        let kept = match rng.random() {
            true => self.by_time.any(rng),
            false => self.by_response.any(rng),
        };
        let mut attempt = kept?;
        let operation = operations
            .iter()
            .find(|it| it.name() == attempt.operation)?;
        match &attempt.body {
            Value::Null => attempt.query = query(operation, rng),
            body => attempt.body = mutated(body, rng),
        }
        Some((operation, attempt))
    }

    /// Returns true if a request would be kept for its time, which is worth another try.
    pub(super) fn is_slow(&self, measured: &Measured) -> bool {
        self.by_time
            .would_keep(measured, Measured::nanoseconds_per_byte)
    }

    /// Keeps a request if it is among the costliest.
    pub(super) fn keep(&self, measured: &Measured) {
        self.by_time.keep(measured, Measured::nanoseconds_per_byte);
        self.by_response.keep(measured, Measured::answered);
    }

    /// The kept requests: first those of the longest times, then those of the longest responses.
    pub(in crate::attack::hostile) fn costliest(&self) -> Vec<CostlyOperation> {
        let lists = [&self.by_time, &self.by_response];
        let all = lists.into_iter().flat_map(|kept| lock(&kept.0).clone());
        all.map(CostlyOperation::from).collect()
    }
}

/// A request to the API that takes long for its bytes, or has a long response.
#[derive(Clone, Debug, Serialize)]
pub struct CostlyOperation {
    /// Method and path template.
    pub operation: String,
    /// Query with its question mark; empty if there is none.
    pub query: String,
    /// Body as sent; null if there is none.
    pub body: Value,
    /// Bytes of query and body as sent.
    pub sent_bytes: usize,
    /// Bytes of the response's body.
    pub answered_bytes: usize,
    /// Response time under attack in milliseconds, the least of several.
    pub ms: f64,
}

impl From<Measured> for CostlyOperation {
    fn from(measured: Measured) -> Self {
        Self {
            sent_bytes: measured.sent_bytes,
            answered_bytes: measured.answered_bytes,
            ms: measured.least.as_secs_f64() * 1e3,
            operation: measured.attempt.operation,
            query: measured.attempt.query,
            body: measured.attempt.body,
        }
    }
}

impl fmt::Display for CostlyOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{} {}", self.query, self.body);
        let shown: String = text.chars().take(SHOWN_CHARS).collect();
        write!(
            f,
            "{}: {:.0} ms for {} B, answered by {} B: {}",
            self.operation,
            self.ms,
            self.sent_bytes,
            self.answered_bytes,
            shown.escape_debug()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attack::hostile::operations::operations;
    use rand::SeedableRng;
    use serde_json::json;

    fn measured(operation: &str, body: Value, answered_bytes: usize, ms: u64) -> Measured {
        let attempt = Attempt {
            operation: operation.to_owned(),
            query: String::new(),
            body,
        };
        Measured::new(attempt, answered_bytes, Duration::from_millis(ms))
    }

    fn names(search: &OperationSearch) -> Vec<String> {
        let costliest = search.costliest().into_iter();
        costliest.map(|it| it.operation).collect()
    }

    #[test]
    fn the_slowest_for_their_bytes_and_the_longest_responses_are_kept() {
        let search = OperationSearch::default();
        let long = json!("x".repeat(100_000));
        for (operation, body, answered_bytes, ms) in [
            ("POST /slow", json!({}), 10, 500),
            ("POST /long", long, 10, 600),
            ("GET /list", Value::Null, 4_000_000, 50),
            ("POST /slow", json!({"quicker": 1}), 10, 400),
        ] {
            search.keep(&measured(operation, body, answered_bytes, ms));
        }
        let by_time = ["POST /slow", "GET /list", "POST /long"];
        let by_response = ["GET /list", "POST /slow", "POST /long"];
        assert_eq!(names(&search), [by_time, by_response].concat());
        assert_eq!(search.costliest()[0].body, json!({}));
        assert!(search.is_slow(&measured("POST /slow", json!({}), 10, 501)));
        assert!(!search.is_slow(&measured("POST /slow", json!({}), 10, 500)));
        for number in 0..KEPT_MAX {
            search.keep(&measured(&format!("GET /{number}"), Value::Null, 20, 1_000));
        }
        assert_eq!(names(&search).len(), 2 * KEPT_MAX);
        assert!(!names(&search)[..KEPT_MAX].contains(&"POST /long".to_owned()));
    }

    #[test]
    fn kept_bodies_are_mutated_and_queries_drawn_again() {
        let document = json!({"paths": {"/a/": {"post": {}, "get": {}}}});
        let operations = operations(&document);
        let search = OperationSearch::default();
        let mut rng = StdRng::seed_from_u64(1);
        let next = |rng: &mut StdRng| search.next(&operations, |_, _| "?a=1".to_owned(), rng);
        assert!(next(&mut rng).is_none());
        search.keep(&measured("POST /a/", json!({"name": "a"}), 1, 9));
        search.keep(&measured("GET /a/", Value::Null, 1, 9));
        let made: Vec<_> = (0..100).filter_map(|_| next(&mut rng)).collect();
        assert_eq!(made.len(), 100);
        let (gets, posts): (Vec<_>, Vec<_>) = made
            .iter()
            .partition(|(operation, _)| operation.method == "GET");
        assert!(!gets.is_empty() && gets.iter().all(|(_, it)| it.query == "?a=1"));
        let changed = posts
            .iter()
            .filter(|(_, it)| it.body != json!({"name": "a"}));
        assert!(changed.count() * 2 > posts.len());
    }
}
