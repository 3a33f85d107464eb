//! Counter of the statements that a call sends to the database.

use sea_orm::metric::Info;
use std::sync::{Arc, Mutex, PoisonError};

/// Statements that were sent; clones share them.
#[derive(Clone, Debug, Default)]
pub struct StatementCount(Arc<Mutex<Vec<String>>>);

impl StatementCount {
    /// Takes the statements since the last call, oldest first.
    #[must_use]
    pub fn take(&self) -> Vec<String> {
        let mut sent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut sent)
    }

    /// Callback that the database driver runs for every statement.
    pub(crate) fn callback(&self) -> impl Fn(&Info<'_>) + Send + Sync + 'static {
        let sent = Arc::clone(&self.0);
        move |info| {
            let mut sent = sent.lock().unwrap_or_else(PoisonError::into_inner);
            sent.push(info.statement.sql.clone());
        }
    }
}
