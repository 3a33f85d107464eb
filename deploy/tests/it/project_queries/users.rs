//! User of a project in ClickHouse, by the API of this process and of another one.

use super::tenants::Tenants;
use crate::server::{Server, ask, eventually, run};
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Time within which a change holds, with slack for a busy machine.
const HOLDS_WITHIN: Duration = Duration::from_secs(10);
const COUNT: &str = "SELECT count() FROM project.events";

fn user_path(project_id: i64) -> String {
    format!("/api/projects/{project_id}/clickhouse_user/")
}

/// Status and text of ClickHouse's answer to the user of a project.
fn answer(url: &str, password: &str) -> (u16, String) {
    let answered = ureq::post(url)
        .header("X-ClickHouse-User", "project")
        .header("X-ClickHouse-Key", password)
        .config()
        .http_status_as_error(false)
        .build()
        .send(COUNT);
    let mut answered = answered.unwrap();
    let text = answered.body_mut().read_to_string().unwrap();
    (answered.status().as_u16(), text.trim_end().to_owned())
}

/// Gives a project's user a new password by an API, and waits until it holds.
fn rotated(api: &Server, tenants: &Tenants, project_id: i64) -> String {
    let (status, user) = ask(api, "POST", &user_path(project_id), &json!({}));
    assert_eq!(status, 200, "{user}");
    let (url, begun) = (tenants.server.credential("clickhouse_url"), Instant::now());
    assert_eq!(
        (&user["user"], &user["url"]),
        (&json!("project"), &json!(url))
    );
    let password = user["password"].as_str().unwrap().to_owned();
    eventually("the new password holds", || {
        (answer(&url, &password) == (200, "50".to_owned())).then_some(())
    });
    assert!(begun.elapsed() < HOLDS_WITHIN);
    password
}

#[test]
fn a_projects_user_is_shown_rotated_and_gone_with_its_project() {
    let tenants = Tenants::start();
    let url = tenants.server.credential("clickhouse_url");
    let (status, none) = ask(
        &tenants.server,
        "GET",
        &user_path(tenants.second),
        &Value::Null,
    );
    assert_eq!((status, &none["rotated_at"]), (200, &Value::Null), "{none}");
    let first = rotated(&tenants.server, &tenants, tenants.second);
    let second = rotated(&tenants.server, &tenants, tenants.second);
    assert_eq!(answer(&url, &first).0, 403);
    let other = rotated(&tenants.server, &tenants, tenants.first);
    let queried = tenants.query(tenants.second, "text/csv", "SELECT count() FROM events");
    assert!(
        queried.text().ends_with("50\n"),
        "a rotation leaves queries alone: {queried:?}"
    );
    let project = format!("/api/organizations/@current/projects/{}/", tenants.second);
    assert_eq!(
        ask(&tenants.server, "DELETE", &project, &Value::Null).0,
        204
    );
    let deleted = Instant::now();
    eventually("the user of a deleted project is gone", || {
        (answer(&url, &second).0 == 403).then_some(())
    });
    assert!(deleted.elapsed() < HOLDS_WITHIN);
    let gone = tenants.query(tenants.second, "text/csv", "SELECT 1");
    assert_eq!(gone.status, 404, "{gone:?}");
    eventually("its tokens are gone", || {
        let sql = format!(
            "SELECT count() FROM project.tokens WHERE team_id = {}",
            tenants.second
        );
        (tenants.own(&sql) == "0").then_some(())
    });
    assert_eq!(answer(&url, &other), (200, "50".to_owned()));
}

/// The API of another process has the catalog and ClickHouse, and no folder of the engine.
#[test]
fn an_api_in_another_process_runs_queries_and_makes_users() {
    let tenants = Tenants::start();
    let folder = TempDir::new().unwrap();
    let catalog = tenants.dir.path().join("catalog.db");
    let database = format!("sqlite://{}?mode=rwc", catalog.display());
    let mut args = vec!["--database-url".to_owned(), database];
    args.extend(tenants.server.clickhouse_args());
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let secret_key = |dir: &Path| dir.join("secret.key");
    std::fs::copy(secret_key(tenants.dir.path()), secret_key(folder.path())).unwrap();
    let key = tenants.server.credential("personal_api_key");
    let api = Server::start_mode("admin", folder.path(), &args);
    let url = api.credential("admin_url");
    let asked = |method: &str, path: &str, body: &Value| {
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .build()
            .into();
        let request = ureq::http::Request::builder()
            .method(method)
            .uri(format!("{url}{path}"))
            .header("content-type", "application/json")
            .header("authorization", format!("Bearer {key}"))
            .body(body.to_string())
            .unwrap();
        let mut answer = agent.run(request).unwrap();
        let text = answer.body_mut().read_to_string().unwrap();
        let body: Value = serde_json::from_str(&text).unwrap_or_default();
        (answer.status().as_u16(), body)
    };
    let query = json!({ "query": "SELECT DISTINCT event FROM events" });
    let path = format!("/api/projects/{}/query/", tenants.first);
    // 503 until the first process has made the views.
    let (status, found) = eventually("an answer", || {
        Some(asked("POST", &path, &query)).filter(|(status, _)| *status != 503)
    });
    assert_eq!(
        (status, &found["data"]),
        (200, &json!([{ "event": "mine" }])),
        "{found}"
    );
    let (status, user) = asked("POST", &user_path(tenants.first), &json!({}));
    assert_eq!(status, 200, "{user}");
    let password = user["password"].as_str().unwrap();
    let clickhouse = tenants.server.credential("clickhouse_url");
    eventually("the new password holds in the first process", || {
        (answer(&clickhouse, password) == (200, "50".to_owned())).then_some(())
    });
    // Commands name the user as the API does.
    let name = format!("project_{}", tenants.first);
    let rotate = ["clickhouse-users", "rotate", &name, "--data-dir"];
    let folder = folder.path().to_str().unwrap();
    let rotated = run(&[&rotate[..], &[folder], &args].concat());
    let said = String::from_utf8_lossy(&rotated.stdout).into_owned();
    assert!(said.starts_with("User project, password "), "{rotated:?}");
}
