//! One request until all of its events are stored or refused.

use super::answer::{Answer, Refusal};
use super::gate::Gate;
use super::judge::Judge;
use super::target::Target;
use crate::meter::Meter;
use crate::request::Request;
use crate::tallier::name_of;
use crate::tally::Day;
use backon::{BackoffBuilder, ExponentialBuilder};
use bytes::Bytes;
use millrace_sources::Position;
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// As many events as the server lists when all are refused.
const LISTED_MAX: usize = 100;
const BACKOFF_FIRST: Duration = Duration::from_millis(250);
const BACKOFF_MAX: Duration = Duration::from_secs(30);
/// A `Retry-After` longer than this is not waited for in one go.
const WAIT_MAX: Duration = Duration::from_secs(300);

/// Why an import cannot go on now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Stop {
    /// The server's code, or `no_answer`.
    pub code: String,
    /// What happened and what to do.
    pub message: String,
}

/// An event that the server refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// Where its record is.
    pub at: Position,
    /// In which of the chunk's sources.
    pub source: u32,
    /// The record.
    pub raw: Vec<u8>,
    /// Why.
    pub refusal: Refusal,
    /// The day and the name it was counted by; `None` for generated events, which are counted apart.
    pub counted: Option<(Day, String)>,
}

/// Delivers requests.
#[derive(Debug)]
pub struct Deliverer {
    target: Target,
    /// How many at once.
    pub gate: Gate,
    meter: Arc<Meter>,
    /// How long nothing may be taken before the import stops.
    patience: Duration,
    last_success: Cell<Instant>,
}

impl Deliverer {
    /// To a server, with at most so many requests at once.
    #[must_use]
    pub fn new(target: Target, requests_max: usize, patience: Duration, meter: Arc<Meter>) -> Self {
        Self {
            target,
            gate: Gate::new(requests_max),
            meter,
            patience,
            last_success: Cell::new(Instant::now()),
        }
    }

    /// Sends a request, in parts where it has to be; gives the events that were refused. `wire` is its body as it is
    /// sent.
    ///
    /// # Errors
    /// When the import cannot go on.
    pub async fn deliver(&self, request: Request, wire: Bytes) -> Result<Vec<Delivered>, Stop> {
        let mut refused = Vec::new();
        let mut parts = vec![(request, Some(wire))];
        while let Some((part, wire)) = parts.pop() {
            let count = part.events.len();
            if count > self.gate.events_max() {
                parts.extend(halves(&part));
                continue;
            }
            match self.exchange(&part, wire).await? {
                Answer::Taken {
                    refused: listed,
                    refused_count,
                } => {
                    let all = self.all_refused(&part, listed, refused_count).await?;
                    let accepted = count.saturating_sub(all.len());
                    self.meter.accepted(accepted as u64);
                    refused.extend(all.into_iter().map(|refusal| delivered(&part, refusal)));
                }
                Answer::TooLarge { message } if count <= 1 => {
                    refused.extend(whole(&part, "event_too_large", &message));
                }
                Answer::TooLarge { .. } => {
                    self.gate.too_large(count);
                    parts.extend(halves(&part));
                }
                Answer::Unreadable { code, message } => {
                    let (bad, rest) = sort_out(&part, &code, &message);
                    refused.extend(bad);
                    parts.extend(rest);
                }
                Answer::Later { .. } | Answer::Never { .. } => {}
            }
        }
        Ok(refused)
    }

    /// Sends a part until there is an answer that says something of it.
    async fn exchange(&self, part: &Request, wire: Option<Bytes>) -> Result<Answer, Stop> {
        let compressed = wire.map_or_else(|| self.target.compression().apply(&part.body), Ok);
        let wire = compressed.map_err(|error| Stop {
            code: "cannot_compress".to_owned(),
            message: format!("a request cannot be compressed: {error}"),
        })?;
        self.patiently(|| self.target.send(wire.clone())).await
    }

    /// Asks again and again while the answer is "later".
    async fn patiently<F>(&self, ask: impl Fn() -> F) -> Result<Answer, Stop>
    where
        F: Future<Output = Answer>,
    {
        let mut pauses = ExponentialBuilder::default()
            .with_min_delay(BACKOFF_FIRST)
            .with_max_delay(BACKOFF_MAX)
            .with_jitter()
            .without_max_times()
            .build();
        loop {
            self.gate.wait().await;
            let began = Instant::now();
            let (after, is_rate, message) = match ask().await {
                Answer::Later {
                    after,
                    is_rate,
                    message,
                } => (after, is_rate, message),
                Answer::Never { code, message } => return Err(Stop { code, message }),
                answer => {
                    self.gate.succeeded(began);
                    self.last_success.set(Instant::now());
                    return Ok(answer);
                }
            };
            let pause = pauses.next().unwrap_or(BACKOFF_MAX);
            // A limit on the rate is no failure of the server's, however long it lasts.
            if is_rate {
                self.last_success.set(Instant::now());
            } else if self.last_success.get().elapsed() > self.patience {
                return Err(self.out_of_patience(&message));
            }
            let pause = after.map_or(pause, |after| after.min(WAIT_MAX));
            self.meter.waits(&message, pause);
            self.gate.failed(began, pause);
        }
    }

    fn out_of_patience(&self, message: &str) -> Stop {
        Stop {
            code: "no_answer".to_owned(),
            message: format!(
                "the server has taken nothing for {} seconds: {message}\nRun the same command again when it does: \
                 it goes on where it stopped",
                self.patience.as_secs()
            ),
        }
    }

    /// All events that were refused; those that the server did not list are asked for without storing anything.
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
            let answer = self
                .patiently(|| self.target.try_out(piece.body.clone()))
                .await?;
            if let Answer::Taken { refused, .. } = answer {
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
    // The stack gives the last one first.
    [
        (part.part(|index| index >= middle), None),
        (part.part(|index| index < middle), None),
    ]
}

/// Finds what makes a body unreadable, by the server's own rules.
fn sort_out(part: &Request, code: &str, message: &str) -> (Vec<Delivered>, Vec<Part>) {
    let bad: Vec<_> = Judge::default()
        .refused(part)
        .into_iter()
        .filter(|refusal| refusal.attr.is_none())
        .collect();
    if bad.is_empty() {
        // Rules differ between us and the server.
        return match part.events.len() {
            0 | 1 => (whole(part, code, message), Vec::new()),
            _ => (Vec::new(), halves(part).into()),
        };
    }
    let places: std::collections::HashSet<_> = bad.iter().map(|refusal| refusal.index).collect();
    let rest = part.part(|index| !places.contains(&index));
    let bad = bad
        .into_iter()
        .map(|refusal| delivered(part, refusal))
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

/// All events of a part, refused for the same.
fn whole(part: &Request, code: &str, message: &str) -> Vec<Delivered> {
    (0..part.events.len())
        .map(|index| {
            let refusal = Refusal {
                index,
                code: code.to_owned(),
                detail: message.to_owned(),
                attr: None,
            };
            delivered(part, refusal)
        })
        .collect()
}

fn delivered(part: &Request, refusal: Refusal) -> Delivered {
    let Some(sent) = part.events.get(refusal.index) else {
        return Delivered {
            at: Position::default(),
            source: 0,
            raw: Vec::new(),
            refusal,
            counted: None,
        };
    };
    Delivered {
        at: sent.at,
        source: sent.source,
        raw: part.record(sent),
        counted: sent.counted.map(|day| (day, name_of(part.name(sent)))),
        refusal,
    }
}
