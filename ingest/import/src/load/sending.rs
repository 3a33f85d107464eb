//! The loop that sends.

use super::Load;
use super::reading::Read;
use super::tracker::{Ticket, Tracker};
use crate::meter::Meter;
use crate::request::Request;
use crate::send::{Delivered, Deliverer, Stop, Target};
use bytes::Bytes;
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::Receiver;

/// How often what was acknowledged is recorded: a sync of a disk may take some milliseconds.
const RECORD_EVERY: Duration = Duration::from_millis(100);

/// How sending ended.
#[derive(Debug, Default)]
pub(super) struct Ended {
    pub broken: Vec<(String, String)>,
    pub stop: Option<Stop>,
}

/// Sends what is read until all is acknowledged, or the import cannot go on.
pub(super) async fn send(
    load: &Load,
    target: Target,
    mut take: Receiver<Read>,
    tracker: &mut Tracker,
    meter: &Arc<Meter>,
) -> anyhow::Result<Ended> {
    let deliverer = Deliverer::new(
        target,
        load.requests_parallel,
        load.patience,
        Arc::clone(meter),
    );
    let mut ended = Ended::default();
    let mut waiting: VecDeque<(Ticket, Request, Bytes)> = VecDeque::new();
    let mut underway = FuturesUnordered::new();
    let mut is_read = false;
    let mut recorded = Instant::now();
    loop {
        while underway.len() < deliverer.gate.window()
            && let Some((ticket, request, wire)) = waiting.pop_front()
        {
            let deliverer = &deliverer;
            underway.push(async move { (ticket, deliverer.deliver(request, wire).await) });
        }
        if is_read && underway.is_empty() && waiting.is_empty() {
            break;
        }
        tokio::select! {
            read = take.recv(), if !is_read && waiting.is_empty() => match read {
                None => is_read = true,
                Some(Read::Broken { file, message }) => ended.broken.push((file.name(), message)),
                Some(Read::Chunk { file, mut chunk, wires }) => {
                    meter.skipped(chunk.skipped);
                    meter.rejected(chunk.rejects.len() as u64);
                    let ticket = tracker.begin(&file, &mut chunk);
                    let requests = chunk.requests.into_iter().zip(wires);
                    waiting.extend(requests.map(|(request, wire)| (ticket.clone(), request, wire)));
                }
            },
            Some((ticket, delivered)) = underway.next(), if !underway.is_empty() => {
                if let Err(stop) = settle(tracker, &ticket, delivered, meter) {
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
    delivered: Result<Vec<Delivered>, Stop>,
    meter: &Meter,
) -> Result<(), Stop> {
    let refused = delivered?;
    meter.rejected(refused.len() as u64);
    tracker.answered(ticket, &refused);
    Ok(())
}
