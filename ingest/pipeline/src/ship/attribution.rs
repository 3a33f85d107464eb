//! Attributes failures of batches to the rows or to the server, where the exception does not say
//! so.
//!
//! An exception that is not listed may be about the rows or about the server. Several of one kind
//! in a row are a reason to send the rows by halves, which costs little and may find the bad row.
//! They do not prove that a row is bad: a server whose disk fails refuses every batch alike. The
//! proof is that other batches of the table were stored, again and again, and each time the next
//! try of this one failed as before.

use super::retries::DeliveryStage;
use super::section::InsertKey;
use millrace_clickhouse::{InsertError, InsertOutcome};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Consecutive answers of one exception after which the rows are looked up, and sent by halves if
/// they are absent: an exception that does not mention the rows may still be about them.
const SAME_ANSWERS_MAX: u32 = 8;
/// Consecutive answers after which a batch is halved that is too large for the server's memory or
/// for a gateway before it, since a smaller one may not be, and a batch that was kept whole before.
const FEW_ANSWERS_MAX: u32 = 3;
/// Tries that fail alike, each sent after another batch of the table was stored, that prove the
/// rows bad: an unstable server fails one batch at exactly those times about once in 60 000.
const PROOFS_MIN: u32 = 6;

/// Times that an insert may lose against another one of its table, which waits for its quorum,
/// before it counts as in doubt: some minutes, within which no token is forgotten.
const LOST_RACES_MAX: u32 = 20;

/// Number of batches that were stored, by column list.
#[derive(Debug, Default)]
pub struct StoredCounts(Mutex<HashMap<Arc<str>, u64>>);

/// Answer that may be about the rows, as it is compared with others.
type AnswerKind = (InsertOutcome, Option<u32>);

/// Consecutive answers of one kind that leave the outcome of a batch open.
#[derive(Debug, Default)]
pub struct FailureHistory {
    answer: Option<AnswerKind>,
    count: u32,
    /// Batches of the table that were stored before the last try was sent.
    stored: u64,
    /// Tries that failed although others were stored since the try before.
    proofs: u32,
    /// Unproven successes, of rows that cannot be looked up.
    unproven: u32,
    /// Inserts that others of the table preceded.
    lost_races: u32,
    /// Code of the last answer, if that said that rows cannot be read.
    unreadable: Option<u32>,
    /// Number of answers after which the rows are looked up, if it is not the usual one.
    answers_max: Option<u32>,
}

/// Conclusion from a history of failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attribution {
    /// No conclusion yet.
    Unknown,
    /// Either the rows or the server are to blame.
    RowsOrServer,
    /// The rows are to blame.
    Rows,
}

impl StoredCounts {
    /// Number of stored batches of a column list.
    pub fn of(&self, insert_target: &str) -> u64 {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.get(insert_target).copied().unwrap_or_default()
    }

    /// Counts a stored batch.
    pub fn count(&self, key: &InsertKey) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry(Arc::clone(&key.insert_target)).or_default() += 1;
    }
}

impl FailureHistory {
    /// A history without failures yet, of a batch or of a part. For a part one answer is enough:
    /// the whole had its own, and a bad row among many is found in a dozen steps.
    pub fn new(is_part: bool, stage: DeliveryStage) -> Self {
        let answers_max = match stage {
            DeliveryStage::First => is_part.then_some(1),
            DeliveryStage::KeptWhole | DeliveryStage::LastPart => Some(FEW_ANSWERS_MAX),
        };
        Self {
            answers_max,
            ..Self::default()
        }
    }

    /// Counts a success that nobody proves. Returns true after so many that no proof is to be
    /// expected.
    pub fn record_unproven(&mut self) -> bool {
        self.unproven = self.unproven.saturating_add(1);
        self.unproven >= SAME_ANSWERS_MAX
    }

    /// Counts an insert that another one preceded. Returns true if it is to be tried again as it
    /// is.
    pub fn record_lost_race(&mut self) -> bool {
        self.lost_races = self.lost_races.saturating_add(1);
        self.lost_races <= LOST_RACES_MAX
    }

    /// Records an answer that says that rows cannot be read. Returns true if the one before said
    /// so, too.
    pub fn record_unreadable(&mut self, error: &InsertError) -> bool {
        let before = std::mem::replace(&mut self.unreadable, error.code);
        before.is_some() && before == error.code
    }

    /// Counts the answer to a try before which so many batches of the table were stored.
    pub fn record(&mut self, error: &InsertError, stored: u64) -> Attribution {
        self.unreadable = None;
        let answer = error.may_be_of_the_rows();
        let answer = answer.then_some((error.outcome, error.code));
        if answer != self.answer {
            *self = Self {
                answer,
                stored,
                answers_max: self.answers_max,
                lost_races: self.lost_races,
                ..Self::default()
            };
        }
        self.count = self.count.saturating_add(1);
        if self.stored < stored {
            self.stored = stored;
            self.proofs = self.proofs.saturating_add(1);
        }
        let enough = self.answers_max.unwrap_or(match error.is_too_large() {
            true => FEW_ANSWERS_MAX,
            false => SAME_ANSWERS_MAX,
        });
        if answer.is_none() || self.count < enough {
            Attribution::Unknown
        } else if self.count >= SAME_ANSWERS_MAX && self.proofs >= PROOFS_MIN {
            Attribution::Rows
        } else {
            Attribution::RowsOrServer
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(code: u32) -> InsertError {
        InsertError {
            outcome: InsertOutcome::Unknown,
            code: Some(code),
            message: "no".to_owned(),
        }
    }

    /// Numbers of answers after which rows or server, and after which the rows are to blame, if
    /// `stored` batches are stored before each try.
    fn attributed_after(
        codes: &[u32],
        stored: u64,
        mut history: FailureHistory,
    ) -> (Option<u32>, Option<u32>) {
        let mut after = (None, None);
        for nth in 0..40 {
            let code = codes[nth % codes.len()];
            let attribution = history.record(&error(code), nth as u64 * stored);
            let count = Some(nth as u32 + 1);
            match attribution {
                Attribution::Unknown => {}
                Attribution::RowsOrServer => after.0 = after.0.or(count),
                Attribution::Rows => after.1 = after.1.or(count),
            }
        }
        after
    }

    #[test]
    fn rows_are_to_blame_only_if_others_are_stored_between_tries_that_fail_alike() {
        let whole = || FailureHistory::new(false, DeliveryStage::First);
        let part = || FailureHistory::new(true, DeliveryStage::First);
        let kept = || FailureHistory::new(false, DeliveryStage::KeptWhole);
        for (codes, stored, history, expected) in [
            (&[395][..], 0, whole(), (Some(8), None)),
            (&[395], 1, whole(), (None, Some(8))),
            (&[395], 0, kept(), (Some(3), None)),
            (&[395], 1, kept(), (Some(3), Some(8))),
            (&[395], 0, part(), (Some(1), None)),
            (&[395], 1, part(), (Some(1), Some(8))),
            (&[241], 0, whole(), (Some(3), None)),
            (&[241], 9, whole(), (Some(3), Some(8))),
            (&[241], 9, part(), (Some(1), Some(8))),
            (&[395, 395, 70, 70], 1, kept(), (None, None)),
            (&[395, 395, 395, 70, 70], 1, whole(), (None, None)),
            (&[242], 1, part(), (None, None)),
        ] {
            let after = attributed_after(codes, stored, history);
            assert_eq!(after, expected, "{codes:?}, {stored}");
        }
    }

    #[test]
    fn rows_too_large_for_a_gateway_are_halved_after_three_answers() {
        let too_large = InsertError {
            outcome: InsertOutcome::TooLarge,
            code: None,
            message: "413 Payload Too Large".to_owned(),
        };
        let mut history = FailureHistory::new(false, DeliveryStage::First);
        let attributions = [0; 3].map(|stored| history.record(&too_large, stored));
        let (unknown, halved) = (Attribution::Unknown, Attribution::RowsOrServer);
        assert_eq!(attributions, [unknown, unknown, halved]);
        // Another answer begins anew.
        assert_eq!(history.record(&error(395), 0), unknown);
        assert_eq!(history.record(&too_large, 0), unknown);
    }

    #[test]
    fn batches_stored_before_the_first_failure_or_all_at_once_prove_nothing() {
        let mut history = FailureHistory::default();
        for nth in 0..40 {
            let stored = if nth < 20 { 1_000 } else { 2_000 };
            assert_ne!(history.record(&error(395), stored), Attribution::Rows);
        }
    }
}
