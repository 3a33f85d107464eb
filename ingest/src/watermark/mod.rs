//! How far a node is: before which arrival time all its rows are in ClickHouse.
//!
//! A node's *watermark* W says: every row of this node whose `created_at` is before W is in
//! ClickHouse, and it makes no such row any more. Exports of windows of arrival times wait for it.
//!
//! W advances by grace periods. Once a second:
//!
//! 1. note the time T, and raise the *floor* to it: no row gets an earlier `created_at` from now on,
//!    whatever the clock does;
//! 2. begin a new epoch, and wait until the requests of the old one have come to their end: those
//!    may have rows that are older than T ([`Arrivals`]);
//! 3. wait until all that was submitted by now is shipped, and all that the log held from before
//!    ([`Pipeline::everything_shipped`]);
//! 4. W = T.
//!
//! So W stands still while ClickHouse is away, and no waiting is ever for a guessed time. What holds
//! W up, and for how long: a body that comes slowly or not at all for [`HttpLimits::body_hold`],
//! a commit for as long as the disk takes, shipping for as long as ClickHouse takes.
//!
//! | Module | Does |
//! |---|---|
//! | [`Arrivals`] (`arrivals`) | counts requests under way by epoch; the hot path's part |
//! | `steady` | tells the time without believing every jump of the clock |
//! | [`Node`] (`node`) | keeps the catalog informed, and the floor across restarts |
//!
//! [`HttpLimits::body_hold`]: crate::HttpLimits::body_hold

mod arrivals;
mod node;
mod steady;

#[cfg(test)]
mod model;

pub use arrivals::Arrivals;
pub(crate) use arrivals::{Arrival, CoreArrivals};
pub use node::{Node, RunningNode};

use crate::metrics;
use millrace_pipeline::Pipeline;
use millrace_rows::{Clock, Micros};
use std::sync::Arc;
use std::time::Duration;
use steady::{Doubt, SteadyTime};
use tokio::sync::watch;
use tokio::time::Instant;

/// How often it is looked whether the requests of an epoch have come to their end.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Advances the watermark, for ever: every so often, when nothing holds it up. `floor` is the time
/// before which the node may not make rows, as the catalog has it; `arrivals` must have it already.
pub async fn advance(
    arrivals: Arrivals,
    pipeline: Pipeline,
    clock: Arc<dyn Clock>,
    floor: Option<Micros>,
    every: Duration,
    watermark: watch::Sender<Option<Micros>>,
) {
    let started = Instant::now();
    let mut steady = SteadyTime::new(floor.unwrap_or_else(|| clock.now()));
    let mut doubt = Doubt::None;
    loop {
        let time = steady.look(clock.now(), started.elapsed());
        report(&mut doubt, steady.doubt());
        arrivals.raise_floor(time);
        let epoch = arrivals.next_epoch();
        while !arrivals.is_over(epoch) {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        pipeline.everything_shipped().await;
        watermark.send_replace(Some(time));
        tokio::time::sleep(every).await;
    }
}

/// Says once that the clock is not believed, and once that it is again.
fn report(before: &mut Doubt, now: Doubt) {
    if std::mem::discriminant(before) == std::mem::discriminant(&now) {
        return;
    }
    match now {
        Doubt::None => tracing::info!("the clock is right again"),
        Doubt::Ahead(seconds) => tracing::warn!(
            seconds,
            "the clock jumped ahead; exports do not follow it for the next {} minutes, in case that \
             was a mistake",
            steady::PATIENCE.as_secs() / 60
        ),
        Doubt::Behind(seconds) => tracing::error!(
            seconds,
            "the clock is behind what exports may have passed: until it has caught up, `created_at` \
             stands still and exports wait; mend the clock, or see MillraceClockBehind in RUNBOOK.md"
        ),
    }
    metrics::clock_behind(match now {
        Doubt::Behind(seconds) => seconds,
        Doubt::None | Doubt::Ahead(_) => 0,
    });
    *before = now;
}
