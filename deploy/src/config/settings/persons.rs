//! Settings of persons and groups.

use super::values::size;
use crate::numbers::{count, days};
use bytesize::ByteSize;
use clap::Args;
use millrace_persons::GrowthLimits;

/// Limits and retention of persons and groups.
#[derive(Args, Clone, Debug)]
pub struct PersonLimits {
    /// Retention of applied person updates in ClickHouse, in days
    ///
    /// Whole months are dropped: updates stay until the end of their month, too. Keep them at least
    /// as long as backups of the catalog.
    #[arg(
        long,
        global = true,
        env = "MILLRACE_PERSON_UPDATES_KEPT_DAYS",
        value_parser = days::<u32>,
        value_name = "N",
        default_value_t = 30
    )]
    pub person_updates_kept_days: u32,
    /// Number of new distinct ids and groups that a project may add in an hour; 0: no limit
    ///
    /// Each id is kept for good, and takes 150 to 450 bytes of the catalog. Beyond the limit events
    /// are stored, but their persons are not updated.
    #[arg(
        long,
        global = true,
        env = "MILLRACE_NEW_DISTINCT_IDS_PER_HOUR_MAX",
        value_parser = count::<u64>,
        value_name = "N",
        default_value_t = 1_000_000
    )]
    pub new_distinct_ids_per_hour_max: u64,
    /// Bytes by which the properties of a project's persons and groups may grow in an hour; 0: no
    /// limit
    ///
    /// An overwritten value counts with the bytes by which the new value is longer. Beyond the
    /// limit events are stored, and properties of persons and groups are dropped.
    #[arg(
        long,
        global = true,
        env = "MILLRACE_NEW_PROPERTY_BYTES_PER_HOUR_MAX",
        value_parser = size,
        value_name = "SIZE",
        default_value = "1GiB"
    )]
    pub new_property_bytes_per_hour_max: ByteSize,
    /// Number of distinct ids up to which a person may be merged into another one; 0: no limit
    ///
    /// A merge moves all ids of a person in one transaction. Beyond the limit both persons stay,
    /// and the events are stored.
    #[arg(
        long,
        global = true,
        env = "MILLRACE_MERGED_DISTINCT_IDS_MAX",
        value_parser = count::<u64>,
        value_name = "N",
        default_value_t = 10_000
    )]
    pub merged_distinct_ids_max: u64,
}

impl PersonLimits {
    /// Limits on what a project may add within an hour.
    pub fn growth(&self) -> GrowthLimits {
        let limit = |count_max: u64| (count_max > 0).then_some(count_max);
        GrowthLimits {
            ids_per_hour_max: limit(self.new_distinct_ids_per_hour_max),
            bytes_per_hour_max: limit(self.new_property_bytes_per_hour_max.as_u64()),
        }
    }
}
