//! Standby: a PostgreSQL server that takes no changes for a while, and keeps its sessions.

use millrace_catalog::testing::{DatabaseKind, TestDatabase, TestPostgres, execute};
use millrace_catalog::{Actor, CatalogError, ChangeError};
use millrace_organizations::Organizations;
use millrace_organizations::testing::fixture::Fixture;

/// Runs a statement on a session of another database, as those of this one may be read-only.
async fn execute_elsewhere(sql: &str) {
    let url = TestPostgres::start().url("postgres");
    execute(&url, sql).await.unwrap();
}

/// Has new sessions of a database refuse changes, or take them again.
async fn set_read_only(name: &str, value: &str) {
    let setting = format!("ALTER DATABASE {name} SET default_transaction_read_only = {value}");
    execute_elsewhere(&setting).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_go_on_without_a_restart_once_the_server_takes_them_again() {
    let database = TestDatabase::of(DatabaseKind::Postgres).await;
    let fixture = Fixture::open(&database).await;
    let name = database.first_column("SELECT current_database()::text");
    let name = name.await.unwrap().remove(0);
    let end_sessions = format!(
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = '{name}'"
    );
    let system = Actor::system();
    let organizations = Organizations::new(&fixture.catalog);
    set_read_only(&name, "on").await;
    execute_elsewhere(&end_sessions).await;
    // The pool connects anew, and would keep that session.
    assert_eq!(organizations.list_all().await.unwrap().len(), 2);
    let refused = organizations.create(&system, "Refused", None).await;
    let Err(ChangeError::Catalog(CatalogError::Unreachable { reason, .. })) = &refused else {
        panic!("{refused:?}");
    };
    assert!(reason.contains("read-only transaction"), "{reason}");
    set_read_only(&name, "off").await;
    organizations.create(&system, "Made", None).await.unwrap();
    assert_eq!(organizations.list_all().await.unwrap().len(), 3);
}
