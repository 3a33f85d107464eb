//! From one tool's records to events.

mod amplitude;
mod amplitude_platform;
mod bag;
mod captured;
mod columns;
mod generated;
mod google_analytics;
mod mixpanel;
mod mixpanel_identity;
mod segment;
mod snowplow;
mod snowplow_columns;
mod times;

pub(crate) use amplitude::Amplitude;
pub use captured::Captured;
pub(crate) use columns::Rows;
pub(crate) use google_analytics::GoogleAnalytics;
pub(crate) use mixpanel::Mixpanel;
pub(crate) use segment::Segment;
pub(crate) use snowplow::Snowplow;
pub(crate) use times::Times;

use crate::EventWriter;
use serde::{Serialize, Serializer};

/// How many columns Snowplow's lines have.
pub(crate) const SNOWPLOW_COLUMNS: usize = snowplow_columns::COLUMNS.len();

/// What every imported event says of itself: where it was before, and that its place is not to be looked up by an
/// address that is years old.
fn stamp(event: &mut EventWriter<'_>, source: &str) {
    event
        .property("analytics_source", source)
        .property("$geoip_disable", &true);
}

/// Pairs that are written as an object.
struct Members<'a, K, V>(&'a [(K, V)]);

impl<K: Serialize, V: Serialize> Serialize for Members<'_, K, V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}
