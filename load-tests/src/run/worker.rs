//! Threads of a run, and the loop of one connection.

use super::shared::{Shared, in_window};
use crate::connection::{Connection, ExchangeError, ResponseView};
use crate::process::pin_this_thread;
use crate::request::Request;
use crate::runtime::current_thread_runtime;
use crate::schedule::{Pacer, Times};
use crate::wall_clock::since_epoch;
use crate::worker_stats::{Acknowledged, WorkerStats};
use anyhow::{Context, Result};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::task::LocalSet;
use tokio::time::{sleep, timeout};

/// Pause before reconnecting, doubled while the server stays down.
const RECONNECT_PAUSE_MIN: Duration = Duration::from_millis(10);
const RECONNECT_PAUSE_MAX: Duration = Duration::from_millis(500);
/// Bytes of an unexpected response that are shown.
const DETAIL_BYTES_MAX: usize = 300;

/// Runs this thread's connections to the end of the run.
pub(super) fn work(shared: &Arc<Shared>, stats: &Arc<WorkerStats>, index: usize) -> Result<()> {
    let prepared = prepare(shared, stats, index);
    if prepared.is_err() {
        shared.stop.ask();
    }
    shared.ready.wait();
    shared.go.wait();
    let (runtime, loops) = prepared?;
    let local = LocalSet::new();
    let outcome = local.block_on(&runtime, async {
        let tasks: Vec<_> = loops
            .into_iter()
            .map(|connection| tokio::task::spawn_local(connection.run()))
            .collect();
        for task in tasks {
            task.await.context("a connection's task panicked")??;
        }
        Ok(())
    });
    if outcome.is_err() {
        shared.stop.ask();
    }
    outcome
}

/// Prepares the thread's runtime and its connections: every `threads`-th one, connected.
fn prepare(
    shared: &Arc<Shared>,
    stats: &Arc<WorkerStats>,
    index: usize,
) -> Result<(Runtime, Vec<ConnectionLoop>)> {
    let plan = &shared.plan;
    if let Some(cpu) = plan.pin.iter().cycle().take(index + 1).last() {
        pin_this_thread(*cpu)?;
    }
    let runtime = current_thread_runtime()?;
    let loops = runtime.block_on(async {
        let pacer = Rc::new(Pacer::new()?);
        let mut loops = Vec::new();
        for number in (0..plan.connections).skip(index).step_by(plan.threads) {
            let connection = Connection::open(&shared.peer)
                .await
                .with_context(|| format!("cannot connect to {}", shared.peer.authority()))?;
            loops.push(ConnectionLoop {
                shared: Arc::clone(shared),
                stats: Arc::clone(stats),
                pacer: Rc::clone(&pacer),
                request: Request::new(plan, &shared.target, shared.run_id, number)?,
                number,
                connection: Some(connection),
            });
        }
        anyhow::Ok(loops)
    })?;
    Ok((runtime, loops))
}

/// Loop of one connection from the first request to the last; it reconnects when necessary.
struct ConnectionLoop {
    shared: Arc<Shared>,
    stats: Arc<WorkerStats>,
    pacer: Rc<Pacer>,
    request: Request,
    number: u16,
    connection: Option<Connection>,
}

/// Outcome of one request.
enum Outcome {
    /// The whole batch was acknowledged.
    Acknowledged { reusable: bool },
    /// The request failed; `reason` groups failures, `detail` is shown once.
    Failed {
        reason: String,
        detail: String,
        reusable: bool,
        /// True if the server refused the request with 503.
        refused: bool,
    },
}

impl ConnectionLoop {
    async fn run(mut self) -> Result<()> {
        loop {
            // Prepared before the request is due, so that compression is not part of the latency.
            let batch = self.request.prepare(since_epoch())?;
            let Some(due) = self.pacer.next(&self.shared.schedule).await? else {
                return Ok(());
            };
            let Some(times) = self.shared.schedule.times() else {
                return Ok(());
            };
            self.send(batch, due, times).await?;
        }
    }

    async fn send(&mut self, batch: u32, due: Instant, times: Times) -> Result<()> {
        let Some(connection) = self.connected().await else {
            let now = Instant::now();
            let in_window = in_window(&self.shared.plan, times, due, now);
            let at = now.saturating_duration_since(times.start);
            let peer = self.shared.peer.authority();
            self.stats.failed(in_window, at, "cannot connect", peer);
            return Ok(());
        };
        let mut connection = connection;
        let sent = Instant::now();
        let wire = self.request.wire();
        let exchange = timeout(self.shared.plan.timeout, connection.exchange(wire)).await;
        let has_rejected = self.request.has_rejected();
        let outcome = exchange.map_or_else(
            |_| Outcome::timeout(),
            |exchange| Outcome::of(exchange, has_rejected),
        );
        let answered = Instant::now();
        let in_window = in_window(&self.shared.plan, times, due, answered);
        let at = answered.saturating_duration_since(times.start);
        let reusable = match outcome {
            Outcome::Acknowledged { reusable } => {
                if let Some(ledger) = &self.shared.ledger {
                    ledger.acknowledged(self.number, batch, self.request.events())?;
                }
                self.stats.acknowledged(&Acknowledged {
                    in_window,
                    events: self.request.events(),
                    at,
                    latency: answered.saturating_duration_since(due),
                    send_lag: sent.saturating_duration_since(due),
                    wire_bytes: wire.len(),
                });
                reusable
            }
            Outcome::Failed {
                reason,
                detail,
                reusable,
                refused,
            } => {
                if refused && in_window {
                    let took = answered.saturating_duration_since(sent);
                    self.stats.refused(took);
                }
                self.stats.failed(in_window, at, &reason, &detail);
                reusable
            }
        };
        self.connection = reusable.then_some(connection);
        Ok(())
    }

    /// Returns the connection, reopened if it was lost; `None` if the run ends before the server is
    /// back.
    async fn connected(&mut self) -> Option<Connection> {
        let mut pause = RECONNECT_PAUSE_MIN;
        loop {
            if let Some(connection) = self.connection.take() {
                return Some(connection);
            }
            let opened = timeout(
                self.shared.plan.timeout,
                Connection::open(&self.shared.peer),
            );
            if let Ok(Ok(connection)) = opened.await {
                return Some(connection);
            }
            let over = self
                .shared
                .schedule
                .times()
                .is_none_or(|times| Instant::now() >= times.window_end);
            if over || self.shared.stop.is_asked() {
                return None;
            }
            sleep(pause).await;
            pause = (pause * 2).min(RECONNECT_PAUSE_MAX);
        }
    }
}

impl Outcome {
    fn of(exchange: Result<ResponseView<'_>, ExchangeError>, has_rejected: bool) -> Self {
        let answer = match exchange {
            Ok(answer) => answer,
            Err(error) => {
                return Self::Failed {
                    reason: error.to_string(),
                    detail: format!("{error:?}"),
                    reusable: false,
                    refused: false,
                };
            }
        };
        let reusable = answer.reusable;
        // A success may list rejected events, which `verify` would not find among those accepted.
        let is_whole = if has_rejected {
            contains(answer.body, b"\"rejected_count\":1,")
        } else {
            !contains(answer.body, b"\"rejected")
        };
        let is_success = (200..300).contains(&answer.status);
        if is_success && is_whole {
            return Self::Acknowledged { reusable };
        }
        let refused = answer.status == 503;
        let mut reason = format!("status {}", answer.status);
        if is_success {
            reason.push_str(" with other rejected events than expected");
        }
        let shown = answer.body.len().min(DETAIL_BYTES_MAX);
        let body = answer.body.get(..shown).unwrap_or_default();
        Self::Failed {
            reason,
            detail: String::from_utf8_lossy(body).into_owned(),
            reusable,
            refused,
        }
    }

    fn timeout() -> Self {
        Self::Failed {
            reason: "timeout".to_owned(),
            detail: "no answer in time".to_owned(),
            reusable: false,
            refused: false,
        }
    }
}

fn contains(bytes: &[u8], what: &[u8]) -> bool {
    bytes.windows(what.len()).any(|window| window == what)
}
