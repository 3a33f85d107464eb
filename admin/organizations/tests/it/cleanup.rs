//! Cleanup of old entries of the activity log, piece by piece.

use millrace_catalog::testing::{TestDatabase, numbers, random_uuid};
use millrace_catalog::{ActivityScope, Cleanup};
use millrace_organizations::testing::fixture::{ALL, Fixture};
use millrace_organizations::{ActivityFilter, ActivityLog};
use std::time::Duration;
use uuid::Uuid;

on_both!(old_log_entries_are_deleted_in_pieces_and_from_the_count,);

async fn old_log_entries_are_deleted_in_pieces_and_from_the_count(database: TestDatabase) {
    const DAY: Duration = Duration::from_secs(86_400);
    let fixture = Fixture::open(&database).await;
    let (catalog, here) = (&fixture.catalog, fixture.organization_id);
    assert_eq!(Cleanup::new(catalog).prune_activity(DAY).await.unwrap(), 0);
    let (numbers, uuid) = (numbers(300), random_uuid(&database));
    // Of two organizations and two scopes, and of none.
    let of = [
        "(SELECT id FROM organizations WHERE name <> 'Foreign')",
        "(SELECT id FROM organizations WHERE name = 'Foreign')",
        "NULL",
    ];
    for (organization, scope) in of.iter().flat_map(|of| [(of, "Plugin"), (of, "Role")]) {
        let old = format!(
            "INSERT INTO activity_log (id, organization_id, actor_name, activity, scope, item_id, \
             detail, created_at) {numbers} SELECT {uuid}, {organization}, 'a', 'created', \
             '{scope}', 'x', '{{\"name\":\"x\",\"changes\":[]}}', i FROM n"
        );
        database.execute(&old).await.unwrap();
    }
    let count = async |id: Uuid, scopes: Vec<ActivityScope>| {
        let filter = ActivityFilter {
            organization_id: id,
            scopes,
            item_id: None,
        };
        let page = ActivityLog::new(catalog).list(&filter, ALL).await.unwrap();
        (page.count, page.rows.len())
    };
    let before = count(here, vec![]).await.0;
    assert!(before > 600);
    let mut pieces = Vec::new();
    loop {
        match Cleanup::new(catalog).prune_activity(DAY).await.unwrap() {
            0 => break,
            rows => pieces.push(rows),
        }
    }
    assert!(pieces.iter().all(|rows| *rows <= 250), "{pieces:?}");
    assert_eq!(pieces.iter().sum::<u64>(), 6 * 300);
    // New entries are there, and counted.
    let left = before - 600;
    assert_eq!(
        count(here, vec![]).await,
        (left, usize::try_from(left).unwrap())
    );
    assert_eq!(count(here, vec![ActivityScope::Role]).await, (0, 0));
    assert_eq!(
        Cleanup::new(catalog)
            .prune_activity(Duration::ZERO)
            .await
            .unwrap(),
        0,
        "not older than now"
    );
}
