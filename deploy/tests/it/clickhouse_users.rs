//! Users of the embedded ClickHouse, by the commands that show, make and rotate them.

use crate::clickhouse_outage::test_env::{Engine, PASSWORD};
use crate::server::{Server, ask, eventually, run};
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const PROJECTS: &str = "/api/organizations/@current/projects/";
const COUNT: &str = "SELECT count() FROM millrace.events";
/// Time within which the user of a deleted project is gone, with slack for a busy machine.
const GONE_WITHIN: Duration = Duration::from_secs(10);

/// Answer of ClickHouse to a user's statement: status and text.
fn answer(server: &Server, user: &str, password: &str, sql: &str) -> (u16, String) {
    let answered = ureq::post(&server.credential("clickhouse_url"))
        .header("X-ClickHouse-User", user)
        .header("X-ClickHouse-Key", password)
        .config()
        .http_status_as_error(false)
        .build()
        .send(sql);
    let mut answered = answered.unwrap();
    let text = answered.body_mut().read_to_string().unwrap();
    (answered.status().as_u16(), text.trim_end().to_owned())
}

/// Runs a command on a data folder and returns its output.
fn told(dir: &Path, args: &[&str]) -> String {
    let place = ["--data-dir", dir.to_str().unwrap()];
    let output = run(&[args, &place].concat());
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.trim_end().to_owned()
}

/// Gives a user another password and returns it.
fn rotated(dir: &Path, name: &str) -> String {
    let text = told(dir, &["clickhouse-users", "rotate", name]);
    let line = text.lines().next().unwrap();
    line.rsplit_once("password ").unwrap().1.to_owned()
}

/// Server with one event in its first project.
fn server_with_event(dir: &Path) -> Server {
    let server = Server::start(dir);
    server.wait_for_tables();
    server.capture(&json!([{"event": "mine", "distinct_id": "a"}]));
    server.wait_for(COUNT, "1");
    server
}

#[test]
fn reader_and_admin_have_passwords_that_are_shown_and_rotated() {
    let dir = TempDir::new().unwrap();
    let server = server_with_event(dir.path());
    assert!(
        server.banner().contains("user reader"),
        "{}",
        server.banner()
    );
    for (name, drops) in [("reader", false), ("admin", true)] {
        let first = told(dir.path(), &["credentials", name]);
        let field = format!("clickhouse_{name}_password");
        assert_eq!(first, server.credential(&field));
        let counted = answer(&server, name, &first, COUNT);
        assert_eq!(counted, (200, "1".to_owned()), "{name}");
        let (status, text) = answer(&server, name, &first, "DROP TABLE millrace.rejected_events");
        assert_eq!(status == 200, drops, "{name}: {text}");
        let second = rotated(dir.path(), name);
        assert_ne!(first, second);
        assert_eq!(answer(&server, name, &first, COUNT).0, 403, "{name}");
        assert_eq!(answer(&server, name, &second, COUNT).0, 200, "{name}");
        assert_eq!(told(dir.path(), &["credentials", name]), second);
    }
    let own = server.credential("clickhouse_password");
    assert_eq!(told(dir.path(), &["credentials", "millrace"]), own);
    for args in [
        &["credentials", "nobody"][..],
        &["credentials", "project_1"],
        &["clickhouse-users", "rotate", "nobody"],
        &["clickhouse-users", "rotate", "millrace"],
        &["clickhouse-users", "rotate", "project_999"],
    ] {
        let place = ["--data-dir", dir.path().to_str().unwrap()];
        let output = run(&[args, &place].concat());
        assert_eq!(output.status.code(), Some(1), "{args:?}: {output:?}");
    }
    // Nobody else's passwords changed, and the server goes on.
    server.capture(&json!([{"event": "mine", "distinct_id": "b"}]));
    server.wait_for(COUNT, "2");
}

#[test]
fn a_project_has_a_user_until_it_is_deleted() {
    let dir = TempDir::new().unwrap();
    let server = server_with_event(dir.path());
    let (status, made) = ask(&server, "POST", PROJECTS, &json!({"name": "Second"}));
    assert_eq!(status, 201, "{made}");
    let second = format!("project_{}", made["id"]);
    let [first, other] = ["project_1", &second].map(|name| rotated(dir.path(), name));
    let count = "SELECT count() FROM project.events";
    for (password, expected) in [(&first, "1"), (&other, "0")] {
        let counted = answer(&server, "project", password, count);
        assert_eq!(counted, (200, expected.to_owned()));
        let (status, text) = answer(&server, "project", password, COUNT);
        assert_ne!(status, 200, "{text}");
    }
    let again = rotated(dir.path(), "project_1");
    assert_eq!(answer(&server, "project", &first, count).0, 403);
    assert_eq!(answer(&server, "project", &again, count).1, "1");
    let list = told(dir.path(), &["clickhouse-users", "list"]);
    for name in ["millrace", "admin", "reader", "project_1", &second] {
        assert!(list.contains(name), "{name}: {list}");
    }
    let path = format!("{PROJECTS}{}/", made["id"]);
    assert_eq!(ask(&server, "DELETE", &path, &Value::Null).0, 204);
    let deleted = Instant::now();
    eventually("the user of a deleted project is gone", || {
        (answer(&server, "project", &other, count).0 == 403).then_some(())
    });
    assert!(deleted.elapsed() < GONE_WITHIN);
    assert_eq!(answer(&server, "project", &again, count).1, "1");
}

/// Nobody reads the catalog beside such an engine, so that a password would never hold.
#[test]
fn an_engine_by_itself_gives_users_of_projects_no_passwords_and_runs_their_queries() {
    let home = TempDir::new().unwrap();
    let [engine_dir, dir] = ["engine", "serve"].map(|name| home.path().join(name));
    let engine = Engine::start(&engine_dir, PASSWORD);
    let place = ["--clickhouse-url", &engine.url, "--clickhouse-user"];
    let place = [&place[..], &["millrace", "--clickhouse-password", PASSWORD]].concat();
    let server = Server::start_with(&dir, &place);
    server.wait_for_tables();
    let reason = "`millrace clickhouse` runs by itself";
    for method in ["POST", "GET"] {
        let (status, told) = ask(
            &server,
            method,
            "/api/projects/1/clickhouse_user/",
            &json!({}),
        );
        assert_eq!((status, &told["code"]), (403, &json!("permission_denied")));
        let detail = told["detail"].as_str().unwrap();
        assert!(detail.contains(reason), "{method}: {detail}");
    }
    let command = |dir: &Path, args: &[&str], place: &[&str]| {
        let dir = ["--data-dir", dir.to_str().unwrap()];
        run(&[args, place, &dir].concat())
    };
    for (args, reason) in [
        (&["clickhouse-users", "rotate", "project_1"][..], reason),
        (&["credentials", "reader"], "is not kept here"),
        (&["credentials", "admin"], "is not kept here"),
    ] {
        let output = command(&dir, args, &place);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{args:?}: {said}");
        assert!(said.contains(reason), "{args:?}: {said}");
    }
    let list = command(&dir, &["clickhouse-users", "list"], &place);
    let list = String::from_utf8_lossy(&list.stdout).into_owned();
    assert!(list.contains("No project has a user"), "{list}");
    let count = "SELECT count() AS n FROM events";
    let queried = command(&dir, &["query", count, "--format", "ndjson"], &place);
    assert_eq!(queried.stdout, b"{\"n\":0}\n", "{queried:?}");
    let kept = told(&engine_dir, &["credentials", "reader"]);
    let database = "SELECT count() FROM system.databases WHERE name = 'millrace'";
    let asked = answer(&server, "reader", &kept, database);
    assert_eq!(asked, (200, "1".to_owned()));
}

/// `credentials.json` of earlier versions has one user, and there is no file of users.
#[test]
fn a_data_folder_without_these_users_gets_them_at_its_next_start() {
    let dir = TempDir::new().unwrap();
    let server = server_with_event(dir.path());
    let own = server.credential("clickhouse_password");
    let path = server.credentials_path();
    assert!(server.stop().success());
    let mut kept: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let fields = kept.as_object_mut().unwrap();
    for name in ["reader", "admin"] {
        fields
            .remove(&format!("clickhouse_{name}_password"))
            .unwrap();
    }
    std::fs::write(&path, kept.to_string()).unwrap();
    std::fs::remove_dir_all(dir.path().join("clickhouse-users")).unwrap();
    let server = Server::start(dir.path());
    server.wait_for(COUNT, "1");
    assert_eq!(server.credential("clickhouse_password"), own);
    for name in ["reader", "admin"] {
        let password = server.credential(&format!("clickhouse_{name}_password"));
        assert_eq!(answer(&server, name, &password, COUNT).1, "1", "{name}");
    }
}
