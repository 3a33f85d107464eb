//! The loop that sends requests and records acknowledged chunks.

use super::reader::ReaderMessage;
use super::settings::Load;
use super::tracker::{Ticket, Tracker};
use crate::request::Request;
use crate::send::{Deliverer, RefusedEvent, Stop, Target};
use crate::stats::StageStats;
use bytes::Bytes;
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::Receiver;

/// Interval at which acknowledged chunks are recorded: a sync of a disk may take some milliseconds.
const RECORD_EVERY: Duration = Duration::from_millis(100);

/// Result of sending.
#[derive(Debug, Default)]
pub(super) struct SendResult {
    pub broken: Vec<(String, String)>,
    pub stop: Option<Stop>,
}

/// Sends all chunks until they are acknowledged or the import has to stop.
pub(super) async fn send(
    load: &Load,
    target: Target,
    mut receiver: Receiver<ReaderMessage>,
    tracker: &mut Tracker,
    stats: &Arc<StageStats>,
) -> anyhow::Result<SendResult> {
    let deliverer = Deliverer::new(
        target,
        load.requests_parallel,
        load.give_up_after,
        Arc::clone(stats),
    );
    let mut ended = SendResult::default();
    let mut waiting: VecDeque<(Ticket, Request, Bytes)> = VecDeque::new();
    let mut in_flight = FuturesUnordered::new();
    let mut is_read = false;
    let mut recorded = Instant::now();
    loop {
        while in_flight.len() < deliverer.throttle.window()
            && let Some((ticket, request, wire)) = waiting.pop_front()
        {
            let deliverer = &deliverer;
            in_flight.push(async move { (ticket, deliverer.deliver(request, wire).await) });
        }
        if is_read && in_flight.is_empty() && waiting.is_empty() {
            break;
        }
        tokio::select! {
            message = receiver.recv(), if !is_read && waiting.is_empty() => match message {
                None => is_read = true,
                Some(ReaderMessage::Broken { file, message }) => {
                    ended.broken.push((file.name(), message));
                }
                Some(ReaderMessage::Chunk { file, mut chunk, wires }) => {
                    stats.skipped(chunk.skipped);
                    stats.rejected(chunk.rejects.len() as u64);
                    let ticket = tracker.begin(&file, &mut chunk);
                    let requests = chunk.requests.into_iter().zip(wires);
                    waiting.extend(requests.map(|(request, wire)| (ticket.clone(), request, wire)));
                }
            },
            Some((ticket, delivered)) = in_flight.next(), if !in_flight.is_empty() => {
                if let Err(stop) = settle(tracker, &ticket, delivered, stats) {
                    ended.stop = Some(stop);
                    break;
                }
            }
        }
        if recorded.elapsed() >= RECORD_EVERY {
            tracker.record()?;
            recorded = Instant::now();
        }
    }
    tracker.record()?;
    Ok(ended)
}

fn settle(
    tracker: &mut Tracker,
    ticket: &Ticket,
    delivered: Result<Vec<RefusedEvent>, Stop>,
    stats: &StageStats,
) -> Result<(), Stop> {
    let refused = delivered?;
    stats.rejected(refused.len() as u64);
    tracker.acknowledged(ticket, &refused);
    Ok(())
}
