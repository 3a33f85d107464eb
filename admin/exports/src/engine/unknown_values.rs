//! Logs the exports that are left alone because this version does not know a value of theirs: each
//! once, for as long as that lasts.

use super::leader::Leader;
use super::planner::in_time;
use super::state::Inner;
use crate::records::{BatchExports, UnknownExportValue};
use std::collections::HashSet;
use std::convert::Infallible;
use std::time::Duration;

/// Pause between two searches for such exports.
const SEARCH_EVERY: Duration = Duration::from_secs(60);

/// Logs such exports while this process leads.
pub(super) async fn run(inner: &Inner, leads: &Leader) -> Infallible {
    let mut logged = LoggedValues::default();
    loop {
        if !leads.now() {
            tokio::time::sleep(inner.options.ask_every).await;
            continue;
        }
        match in_time(inner, BatchExports::new(&inner.catalog).unknown_values()).await {
            Ok(found) => logged.update(found).iter().for_each(log),
            Err(error) => {
                if inner.is_logged("unknown values", &error) {
                    tracing::warn!(%error, "exports with unknown values cannot be listed; trying again later");
                }
            }
        }
        tokio::time::sleep(SEARCH_EVERY).await;
    }
}

fn log(unknown: &UnknownExportValue) {
    tracing::error!(
        export_id = %unknown.export_id,
        field = unknown.field,
        value = unknown.value,
        "an export is left alone, as this version does not know a value of it; correct the value, or start the \
         version that wrote it"
    );
}

/// Values that were found at the last search, which are logged.
#[derive(Debug, Default)]
struct LoggedValues(HashSet<UnknownExportValue>);

impl LoggedValues {
    /// Replaces the values by those that are found now; returns the ones that are not logged yet.
    fn update(&mut self, found: Vec<UnknownExportValue>) -> Vec<UnknownExportValue> {
        let is_new = |value: &&UnknownExportValue| !self.0.contains(*value);
        let new = found.iter().filter(is_new).cloned().collect();
        self.0 = found.into_iter().collect();
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn a_value_is_logged_once_for_as_long_as_it_is_there() {
        let value = |export: u128, value: &str| UnknownExportValue {
            export_id: Uuid::from_u128(export),
            field: "interval",
            value: value.to_owned(),
        };
        let (first, second) = (value(1, "fortnight"), value(2, "fortnight"));
        let other = value(1, "month");
        // Values at each search, and those of them that are logged.
        let table = [
            (vec![], vec![]),
            (vec![first.clone()], vec![first.clone()]),
            (vec![first.clone()], vec![]),
            (vec![first, second.clone()], vec![second.clone()]),
            (vec![other.clone(), second.clone()], vec![other]),
            (vec![], vec![]),
            (vec![second.clone()], vec![second]),
        ];
        let mut logged = LoggedValues::default();
        for (search, (found, expected)) in table.into_iter().enumerate() {
            assert_eq!(logged.update(found), expected, "search {search}");
        }
    }
}
