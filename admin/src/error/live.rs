//! Errors of live streams.

use super::ApiError;
use crate::live_slots::{PROJECT_MAX, USER_MAX};
use http::StatusCode;
use http::header::RETRY_AFTER;
use millrace_live::WatchRefused;

/// Seconds until a viewer may find a slot.
const SLOT_SECONDS: u64 = 5;

impl ApiError {
    /// 429: the user, the project, or all, have as many live streams as they may.
    pub(crate) fn too_many_live_streams() -> Self {
        let detail = format!(
            "Too many live streams are open: you may have {USER_MAX} at a time, and a project {PROJECT_MAX}; close one."
        );
        Self::new(StatusCode::TOO_MANY_REQUESTS, "throttled", detail)
            .with(RETRY_AFTER, SLOT_SECONDS.to_string())
    }
}

impl From<WatchRefused> for ApiError {
    fn from(refused: WatchRefused) -> Self {
        match refused {
            WatchRefused::Full | WatchRefused::ProjectFull => Self::too_many_live_streams(),
            WatchRefused::Unavailable => Self::unavailable(),
        }
    }
}
