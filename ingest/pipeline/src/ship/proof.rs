//! Proof that an insert is refused for its rows, where the exception does not say so.
//!
//! An exception that is not listed may be about the rows or about the server. Several of one kind in a
//! row are a reason to send the rows by halves, which costs little and may find the row. They are
//! no reason to take a row for bad: a server whose disk refuses fails every insert alike. It is one once
//! others of the table were stored, again and again, and each time the next try failed as before.

use super::retries::Standing;
use super::section::Key;
use millrace_clickhouse::InsertError;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Answers of one exception in a row after which the rows are looked for, and sent by halves if they are not
/// there: what says nothing of the rows may still be about them.
const SAME_ANSWERS_MAX: u32 = 8;
/// The same for an insert that needs more memory than the server has for it, as a smaller one needs less, and for one
/// that was given back before.
const FEW_ANSWERS_MAX: u32 = 3;
/// Tries that fail alike, each sent after another insert of the table was stored: a server that comes
/// and goes fails one insert at exactly those times about once in 60 000.
const PROOFS_MIN: u32 = 6;

/// How many inserts were stored, by column list.
#[derive(Debug, Default)]
pub struct Stores(Mutex<HashMap<Arc<str>, u64>>);

/// Answers of one exception, in a row, that leave open what became of the rows.
#[derive(Debug, Default)]
pub struct Answers {
    code: Option<u32>,
    count: u32,
    /// Stores before the last try was sent.
    stores: u64,
    /// Tries that failed though others were stored since the one before.
    proofs: u32,
    /// Successes that nobody proved, of rows that cannot be looked for.
    unproven: u32,
    /// Answers that are enough to give the insert back, if fewer are than otherwise.
    enough: Option<u32>,
}

/// What a row of answers says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Says {
    /// Nothing yet.
    Nothing,
    /// Either the rows or the server are to blame.
    Either,
    /// The rows are to blame.
    Rows,
}

impl Stores {
    /// Inserts that were stored of a column list.
    pub fn of(&self, insert_target: &str) -> u64 {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.get(insert_target).copied().unwrap_or_default()
    }

    /// Counts one.
    pub fn count(&self, key: &Key) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry(Arc::clone(&key.insert_target)).or_default() += 1;
    }
}

impl Answers {
    /// None yet, to an insert or a part of one. Of a part one is enough: what it is a part of had its answers, and a bad
    /// row among many is found in a dozen steps.
    pub fn to(is_part: bool, standing: Standing) -> Self {
        let enough = match standing {
            Standing::Fresh => is_part.then_some(1),
            Standing::Kept | Standing::Last => Some(FEW_ANSWERS_MAX),
        };
        Self {
            enough,
            ..Self::default()
        }
    }

    /// Counts a success that nobody proves. Whether there were so many that there will be no other.
    pub fn take_unproven(&mut self) -> bool {
        self.unproven = self.unproven.saturating_add(1);
        self.unproven >= SAME_ANSWERS_MAX
    }

    /// Counts the answer to a try before which so many inserts were stored.
    pub fn take(&mut self, error: &InsertError, stores: u64) -> Says {
        let code = error.code.filter(|_| error.may_be_of_the_rows());
        if code != self.code {
            *self = Self {
                code,
                stores,
                enough: self.enough,
                ..Self::default()
            };
        }
        self.count = self.count.saturating_add(1);
        if self.stores < stores {
            self.stores = stores;
            self.proofs = self.proofs.saturating_add(1);
        }
        let enough = self.enough.unwrap_or(match error.needs_memory() {
            true => FEW_ANSWERS_MAX,
            false => SAME_ANSWERS_MAX,
        });
        if code.is_none() || self.count < enough {
            Says::Nothing
        } else if self.count >= SAME_ANSWERS_MAX && self.proofs >= PROOFS_MIN {
            Says::Rows
        } else {
            Says::Either
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace_clickhouse::InsertOutcome;

    fn error(code: u32) -> InsertError {
        InsertError {
            outcome: InsertOutcome::Unknown,
            code: Some(code),
            message: "no".to_owned(),
        }
    }

    /// After how many answers either and the rows are to blame, if `stores` come before each try.
    fn said(codes: &[u32], stores: u64, answers: Answers) -> (Option<u32>, Option<u32>) {
        let (mut answers, mut said) = (answers, (None, None));
        for nth in 0..40 {
            let code = codes[nth % codes.len()];
            let says = answers.take(&error(code), nth as u64 * stores);
            let count = Some(nth as u32 + 1);
            match says {
                Says::Nothing => {}
                Says::Either => said.0 = said.0.or(count),
                Says::Rows => said.1 = said.1.or(count),
            }
        }
        said
    }

    #[test]
    fn rows_are_to_blame_only_if_others_are_stored_between_tries_that_fail_alike() {
        let whole = || Answers::to(false, Standing::Fresh);
        let part = || Answers::to(true, Standing::Fresh);
        let kept = || Answers::to(false, Standing::Kept);
        for (codes, stores, answers, expected) in [
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
            let said = said(codes, stores, answers);
            assert_eq!(said, expected, "{codes:?}, {stores}");
        }
    }

    #[test]
    fn what_was_stored_before_the_first_failure_or_all_at_once_proves_nothing() {
        let mut answers = Answers::default();
        for nth in 0..40 {
            let stores = if nth < 20 { 1_000 } else { 2_000 };
            assert_ne!(answers.take(&error(395), stores), Says::Rows);
        }
    }
}
