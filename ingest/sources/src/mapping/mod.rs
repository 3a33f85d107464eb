//! Mappings of each tool's records to events.

mod amplitude;
mod amplitude_platform;
mod captured;
mod columns;
mod generated;
mod google_analytics;
mod mixpanel;
mod mixpanel_identity;
mod properties;
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

/// Number of columns in Snowplow's lines.
pub(crate) const SNOWPLOW_COLUMNS: usize = snowplow_columns::COLUMNS.len();

/// Writes the properties of every imported event: its source, and that its location must not be
/// looked up by an IP address that is years old.
fn stamp(event: &mut EventWriter<'_>, source: &str) {
    event
        .property("analytics_source", source)
        .property("$geoip_disable", &true);
}

/// Serializes pairs as an object.
struct Members<'a, K, V>(&'a [(K, V)]);

impl<K: Serialize, V: Serialize> Serialize for Members<'_, K, V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}
