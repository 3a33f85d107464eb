//! Questions about work in another server, asked again while it does not answer: the work goes on
//! without them.

use std::fmt::Display;
use std::time::Duration;
use tokio::time::Instant;

/// Time of failures in a row after which a question counts as failed.
const FAILING_MAX: Duration = Duration::from_secs(60);

/// Timeout of repeated questions, from the first of the failures in a row on: an answer that takes
/// long to come, or a long pause before a question, is none.
pub struct PollTimeout {
    failing_since: Option<Instant>,
}

impl PollTimeout {
    /// Begins before the first question.
    pub const fn new() -> Self {
        Self {
            failing_since: None,
        }
    }

    /// Checks an answer; `None` for one that failed, so that the question is to be asked again.
    ///
    /// # Errors
    /// The last failure, when there were only failures for a minute.
    pub fn check<T, E: Display>(&mut self, answer: Result<T, E>) -> Result<Option<T>, E> {
        let error = match answer {
            Ok(answer) => {
                self.failing_since = None;
                return Ok(Some(answer));
            }
            Err(error) => error,
        };
        let since = *self.failing_since.get_or_insert_with(Instant::now);
        if since.elapsed() >= FAILING_MAX {
            return Err(error);
        }
        tracing::debug!(%error, "no answer; asking again");
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_question_fails_after_a_minute_of_failures() {
        let mut poll_timeout = PollTimeout::new();
        // Seconds since the answer before, the answer, and what comes of it.
        let table = [
            // A question that took long to fail is asked again all the same.
            (120, Err("a"), Ok(None)),
            (59, Err("b"), Ok(None)),
            (0, Ok(1), Ok(Some(1))),
            (120, Ok(2), Ok(Some(2))),
            (120, Err("c"), Ok(None)),
            (59, Err("d"), Ok(None)),
            (1, Err("e"), Err("e")),
        ];
        for (seconds, answer, expected) in table {
            tokio::time::advance(Duration::from_secs(seconds)).await;
            assert_eq!(poll_timeout.check(answer), expected, "{answer:?}");
        }
    }
}
