//! Tests of a node on which many projects import.

use super::{Node, TEST_TIMEOUT, TestEnv};
use millrace_catalog::testing::{DatabaseKind, TestDatabase};
use millrace_catalog::{Actor, Catalog};
use millrace_organizations::{NewProject, Projects};
use millrace_rows::ProjectId;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Projects that import, which make three batches.
const PROJECTS: usize = 120;

/// Has many projects import an event each that is given up.
async fn import_once(env: &TestEnv, node: &Node) -> Vec<ProjectId> {
    let (catalog, system) = (Projects::new(&env.catalog), Actor::system());
    let mut projects = Vec::new();
    for number in 0..PROJECTS {
        let new = NewProject::named(&format!("Project {number}"));
        let made = catalog.create(&system, env.organization_id, new).await;
        projects.push(ProjectId(made.unwrap().id));
    }
    for id in &projects {
        let reservation = node.import_quota.admit(*id, 1).await;
        drop(reservation.unwrap());
    }
    projects
}

/// Waits until these projects and no others have leases.
async fn until_leased(env: &TestEnv, projects: &[ProjectId]) {
    let expected: Vec<_> = projects.iter().map(ToString::to_string).collect();
    let started = Instant::now();
    loop {
        let leased = "SELECT CAST(team_id AS TEXT) FROM import_leases ORDER BY team_id";
        let leased = env.database.first_column(leased).await.unwrap();
        if leased == expected {
            return;
        }
        assert!(started.elapsed() < TEST_TIMEOUT, "{leased:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn leases_go_back_in_a_few_transactions(kind: DatabaseKind) {
    let env = TestEnv::new(TestDatabase::of(kind).await, 100).await;
    let catalog = Catalog::open_with_clock(env.database.url(), Arc::new(env.clock.clone()));
    let (catalog, sent) = catalog.await.unwrap().counted();
    let node = Node::start(&env, catalog, 0).await;
    import_once(&env, &node).await;
    drop(sent.take());
    until_leased(&env, &[]).await;
    let is_read =
        |sql: &String| sql.starts_with("SELECT") && sql.contains("FROM \"import_quotas\"");
    // Each project reports at least twice: that it is idle, and what goes back.
    let reads = sent.take().into_iter().filter(is_read).count();
    assert!((1..PROJECTS / 2).contains(&reads), "{reads}");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_of_many_projects_go_back_in_a_few_transactions_on_sqlite() {
    leases_go_back_in_a_few_transactions(DatabaseKind::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_of_many_projects_go_back_in_a_few_transactions_on_postgres() {
    leases_go_back_in_a_few_transactions(DatabaseKind::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_project_whose_renewal_fails_holds_up_no_other() {
    let env = TestEnv::new(TestDatabase::of(DatabaseKind::Sqlite).await, 100).await;
    let node = env.node(0).await;
    let projects = import_once(&env, &node).await;
    let refuse = format!(
        "CREATE TRIGGER refuse BEFORE UPDATE ON import_quotas WHEN NEW.team_id = {} BEGIN \
         SELECT RAISE(ABORT, 'no'); END",
        projects[PROJECTS / 2]
    );
    // It has a lease, which no report changes from now on.
    let reservation = node.import_quota.admit(projects[PROJECTS / 2], 1).await;
    env.database.execute(&refuse).await.unwrap();
    drop(reservation.unwrap());
    until_leased(&env, &[projects[PROJECTS / 2]]).await;
    assert!(node.import_quota.0.forget_failures(), "it is reported");
    node.stop().await;
}
