//! Users who log in: the time until their identity can be queried, and its correctness.

use super::tenant::{GoodTenant, LOOK_AGAIN, LOST_AFTER};
use anyhow::Result;
use serde_json::json;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// Pause between two users.
const PAUSE: Duration = Duration::from_millis(500);

/// Names users one after the other until the run is over; returns their number.
pub(super) async fn name_all(good: &GoodTenant<'_>) -> Result<u64> {
    let mut named = 0;
    while !good.current_phase.is_over() {
        let number = named + 1;
        let began = good.began();
        let event = json!({
            "event": "$identify", "distinct_id": format!("user {number}"),
            "properties": {"$anon_distinct_id": format!("device {number}"), "$set": {"number": number}},
        });
        if good.capture(&[event]).await {
            named = number;
            if is_seen(good, number).await {
                good.ended(&good.persons, began);
            } else {
                let text = format!("user {number} was not to be seen after {LOST_AFTER:?}");
                good.findings.wrong(text);
            }
        }
        sleep(PAUSE).await;
    }
    check(good, named).await?;
    Ok(named)
}

/// Waits until both ids belong to one person with the expected property.
async fn is_seen(good: &GoodTenant<'_>, number: u64) -> bool {
    let (clickhouse, project_id) = (good.subject.clickhouse(), good.tenants.good.project_id);
    let sql = format!(
        "SELECT count() FROM (SELECT person_id FROM millrace.person_distinct_ids FINAL WHERE \
         team_id = {project_id} AND distinct_id IN ('user {number}', 'device {number}')) AS d \
         JOIN (SELECT id FROM millrace.persons FINAL WHERE team_id = {project_id} AND NOT is_deleted \
         AND properties = '{{\"number\":{number}}}') AS p ON p.id = d.person_id FORMAT TabSeparated"
    );
    let deadline = Instant::now() + LOST_AFTER;
    while Instant::now() < deadline {
        // An engine that is too busy to answer is asked again.
        if let Ok(2) = clickhouse.number(&sql).await {
            return true;
        }
        sleep(LOOK_AGAIN).await;
    }
    false
}

/// Checks at the end that each user was stored once and is one person with two ids.
async fn check(good: &GoodTenant<'_>, named: u64) -> Result<()> {
    let (clickhouse, project_id) = (good.subject.clickhouse(), good.tenants.good.project_id);
    for (what, sql) in [
        (
            "events that name a user",
            format!(
                "SELECT count() FROM millrace.events WHERE team_id = {project_id} AND event = '$identify'"
            ),
        ),
        (
            "persons who are users",
            format!(
                "SELECT count() FROM millrace.persons_current WHERE team_id = {project_id} AND is_identified"
            ),
        ),
    ] {
        let found = clickhouse
            .number(&format!("{sql} FORMAT TabSeparated"))
            .await?;
        if found != named {
            good.findings
                .wrong(format!("good tenant: {found} {what}, and not {named}"));
        }
    }
    Ok(())
}
