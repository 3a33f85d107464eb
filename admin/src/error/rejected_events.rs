//! Errors about rejected events.

use super::ApiError;
use crate::rejected_events::RejectedFailure;

impl From<RejectedFailure> for ApiError {
    fn from(failure: RejectedFailure) -> Self {
        match failure {
            RejectedFailure::LimitExceeded => {
                let detail = "This takes more time or memory than it may: select fewer events, as \
                              by after and before.";
                Self::invalid("query_limit_exceeded", None, detail)
            }
            RejectedFailure::Unsupported(reason) => Self::forbidden(reason),
            RejectedFailure::InDoubt => {
                let detail = "It is unknown whether events of an earlier resend are stored, and \
                              nothing else is sent before that is known, or an hour has passed; \
                              try again in a minute.";
                Self::conflict("resend_in_doubt", detail)
            }
            RejectedFailure::Change(error) => error.into(),
            RejectedFailure::Unavailable => Self::unavailable(),
        }
    }
}
