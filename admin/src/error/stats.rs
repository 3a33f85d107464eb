//! Errors of numbers of events.

use super::ApiError;
use crate::project_stats::StatsFailure;

impl From<StatsFailure> for ApiError {
    fn from(failure: StatsFailure) -> Self {
        match failure {
            StatsFailure::LimitExceeded => {
                let detail = "This takes more time or memory than it may: ask for a shorter time, \
                              or longer steps.";
                Self::invalid("query_limit_exceeded", None, detail)
            }
            StatsFailure::Unavailable => Self::unavailable(),
        }
    }
}
