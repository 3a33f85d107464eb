//! Delivers a request until each of its events is stored or refused.

use super::outcome::{Refusal, RequestOutcome};
use super::target::Target;
use super::throttle::Throttle;
use super::validator::Validator;
use crate::event_counter::name_of;
use crate::event_counts::Day;
use crate::request::Request;
use crate::stats::StageStats;
use backon::{BackoffBuilder, ExponentialBuilder};
use bytes::Bytes;
use millrace_rows::counted;
use millrace_sources::Position;
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Most refused events that the server lists in a response.
const LISTED_MAX: usize = 100;
const BACKOFF_FIRST: Duration = Duration::from_millis(250);
const BACKOFF_MAX: Duration = Duration::from_secs(30);
/// Longest single wait; a longer `Retry-After` is cut to it.
const WAIT_MAX: Duration = Duration::from_secs(300);

/// Reason for which an import stops.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Stop {
    /// Error code of the server, or `no_answer`.
    pub code: String,
    /// Reason, with advice.
    pub message: String,
}

/// An event that the server refused, with its record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedEvent {
    /// Position of its record in the file.
    pub at: Position,
    /// Index of the file among the chunk's sources.
    pub source: u32,
    /// Bytes of the record.
    pub raw: Vec<u8>,
    /// Refusal by the server.
    pub refusal: Refusal,
    /// Day and name that it was counted by; `None` for generated events, which are counted
    /// separately.
    pub counted: Option<(Day, String)>,
}

/// Delivers requests to the server.
#[derive(Debug)]
pub struct Deliverer {
    target: Target,
    /// Limits the requests in flight.
    pub throttle: Throttle,
    stats: Arc<StageStats>,
    /// Time without an accepted request after which the import stops.
    give_up_after: Duration,
    last_success: Cell<Instant>,
}

impl Deliverer {
    /// Creates a deliverer with at most `requests_max` requests in flight.
    #[must_use]
    pub fn new(
        target: Target,
        requests_max: usize,
        give_up_after: Duration,
        stats: Arc<StageStats>,
    ) -> Self {
        Self {
            target,
            throttle: Throttle::new(requests_max),
            stats,
            give_up_after,
            last_success: Cell::new(Instant::now()),
        }
    }

    /// Sends a request, in parts if necessary; returns the refused events. `wire` is its compressed
    /// body.
    ///
    /// # Errors
    /// The import has to stop.
    pub async fn deliver(&self, request: Request, wire: Bytes) -> Result<Vec<RefusedEvent>, Stop> {
        let mut refused = Vec::new();
        let mut parts = vec![(request, Some(wire))];
        while let Some((part, wire)) = parts.pop() {
            let count = part.events.len();
            if count > self.throttle.events_max() {
                parts.extend(halves(&part));
                continue;
            }
            match self.exchange(&part, wire).await? {
                RequestOutcome::Accepted {
                    refused: listed,
                    refused_count,
                } => {
                    let all = self.all_refused(&part, listed, refused_count).await?;
                    let accepted = count.saturating_sub(all.len());
                    self.stats.accepted(accepted as u64);
                    refused.extend(all.into_iter().map(|refusal| refused_event(&part, refusal)));
                }
                RequestOutcome::TooLarge { message } if count <= 1 => {
                    refused.extend(refuse_all(&part, "event_too_large", &message));
                }
                RequestOutcome::TooLarge { .. } => {
                    self.throttle.too_large(count);
                    parts.extend(halves(&part));
                }
                RequestOutcome::Unreadable { code, message } => {
                    let (bad, rest) = split_unreadable(&part, &code, &message);
                    refused.extend(bad);
                    parts.extend(rest);
                }
                RequestOutcome::Retry { .. } | RequestOutcome::Fatal { .. } => {}
            }
        }
        Ok(refused)
    }

    /// Sends a part until the outcome is neither a retry nor fatal.
    async fn exchange(&self, part: &Request, wire: Option<Bytes>) -> Result<RequestOutcome, Stop> {
        let compressed = wire.map_or_else(|| self.target.compression().apply(&part.body), Ok);
        let wire = compressed.map_err(|error| Stop {
            code: "cannot_compress".to_owned(),
            message: format!("a request cannot be compressed: {error}"),
        })?;
        self.retry(|| self.target.send(wire.clone())).await
    }

    /// Repeats a request while its outcome is a retry.
    async fn retry<F>(&self, send: impl Fn() -> F) -> Result<RequestOutcome, Stop>
    where
        F: Future<Output = RequestOutcome>,
    {
        let mut pauses = ExponentialBuilder::default()
            .with_min_delay(BACKOFF_FIRST)
            .with_max_delay(BACKOFF_MAX)
            .with_jitter()
            .without_max_times()
            .build();
        loop {
            self.throttle.wait().await;
            let began = Instant::now();
            let (after, is_rate_limited, message) = match send().await {
                RequestOutcome::Retry {
                    after,
                    is_rate_limited,
                    message,
                } => (after, is_rate_limited, message),
                RequestOutcome::Fatal { code, message } => return Err(Stop { code, message }),
                outcome => {
                    self.throttle.succeeded(began);
                    self.last_success.set(Instant::now());
                    return Ok(outcome);
                }
            };
            let pause = pauses.next().unwrap_or(BACKOFF_MAX);
            // A rate limit is no failure of the server, however long it lasts.
            if is_rate_limited {
                self.last_success.set(Instant::now());
            } else if self.last_success.get().elapsed() > self.give_up_after {
                return Err(self.no_success(&message));
            }
            let pause = after.map_or(pause, |after| after.min(WAIT_MAX));
            self.stats.note_pause(&message, pause);
            self.throttle.failed(began, pause);
        }
    }

    fn no_success(&self, message: &str) -> Stop {
        Stop {
            code: "no_answer".to_owned(),
            message: format!(
                "the server has accepted no request for {}: {message}\nRun the same command again \
                 when the server accepts requests: it goes on where it stopped",
                counted(self.give_up_after.as_secs(), "second")
            ),
        }
    }

    /// Finds all refused events; if the server did not list all, it is asked by dry runs.
    async fn all_refused(
        &self,
        part: &Request,
        listed: Vec<Refusal>,
        count: usize,
    ) -> Result<Vec<Refusal>, Stop> {
        if listed.len() >= count {
            return Ok(listed);
        }
        let mut all = Vec::new();
        let mut from = 0;
        while from < part.events.len() {
            let until = from + LISTED_MAX;
            let piece = part.part(|index| (from..until).contains(&index));
            let outcome = self
                .retry(|| self.target.dry_run(piece.body.clone()))
                .await?;
            if let RequestOutcome::Accepted { refused, .. } = outcome {
                all.extend(refused.into_iter().map(|refusal| Refusal {
                    index: refusal.index + from,
                    ..refusal
                }));
            }
            from = until;
        }
        Ok(all)
    }
}

type Part = (Request, Option<Bytes>);

fn halves(part: &Request) -> [Part; 2] {
    let middle = part.events.len() / 2;
    // The second half first: the caller pops the last one.
    [
        (part.part(|index| index >= middle), None),
        (part.part(|index| index < middle), None),
    ]
}

/// Finds the events that make a body unreadable, by the server's own rules; returns them and the
/// parts to send again.
fn split_unreadable(part: &Request, code: &str, message: &str) -> (Vec<RefusedEvent>, Vec<Part>) {
    let bad: Vec<_> = Validator::default()
        .refused(part)
        .into_iter()
        .filter(|refusal| refusal.attr.is_none())
        .collect();
    if bad.is_empty() {
        // The server's rules differ from ours.
        return match part.events.len() {
            0 | 1 => (refuse_all(part, code, message), Vec::new()),
            _ => (Vec::new(), halves(part).into()),
        };
    }
    let indexes: std::collections::HashSet<_> = bad.iter().map(|refusal| refusal.index).collect();
    let rest = part.part(|index| !indexes.contains(&index));
    let bad = bad
        .into_iter()
        .map(|refusal| refused_event(part, refusal))
        .collect();
    let is_empty = rest.events.is_empty();
    (
        bad,
        if is_empty {
            Vec::new()
        } else {
            vec![(rest, None)]
        },
    )
}

/// Refuses all events of a part for the same reason.
fn refuse_all(part: &Request, code: &str, message: &str) -> Vec<RefusedEvent> {
    (0..part.events.len())
        .map(|index| {
            let refusal = Refusal {
                index,
                code: code.to_owned(),
                detail: message.to_owned(),
                attr: None,
            };
            refused_event(part, refusal)
        })
        .collect()
}

fn refused_event(part: &Request, refusal: Refusal) -> RefusedEvent {
    let Some(sent) = part.events.get(refusal.index) else {
        return RefusedEvent {
            at: Position::default(),
            source: 0,
            raw: Vec::new(),
            refusal,
            counted: None,
        };
    };
    RefusedEvent {
        at: sent.at,
        source: sent.source,
        raw: part.record(sent),
        counted: sent.counted.map(|day| (day, name_of(part.name(sent)))),
        refusal,
    }
}
