//! Events of many months, of all organizations of the hostile owner in turn: live ones and imports.

use super::context::AttackContext;
use super::sender::post;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::time::sleep;

/// Months of a request's events: more than an organization may begin at once, and the most that it
/// may.
const MONTHS: [u32; 2] = [684, 100];
/// Months and events of an import: more months than imports may begin side by side.
const IMPORT_MONTHS: u32 = 100;
const IMPORT_EVENTS: u32 = 2_000;
/// First year of the events.
const FIRST_YEAR: u32 = 1970;
const MONTHS_A_YEAR: u32 = 12;

/// Sends events of hundreds of months.
pub(super) async fn months(context: Arc<AttackContext>) {
    for (turn, months) in MONTHS.into_iter().cycle().enumerate() {
        let key = context.tenants.hostile_key(turn / MONTHS.len());
        let body = json!({"api_key": key, "batch": events(months, months)});
        let what = match context.tenants.is_first(turn / MONTHS.len()) {
            true => "months",
            false => "months of further organizations",
        };
        post(&context, what, &body).await;
        sleep(context.pause * 10).await;
    }
}

/// Sends imports. Beyond 10 000 events a minute of a project they are refused with 429.
pub(super) async fn imports(context: Arc<AttackContext>) {
    let events = events(IMPORT_EVENTS, IMPORT_MONTHS);
    for turn in 0.. {
        let key = context.tenants.hostile_key(turn);
        let body = json!({"api_key": key, "historical_migration": true, "batch": events});
        let what = match context.tenants.is_first(turn) {
            true => "imports",
            false => "imports of further organizations",
        };
        post(&context, what, &body).await;
        sleep(context.pause * 150).await;
    }
}

/// Events in turn of so many months.
fn events(count: u32, months: u32) -> Vec<Value> {
    let event = |number: u32| {
        let month = number % months.max(1);
        let (year, month) = (
            FIRST_YEAR + month / MONTHS_A_YEAR,
            month % MONTHS_A_YEAR + 1,
        );
        let timestamp = format!("{year}-{month:02}-01T00:00:00Z");
        json!({"event": "old", "distinct_id": "h", "timestamp": timestamp})
    };
    (0..count).map(event).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn events_are_of_so_many_months() {
        for (count, months, last) in [
            (684, 684, "2026-12-01T00:00:00Z"),
            (2_000, 100, "1978-04-01T00:00:00Z"),
        ] {
            let events = events(count, months);
            let times = events.iter().map(|it| it["timestamp"].to_string());
            let times: BTreeSet<String> = times.collect();
            assert_eq!(
                (events.len(), times.len()),
                (count as usize, months as usize)
            );
            assert_eq!(times.last(), Some(&format!("\"{last}\"")));
        }
    }
}
