//! Deletion of a large project while its server is killed: the project is gone at once, its rows
//! follow.

use crate::server::{Server, ask, eventually};
use millrace_catalog::testing::{TestDatabase, random_uuid};
use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

const PERSONS: u64 = 60_000;
const PROJECTS: &str = "/api/organizations/@current/projects/";

/// SQL that gives the first project persons and distinct ids.
fn fill(id: &str) -> [String; 2] {
    let numbers = format!(
        "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {PERSONS})"
    );
    [
        format!(
            "INSERT INTO persons (team_id, id, created_at, is_identified, is_deleted, properties, \
             version) {numbers} SELECT 1, {id}, 0, false, false, '{{}}', 1 FROM numbers"
        ),
        format!(
            "INSERT INTO person_distinct_ids (team_id, distinct_id, person_id, version) {numbers} \
             SELECT 1, 'd' || n, {id}, 1 FROM numbers"
        ),
    ]
}

const LEFT: &str = "SELECT CAST((SELECT COUNT(*) FROM persons WHERE team_id = 1) \
     + (SELECT COUNT(*) FROM person_distinct_ids WHERE team_id = 1) AS TEXT)";

struct Deletion {
    database: TestDatabase,
    runtime: Runtime,
    dir: TempDir,
}

impl Deletion {
    fn left(&self) -> u64 {
        let found = self.database.first_column(LEFT);
        self.runtime.block_on(found).unwrap()[0].parse().unwrap()
    }

    fn start(&self) -> Server {
        let args = ["--database-url", self.database.url()];
        Server::start_mode("admin", self.dir.path(), &args)
    }

    fn kill(&self, mut server: Server) {
        kill_process(server.pid(), Signal::KILL).unwrap();
        server.wait();
    }
}

#[test]
fn the_deletion_of_a_project_goes_on_after_kills_in_sqlite() {
    deletion_goes_on(TestDatabase::sqlite());
}

#[test]
fn the_deletion_of_a_project_goes_on_after_kills_in_postgres() {
    let runtime = Runtime::new().unwrap();
    deletion_goes_on(runtime.block_on(TestDatabase::postgres()));
}

fn deletion_goes_on(database: TestDatabase) {
    let it = Deletion {
        database,
        runtime: Runtime::new().unwrap(),
        dir: TempDir::new().unwrap(),
    };
    let server = it.start();
    for rows in fill(random_uuid(&it.database)) {
        it.runtime.block_on(it.database.execute(&rows)).unwrap();
    }
    assert_eq!(it.left(), 2 * PERSONS);
    let project = format!("{PROJECTS}1/");
    let (status, answer) = ask(&server, "DELETE", &project, &Value::Null);
    assert_eq!(status, 204, "{answer}");
    assert_eq!(ask(&server, "GET", &project, &Value::Null).0, 404);
    let (mut server, mut before) = (server, 2 * PERSONS);
    for _ in 0..2 {
        let some = eventually("a piece is deleted", || {
            Some(it.left()).filter(|left| *left < before)
        });
        assert!(some > 0, "all of it was deleted at once");
        // Other changes are possible meanwhile.
        let name = json!({"name": "Meanwhile"});
        assert_eq!(ask(&server, "POST", PROJECTS, &name).0, 201);
        it.kill(server);
        before = it.left();
        assert!(before > 0);
        server = it.start();
    }
    eventually("all rows are deleted", || (it.left() == 0).then_some(()));
    assert_eq!(ask(&server, "GET", &project, &Value::Null).0, 404);
    assert_eq!(server.stop().code(), Some(0));
}
