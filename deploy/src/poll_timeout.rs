//! Questions about work in another server, asked again while it does not answer: the work goes on
//! without them.

use std::fmt::Display;
use std::time::Duration;
use tokio::time::Instant;

/// Time without an answer after which a question counts as failed.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// Timeout of repeated questions, from the last answer on.
pub struct PollTimeout {
    answered: Instant,
}

impl PollTimeout {
    /// Begins to wait for a first answer.
    pub fn new() -> Self {
        Self {
            answered: Instant::now(),
        }
    }

    /// Checks an answer; `None` for one that failed, so that the question is to be asked again.
    ///
    /// # Errors
    /// The last failure, when there was no answer for a minute.
    pub fn check<T, E: Display>(&mut self, answer: Result<T, E>) -> Result<Option<T>, E> {
        match answer {
            Ok(answer) => {
                self.answered = Instant::now();
                Ok(Some(answer))
            }
            Err(error) if self.answered.elapsed() < SILENCE_MAX => {
                tracing::debug!(%error, "no answer; asking again");
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_question_fails_after_a_minute_without_an_answer() {
        let mut poll_timeout = PollTimeout::new();
        let table = [
            (59, Err("a"), Ok(None)),
            (1, Ok(1), Ok(Some(1))),
            (59, Err("b"), Ok(None)),
            (1, Err("c"), Err("c")),
        ];
        for (seconds, answer, expected) in table {
            tokio::time::advance(Duration::from_secs(seconds)).await;
            assert_eq!(poll_timeout.check(answer), expected, "{answer:?}");
        }
    }
}
