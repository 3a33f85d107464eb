//! Creation of a live stream with its ends.

use crate::feed::LiveFeed;
use crate::hub::LiveHub;
use crate::shared::Shared;
use crate::tap::LiveTap;
use std::sync::Arc;
use tokio::sync::mpsc;

/// Copies that wait for the hub.
const QUEUED_MAX: usize = 256;
/// Viewers that wait for the hub.
const WATCHES_MAX: usize = 16;

/// Creates the ends of a live stream: for requests, for viewers, and the hub between them, which
/// has to be started.
#[must_use]
pub fn live() -> (LiveTap, LiveFeed, LiveHub) {
    let shared = Arc::<Shared>::default();
    let (queue, observed) = mpsc::channel(QUEUED_MAX);
    let (watches, asked) = mpsc::channel(WATCHES_MAX);
    let tap = LiveTap::new(Arc::clone(&shared), queue);
    let hub = LiveHub::new(shared, observed, asked);
    (tap, LiveFeed::new(watches), hub)
}
