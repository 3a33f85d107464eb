//! Users who log in: how long until who they are can be read, and whether it is what was said.

use super::{Good, LOOK_AGAIN, LOST_AFTER};
use anyhow::Result;
use serde_json::json;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// Between two users.
const PAUSE: Duration = Duration::from_millis(500);

/// One user after the other; how many there are in the end.
pub(super) async fn name_all(good: &Good<'_>) -> Result<u64> {
    let mut named = 0;
    while !good.forecast.is_over() {
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
                good.tally.wrong(text);
            }
        }
        sleep(PAUSE).await;
    }
    check(good, named).await?;
    Ok(named)
}

/// Waits until both ids are one person with that property.
async fn is_seen(good: &Good<'_>, number: u64) -> bool {
    let (clickhouse, team) = (good.subject.clickhouse(), good.tenants.good.team_id);
    let sql = format!(
        "SELECT count() FROM (SELECT person_id FROM millrace.person_distinct_ids FINAL WHERE \
         team_id = {team} AND distinct_id IN ('user {number}', 'device {number}')) AS d \
         JOIN (SELECT id FROM millrace.persons FINAL WHERE team_id = {team} AND NOT is_deleted \
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

/// In the end each was sent once, and is one person of two ids.
async fn check(good: &Good<'_>, named: u64) -> Result<()> {
    let (clickhouse, team) = (good.subject.clickhouse(), good.tenants.good.team_id);
    for (what, sql) in [
        (
            "events that name a user",
            format!(
                "SELECT count() FROM millrace.events WHERE team_id = {team} AND event = '$identify'"
            ),
        ),
        (
            "persons who are users",
            format!(
                "SELECT count() FROM millrace.persons_current WHERE team_id = {team} AND is_identified"
            ),
        ),
    ] {
        let found = clickhouse
            .number(&format!("{sql} FORMAT TabSeparated"))
            .await?;
        if found != named {
            good.tally
                .wrong(format!("good tenant: {found} {what}, and not {named}"));
        }
    }
    Ok(())
}
