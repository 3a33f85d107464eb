//! Ids of statements, by which a running one is found.

use crate::settings::quoted_text;

/// Condition for a WHERE that selects statements with an id.
pub(crate) fn has_id(query_id: &str) -> String {
    let id = quoted_text(query_id);
    format!("(query_id = {id} OR endsWith(Settings['log_comment'], {id}))")
}
