//! Task that advances the watermark of a node, as [`crate::watermark`] explains.

use super::clock_guard::{ClockGuard, ClockSkew, JUMP_HOLD};
use super::node_watermarks::NodeWatermarks;
use super::request_epochs::RequestEpochs;
use crate::metrics;
use millrace_pipeline::panic_point::{PanicPoint, pass};
use millrace_pipeline::{FlushEnds, Pipeline};
use millrace_rows::{Clock, Micros};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

/// Interval in which the end of an epoch is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Times that may wait for shipping. While ClickHouse is down no more are kept: they would only
/// take memory.
const UNSHIPPED_MAX: usize = 8;

/// Advances the watermark for ever, at most once each `every`. `min_created_at` is the time before
/// which the node may not make rows, as the catalog has it; `request_epochs` must have it already.
///
/// The next time is named while rows of the last one are still being shipped, so that the watermark
/// is behind by the time that shipping takes, and not by twice that time. Person updates are waited
/// for beside that, so that rows of other tables do not hold them up.
pub async fn advance(
    request_epochs: RequestEpochs,
    pipeline: Pipeline,
    clock: Arc<dyn Clock>,
    min_created_at: Option<Micros>,
    every: Duration,
    watermarks: watch::Sender<NodeWatermarks>,
) {
    let (unshipped, mut named) = mpsc::channel(UNSHIPPED_MAX);
    let (updates_unshipped, mut updates_named) = mpsc::channel(UNSHIPPED_MAX);
    let naming = name_times(
        request_epochs,
        &pipeline,
        clock,
        min_created_at,
        every,
        [unshipped, updates_unshipped],
    );
    let shipping = async {
        while let Some((time, ends)) = named.recv().await {
            pipeline.wait_until_shipped(&ends).await;
            watermarks.send_modify(|watermarks| watermarks.pass_all(time));
        }
    };
    let shipping_updates = async {
        while let Some((time, ends)) = updates_named.recv().await {
            pipeline.wait_until_updates_shipped(&ends).await;
            watermarks.send_modify(|watermarks| watermarks.pass_updates(time));
        }
    };
    tokio::join!(naming, shipping, shipping_updates);
}

/// Names a time once each `every`: no row of an earlier `created_at` will be submitted any more,
/// and those that were end below the ends that are sent along. Who has too many of them gets a
/// later one.
async fn name_times(
    request_epochs: RequestEpochs,
    pipeline: &Pipeline,
    clock: Arc<dyn Clock>,
    min_created_at: Option<Micros>,
    every: Duration,
    named: [mpsc::Sender<(Micros, FlushEnds)>; 2],
) {
    let started = Instant::now();
    let mut clock_guard = ClockGuard::new(min_created_at.unwrap_or_else(|| clock.now()));
    let mut skew = ClockSkew::None;
    loop {
        let begun = Instant::now();
        let time = clock_guard.observe(clock.now(), started.elapsed());
        report(&mut skew, clock_guard.skew());
        request_epochs.raise_min_created_at(time);
        let epoch = request_epochs.next_epoch();
        while !request_epochs.is_over(epoch) {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        let ends = pipeline.flush_ends().await;
        pass(PanicPoint::WatermarkNamed);
        for named in &named {
            // Full while shipping stands still.
            drop(named.try_send((time, ends.clone())));
        }
        tokio::time::sleep_until(begun + every).await;
    }
}

/// Logs once that the clock is not followed, and once that it is again.
fn report(before: &mut ClockSkew, now: ClockSkew) {
    if std::mem::discriminant(before) == std::mem::discriminant(&now) {
        return;
    }
    match now {
        ClockSkew::None => tracing::info!("the clock is right again"),
        ClockSkew::Ahead(seconds) => tracing::warn!(
            seconds,
            "the clock jumped ahead; exports do not follow it for the next {} minutes, in case that \
             was a mistake",
            JUMP_HOLD.as_secs() / 60
        ),
        ClockSkew::Behind(seconds) => tracing::error!(
            seconds,
            "the clock is behind what exports may have passed: until it has caught up, `created_at` \
             stands still and exports wait; correct the clock, or see MillraceClockSkew in RUNBOOK.md"
        ),
    }
    metrics::clock_skew(match now {
        ClockSkew::Behind(seconds) => seconds,
        ClockSkew::None | ClockSkew::Ahead(_) => 0,
    });
    *before = now;
}
