//! Events that make persons, join them and name groups, of all organizations of the hostile owner
//! in turn.

use super::context::AttackContext;
use super::sender::post;
use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::time::sleep;

/// Made-up persons of a request.
const PERSONS: usize = 1_000;
/// Ids that are joined again and again, and events of a request that join them.
const CROWD: u32 = 200;
const MERGES: usize = 500;
/// All groups, those of a request, and bytes of the properties of each.
const GROUPS: u32 = 20;
const GROUPS_OF_REQUEST: usize = 5;
const GROUP_BYTES: usize = 600_000;

/// Sends made-up persons, each with a property of another name.
pub(super) async fn persons(context: Arc<AttackContext>, mut rng: StdRng) {
    for turn in 0.. {
        let events: Vec<Value> = (0..PERSONS)
            .map(|_| {
                let id: u64 = rng.random();
                let set = json!({format!("p{}", id % 100): id});
                json!({"event": "$set", "distinct_id": format!("made up {id}"), "$set": set})
            })
            .collect();
        let body = json!({"api_key": context.tenants.hostile_key(turn), "batch": events});
        let what = match context.tenants.is_first(turn) {
            true => "made-up persons",
            false => "made-up persons of further organizations",
        };
        post(&context, what, &body).await;
        sleep(context.pause * 10).await;
    }
}

/// Sends events that join the ids of one crowd in each way.
pub(super) async fn merges(context: Arc<AttackContext>, mut rng: StdRng) {
    loop {
        let events: Vec<Value> = (0..MERGES).map(|_| merge(&mut rng)).collect();
        let key = &context.tenants.hostile.project_key;
        post(
            &context,
            "merges",
            &json!({"api_key": key, "batch": events}),
        )
        .await;
        sleep(context.pause * 10).await;
    }
}

/// An event that joins two ids of the crowd, or ids that follow one another to a long chain.
fn merge(rng: &mut StdRng) -> Value {
    let id = |number: u32| format!("crowd {number}");
    let one = rng.random_range(0..CROWD);
    let other = match rng.random() {
        true => one + 1,
        false => rng.random_range(0..CROWD),
    };
    let (one, other) = (id(one), id(other));
    let (event, properties) = match rng.random_range(0..3) {
        0 => ("$identify", json!({"$anon_distinct_id": other})),
        1 => ("$create_alias", json!({"distinct_id": one, "alias": other})),
        _ => ("$merge_dangerously", json!({"alias": other})),
    };
    json!({"event": event, "distinct_id": one, "properties": properties})
}

/// Sends groups with large properties.
pub(super) async fn groups(context: Arc<AttackContext>, mut rng: StdRng) {
    let text = "g".repeat(GROUP_BYTES);
    loop {
        let events: Vec<Value> = (0..GROUPS_OF_REQUEST)
            .map(|_| {
                let group = format!("group {}", rng.random_range(0..GROUPS));
                json!({"event": "$groupidentify", "distinct_id": "h", "properties": {
                    "$group_type": "company", "$group_key": group, "$group_set": {"text": text}}})
            })
            .collect();
        let key = &context.tenants.hostile.project_key;
        post(
            &context,
            "groups",
            &json!({"api_key": key, "batch": events}),
        )
        .await;
        sleep(context.pause * 100).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use std::collections::BTreeSet;

    #[test]
    fn ids_of_one_crowd_are_joined_in_each_way() {
        let mut rng = StdRng::seed_from_u64(1);
        let events: Vec<Value> = (0..300).map(|_| merge(&mut rng)).collect();
        let names: BTreeSet<&str> = events
            .iter()
            .filter_map(|it| it["event"].as_str())
            .collect();
        let expected = ["$create_alias", "$identify", "$merge_dangerously"];
        assert_eq!(names.into_iter().collect::<Vec<_>>(), expected);
        let ids = events.iter().filter_map(|it| it["distinct_id"].as_str());
        let ids: BTreeSet<&str> = ids.collect();
        assert!(ids.len() <= CROWD as usize);
    }
}
