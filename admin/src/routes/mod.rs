//! One file for each resource; see [`crate::operation`] for how to add to one.

mod organizations;
mod projects;

use crate::operation::Operation;

/// The whole table.
pub(crate) fn operations() -> Vec<Operation> {
    [organizations::operations(), projects::operations()]
        .into_iter()
        .flatten()
        .collect()
}
