//! Property columns that shippers fill, shared with whoever follows the catalog.
//!
//! They may be out of date. A column that is not filled is computed by ClickHouse, and one that
//! ClickHouse does not have is refused, upon which none is filled until they are set again.

use millrace_native::PropertyPlan;
use millrace_rows::PropertyColumn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Property columns to fill; clones share them.
#[derive(Clone, Debug, Default)]
pub struct FilledColumns(Arc<Mutex<Arc<PropertyPlan>>>);

impl FilledColumns {
    /// Sets the columns, which ClickHouse has.
    pub fn set(&self, columns: Vec<PropertyColumn>) {
        *self.lock() = Arc::new(PropertyPlan::new(columns));
    }

    /// Columns as they are now.
    pub(super) fn plan(&self) -> Arc<PropertyPlan> {
        Arc::clone(&self.lock())
    }

    /// Fills none any more, as ClickHouse lacks one, unless they were set meanwhile.
    pub(super) fn refuse(&self, refused: &Arc<PropertyPlan>) {
        let mut plan = self.lock();
        if Arc::ptr_eq(&plan, refused) {
            *plan = Arc::default();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Arc<PropertyPlan>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace_rows::PropertyType;

    #[test]
    fn refused_columns_are_filled_again_once_they_are_set() {
        let column = PropertyColumn {
            number: 1,
            team_id: None,
            path: vec!["a".to_owned()],
            kind: PropertyType::Bool,
            bytes_max: 0,
        };
        let filled = FilledColumns::default();
        assert!(filled.plan().is_empty());
        filled.set(vec![column.clone()]);
        let first = filled.plan();
        filled.clone().refuse(&first);
        assert!(filled.plan().is_empty());
        filled.set(vec![column]);
        // An insert that was begun before is refused later.
        filled.refuse(&first);
        assert!(!filled.plan().is_empty());
    }
}
