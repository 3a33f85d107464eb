//! Numbers of events of projects, as the API needs them of whoever counts.

use async_trait::async_trait;
use millrace_catalog::UtcTime;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use std::borrow::Cow;
use std::fmt;

/// Reads numbers of events.
#[async_trait]
pub trait ProjectStats: fmt::Debug + Send + Sync {
    /// Sums of the events of some projects, by time.
    ///
    /// # Errors
    ///
    /// Nothing is counted yet, ClickHouse cannot be asked, or takes too long.
    async fn read(&self, question: StatsQuestion) -> Result<StatsAnswer, StatsFailure>;
}

/// Step of sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StatsStep {
    /// A minute.
    Minute,
    /// An hour.
    Hour,
    /// A day in UTC.
    Day,
}

impl StatsStep {
    /// Length of the step.
    #[must_use]
    pub const fn seconds(self) -> i64 {
        match self {
            Self::Minute => 60,
            Self::Hour => 3_600,
            Self::Day => 86_400,
        }
    }
}

impl JsonSchema for StatsStep {
    fn schema_name() -> Cow<'static, str> {
        "StatsStep".into()
    }

    // Derived, each value would be a type of its own in generated clients.
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "enum": ["minute", "hour", "day"] })
    }
}

/// Grouping of sums, beside the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatsGrouping {
    /// None: all events together.
    None,
    /// By project, the largest twenty.
    Project,
    /// By project, each of them.
    EachProject,
    /// Accepted events by name, the most frequent twenty.
    Event,
    /// Accepted events by SDK.
    Sdk,
    /// Rejected events by code.
    Code,
}

/// Question for sums.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatsQuestion {
    /// Projects whose events are summed.
    pub project_ids: Vec<i64>,
    /// Step of the sums.
    pub step: StatsStep,
    /// Beginning of the time, which is one of a step.
    pub after: UtcTime,
    /// End of the time, which is the beginning of a step.
    pub before: UtcTime,
    /// Grouping of the sums.
    pub grouping: StatsGrouping,
}

/// Sums, and how far events are counted.
#[derive(Clone, Debug)]
pub struct StatsAnswer {
    /// Time from which events are counted.
    pub since: UtcTime,
    /// Time before which all accepted events are counted.
    pub accepted_until: UtcTime,
    /// Time before which all rejected events are counted.
    pub rejected_until: UtcTime,
    /// Sums by time and name; steps without events are left out.
    pub sums: Vec<StatsSum>,
}

/// Sum of one step and group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatsSum {
    /// Beginning of the step.
    pub at: UtcTime,
    /// Name of the group; empty for all that are not kept apart, and without a grouping.
    pub name: String,
    /// Numbers of its events.
    pub counts: EventCounts,
}

/// Numbers of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct EventCounts {
    /// Number of accepted events.
    pub accepted: u64,
    /// Number of rejected events.
    pub rejected: u64,
    /// Number of accepted events that were part of a historical migration.
    pub historical: u64,
    /// Bytes of the properties of accepted events.
    pub bytes: u64,
}

impl EventCounts {
    /// Adds other events.
    pub const fn add(&mut self, other: Self) {
        self.accepted = self.accepted.saturating_add(other.accepted);
        self.rejected = self.rejected.saturating_add(other.rejected);
        self.historical = self.historical.saturating_add(other.historical);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

/// Reason why there are no sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatsFailure {
    /// The query takes more time or memory than it may.
    LimitExceeded,
    /// ClickHouse cannot be asked, or nothing is counted yet; the reason is logged.
    Unavailable,
}
