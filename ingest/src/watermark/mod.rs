//! Watermark of a node: the arrival time before which all its rows are in ClickHouse.
//!
//! A node's *watermark* W says: every row of this node whose `created_at` is before W is in
//! ClickHouse, and it makes no such row any more. Exports of windows of arrival times wait for it.
//!
//! W advances by grace periods. Once a second:
//!
//! 1. note the time T, and raise `min_created_at` to it: no row gets an earlier `created_at` from
//!    now on, whatever the clock does;
//! 2. begin a new epoch, and wait until the requests of the old one have ended: those may have rows
//!    that are older than T ([`RequestEpochs`]);
//! 3. let all that was submitted by now be committed, and note the ends of the logs
//!    ([`Pipeline::flush_ends`]);
//! 4. wait until all below those ends is shipped ([`Pipeline::wait_until_shipped`]): W = T. The
//!    next time is named meanwhile.
//!
//! Rows of older months gather for seconds before they are shipped. Persons need not wait for them:
//! a second watermark, of *person updates*, advances by the same times once all updates below those
//! ends are shipped (`Pipeline::wait_until_updates_shipped`, which has them sent at once: that is
//! one insert for each time). It is never behind W, and `min_created_at` is below neither.
//!
//! So W stands still while ClickHouse is unreachable, and no waiting is ever for a guessed time. W
//! waits for a body that comes slowly or not at all for [`HttpLimits::body_hold`], for a commit as
//! long as the disk takes, and for shipping as long as ClickHouse takes.
//!
//! | Module | Does |
//! |---|---|
//! | [`advance()`] (`advance`) | the task that advances the watermark |
//! | [`RequestEpochs`] (`request_epochs`) | requests under way by epoch; the hot path's part |
//! | `clock_guard` | time of day without jumps of the clock |
//! | [`NodeWatermarks`] (`node_watermarks`) | watermarks of all rows and of person updates |
//! | [`Node`] (`node`) | registers the node, and deregisters it |
//! | [`Registered`] (`node_record`) | record of the node in the catalog |
//! | `publisher` | publishes its watermarks, and reports on the node |
//! | `outage_hold` | hold of the watermark after an outage of the catalog |
//!
//! [`HttpLimits::body_hold`]: crate::HttpLimits::body_hold
//! [`Pipeline::flush_ends`]: millrace_pipeline::Pipeline::flush_ends
//! [`Pipeline::wait_until_shipped`]: millrace_pipeline::Pipeline::wait_until_shipped

mod advance;
mod clock_guard;
mod node;
mod node_record;
mod node_watermarks;
mod outage_hold;
mod publisher;
mod request_epochs;

#[cfg(test)]
mod node_model;
#[cfg(test)]
mod threads;

pub use advance::advance;
pub use node::{Node, RunningNode};
pub use node_record::{Registered, Registering};
pub use node_watermarks::NodeWatermarks;
pub use request_epochs::RequestEpochs;
pub(crate) use request_epochs::{CoreEpochs, EpochGuard};
