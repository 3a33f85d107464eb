//! Writers: changes that wait for one another, fail or are cancelled.

use millrace_catalog::testing::{DatabaseKind, TestDatabase, connected};
use millrace_catalog::{Catalog, ChangeError};
use millrace_organizations::Organizations;
use millrace_organizations::testing::test_env::TestEnv;
use sea_orm::{ConnectionTrait, DatabaseConnection, DbBackend, Statement};
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;
use tokio::task::JoinSet;
use uuid::Uuid;

/// Concurrent changes, more than there are connections.
const CHANGES: usize = 16;

#[tokio::test]
async fn waiting_changes_take_no_connection_from_readers() {
    let database = TestDatabase::of(DatabaseKind::Sqlite).await;
    let env = TestEnv::new(&database).await;
    let lock = database.lock_sqlite().await.unwrap();
    let mut changes = JoinSet::new();
    for number in 0..CHANGES {
        let (catalog, owner) = (env.catalog.clone(), env.owner.clone());
        changes.spawn(async move {
            let name = format!("Organization {number}");
            Organizations::new(&catalog)
                .create(&owner, name.as_str(), None)
                .await
        });
    }
    for _ in 0..100 {
        let seen = Organizations::new(&env.catalog).list_all().await.unwrap();
        assert_eq!(seen.len(), 1);
    }
    assert!(changes.try_join_next().is_none(), "the file was not locked");
    drop(lock);
    for made in changes.join_all().await {
        made.unwrap();
    }
    let seen = Organizations::new(&env.catalog).list_all().await.unwrap();
    assert_eq!(seen.len(), 1 + CHANGES);
}

/// On a full disk, SQLite ends the whole transaction and not only the statement.
#[tokio::test]
async fn a_rollback_by_sqlite_itself_leaves_no_transaction_open() {
    let database = TestDatabase::of(DatabaseKind::Sqlite).await;
    let env = TestEnv::new(&database).await;
    let (catalog, owner) = (&env.catalog, &env.owner);
    database
        .execute(
            "CREATE TRIGGER full_disk BEFORE INSERT ON organizations WHEN NEW.name = 'Full' \
             BEGIN SELECT RAISE(ROLLBACK, 'database or disk is full'); END",
        )
        .await
        .unwrap();
    for number in 0..3 {
        let failed = Organizations::new(catalog)
            .create(owner, "Full", None)
            .await;
        assert!(matches!(failed, Err(ChangeError::Catalog(_))), "{failed:?}");
        // A change that a rule refuses after its transaction has begun.
        let refused = Organizations::new(catalog).delete(owner, Uuid::nil()).await;
        assert!(
            matches!(refused, Err(ChangeError::NotFound { .. })),
            "{refused:?}"
        );
        let name = format!("Organization {number}");
        let made = Organizations::new(catalog).create(owner, name.as_str(), None);
        made.await.unwrap();
        // No lock is left, and other processes see the organization.
        drop(database.lock_sqlite().await.unwrap());
        let elsewhere = Catalog::open(database.url()).await.unwrap();
        let seen = Organizations::new(&elsewhere).list_all().await.unwrap();
        assert!(seen.iter().any(|organization| organization.name == name));
        elsewhere.close().await.unwrap();
    }
}

/// A client may disconnect at any moment of its change.
#[tokio::test]
async fn a_cancelled_change_leaves_no_transaction_open() {
    let database = TestDatabase::of(DatabaseKind::Postgres).await;
    let env = TestEnv::new(&database).await;
    let watcher = connected(database.url()).await.unwrap();
    for polls in 1..60 {
        let name = format!("Given up {polls}");
        let made = Organizations::new(&env.catalog).create(&env.owner, name.as_str(), None);
        give_up_after(polls, made).await;
        let all_end = async {
            while in_transactions(&watcher).await > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let ended = tokio::time::timeout(Duration::from_secs(30), all_end).await;
        assert!(ended.is_ok(), "a transaction is open after {polls} polls");
    }
}

/// Polls a future `polls` times, and drops it if it is not ready.
async fn give_up_after(polls: usize, future: impl Future) {
    let mut future = pin!(future);
    for _ in 0..polls {
        let polled = future
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()));
        if polled.is_ready() {
            return;
        }
        tokio::time::sleep(Duration::from_micros(300)).await;
    }
}

/// Number of connections that are idle in a transaction.
async fn in_transactions(watcher: &DatabaseConnection) -> i64 {
    let counted = watcher.query_one_raw(Statement::from_string(
        DbBackend::Postgres,
        "SELECT count(*) AS count FROM pg_stat_activity \
         WHERE datname = current_database() AND state LIKE 'idle in transaction%'",
    ));
    let row = counted.await.unwrap().unwrap();
    row.try_get("", "count").unwrap()
}

/// Connections have no idle time and no lifetime: those that a server has ended, as by a restart,
/// are found before their next use.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_the_server_has_ended_are_replaced() {
    // Waits for the end of each.
    const END: &str = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity \
         WHERE application_name = 'millrace' AND datname = current_database()";
    let database = TestDatabase::of(DatabaseKind::Postgres).await;
    let env = TestEnv::new(&database).await;
    for organizations in 1..=3 {
        let mut reads = JoinSet::new();
        for _ in 0..CHANGES {
            let catalog = env.catalog.clone();
            reads.spawn(async move { Organizations::new(&catalog).list_all().await });
        }
        for seen in reads.join_all().await {
            assert_eq!(seen.unwrap().len(), organizations);
        }
        database.execute(END).await.unwrap();
        let name = format!("Organization {organizations}");
        let made = Organizations::new(&env.catalog)
            .create(&env.owner, name.as_str(), None)
            .await;
        made.unwrap();
    }
}
