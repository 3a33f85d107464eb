//! Changes that wait for one another.

use crate::stand::Stand;
use millrace_catalog::testing::TestDatabase;
use tokio::task::JoinSet;

/// Of which there are more than connections.
const CHANGES: usize = 16;

#[tokio::test]
async fn changes_that_wait_take_no_connection_from_who_reads() {
    let database = TestDatabase::sqlite();
    let stand = Stand::new(&database).await;
    let lock = database.lock_sqlite().await.unwrap();
    let mut changes = JoinSet::new();
    for number in 0..CHANGES {
        let (catalog, owner) = (stand.catalog.clone(), stand.owner.clone());
        changes.spawn(async move {
            let name = format!("Organization {number}");
            catalog
                .create_organization(&owner, name.as_str(), None)
                .await
        });
    }
    for _ in 0..100 {
        let seen = stand.catalog.list_organizations().await.unwrap();
        assert_eq!(seen.len(), 1);
    }
    assert!(changes.try_join_next().is_none(), "the file was not locked");
    drop(lock);
    for made in changes.join_all().await {
        made.unwrap();
    }
    let seen = stand.catalog.list_organizations().await.unwrap();
    assert_eq!(seen.len(), 1 + CHANGES);
}
