//! One connection's requests, built once and patched in place.
//!
//! A generator that writes JSON for every request cannot saturate a server that only reads it. The
//! whole request, head and body, is therefore built when the connection starts, once for each size
//! of the mix. Before each sending only fields of fixed width change. In every event these are the
//! batch's digits in the uuid (nine bytes) and the timestamp (nineteen), next to each other and so
//! on one cache line. In the envelope they are `sent_at`, `historical_migration` and, with several
//! projects, the key: the longest key sets the width, and shorter ones are followed by spaces. In
//! bodies that a user wrote, placeholders change in the same way.

mod body;
mod encoder;
mod own;
mod template;

use crate::keys::Keys;
use crate::mix::{RequestSize, Turns};
use crate::own_body::OwnBody;
use crate::plan::Plan;
use crate::target::Target;
use anyhow::Result;
use body::{Fields, build_body};
use std::time::Duration;
use template::Template;

/// Number of past months that historical requests take in turn. Each request has one month, as from
/// an importer that reads in order of time.
const HISTORICAL_MONTHS: u32 = 12;
const MONTH_SECONDS: i64 = 30 * 86_400;
/// Lowest age of a historical event in seconds, over a month even for the latest event of a month.
const HISTORICAL_AGE_MIN_SECONDS: i64 = 45 * 86_400;

/// Requests of a connection, one at a time.
pub struct Request {
    /// A request of each size, or with each body of the user's.
    templates: Vec<Template>,
    turns: Turns,
    /// Index of the prepared template.
    chosen: usize,
    keys: Keys,
    connections: u16,
    connection: u16,
    batch: u32,
    historical_share: f64,
    rejected_share: f64,
    has_rejected: bool,
}

impl Request {
    /// Builds the requests of a connection.
    ///
    /// # Errors
    /// The compressor does not accept the level.
    pub fn new(plan: &Plan, target: &Target, run: u32, connection: u16) -> Result<Self> {
        let sizes = plan.sizes();
        let bodies: Vec<_> = if plan.bodies.is_empty() {
            let build = |size: &RequestSize| build_body(plan, *size, run, connection);
            sizes.iter().map(build).collect()
        } else {
            let fill = |body: &OwnBody| own::fill(body, &plan.keys, run, connection);
            plan.bodies.iter().map(fill).collect()
        };
        let templates = bodies.into_iter();
        let templates = templates.map(|body| Template::new(plan, target, body));
        Ok(Self {
            turns: Turns::new(sizes.iter().map(|size| size.weight)),
            templates: templates.collect::<Result<_>>()?,
            chosen: 0,
            keys: plan.keys.clone(),
            connections: plan.connections,
            connection,
            batch: 0,
            historical_share: plan.historical_share,
            rejected_share: plan.rejected_share,
            has_rejected: false,
        })
    }

    /// Prepares the next batch and returns its number.
    ///
    /// # Errors
    /// The compressor failed.
    pub fn prepare(&mut self, since_epoch: Duration) -> Result<u32> {
        let batch = self.batch;
        self.batch = self.batch.wrapping_add(1);
        let now = i64::try_from(since_epoch.as_secs()).unwrap_or(i64::MAX);
        let assigned = self.keys.assign(self.connections, self.connection, batch);
        let historical = is_historical(assigned.number, self.historical_share);
        self.has_rejected = is_rejected(assigned.number, self.rejected_share);
        let happened = if historical {
            let month = i64::from(assigned.number % HISTORICAL_MONTHS);
            now - HISTORICAL_AGE_MIN_SECONDS - month * MONTH_SECONDS
        } else {
            now
        };
        let fields = Fields {
            batch,
            historical,
            now,
            happened,
            rejected: self.has_rejected,
            key: (self.keys.projects() > 1).then_some(assigned.key),
        };
        // By the number among all requests, as if the connections sent in lockstep.
        let number = batch.wrapping_mul(self.connections.into());
        self.chosen = self
            .turns
            .choose(number.wrapping_add(self.connection.into()));
        if let Some(template) = self.templates.get_mut(self.chosen) {
            template.prepare(&fields)?;
        }
        Ok(batch)
    }

    /// Returns true if one event of the batch is to be rejected.
    #[must_use]
    pub const fn has_rejected(&self) -> bool {
        self.has_rejected
    }

    /// Number of events in the batch.
    #[must_use]
    pub fn events(&self) -> u32 {
        self.template().map_or(0, Template::events)
    }

    /// Bytes of the request on the wire.
    #[must_use]
    pub fn wire(&self) -> &[u8] {
        self.template().map(Template::wire).unwrap_or_default()
    }

    fn template(&self) -> Option<&Template> {
        self.templates.get(self.chosen)
    }
}

/// Returns true if a request belongs to the historical share, spread as evenly as possible.
fn is_historical(number: u32, share: f64) -> bool {
    let before = (f64::from(number) * share).floor();
    ((f64::from(number) + 1.0) * share).floor() > before
}

/// Returns true if a request has an event to be rejected: evenly spread, also among the historical
/// requests.
fn is_rejected(number: u32, share: f64) -> bool {
    /// 2 to the 32nd, divided by the golden ratio.
    const STEP: u32 = 0x9e37_79b9;
    f64::from(number.wrapping_mul(STEP)) < share * f64::from(u32::MAX)
}

#[cfg(test)]
mod tests;
