//! Ends of queries: they are stopped by their id, or when their client goes.

use super::tenants::Tenants;
use crate::server::{ask, eventually};
use serde_json::{Value, json};
use std::thread;
use std::time::Duration;

/// Query that takes minutes.
const SLOW: &str = "SELECT sum(sleepEachRow(0.00004)) FROM numbers(100000000)";
const ID: &str = "00000000-0000-4000-8000-000000000001";

fn path(project_id: i64) -> String {
    format!("/api/projects/{project_id}/query/{ID}/")
}

#[test]
fn a_query_is_stopped_by_its_id() {
    let tenants = Tenants::start();
    let body = json!({ "query": SLOW, "query_id": ID });
    thread::scope(|scope| {
        let answer = scope.spawn(|| {
            let wait = Duration::from_secs(120);
            tenants.begin(tenants.first, "*/*", &body, wait).unwrap()
        });
        eventually("the query runs", || {
            (tenants.running() == "1").then_some(())
        });
        let (status, _) = ask(
            &tenants.server,
            "DELETE",
            &path(tenants.second),
            &Value::Null,
        );
        assert_eq!(status, 404, "it is of another project");
        let (status, text) = ask(
            &tenants.server,
            "DELETE",
            &path(tenants.first),
            &Value::Null,
        );
        assert_eq!(status, 204, "{text}");
        let answer = answer.join().unwrap();
        assert_eq!(answer.status, 400, "{answer:?}");
        assert_eq!(answer.json()["code"], "query_stopped");
    });
    let (status, _) = ask(
        &tenants.server,
        "DELETE",
        &path(tenants.first),
        &Value::Null,
    );
    assert_eq!(status, 404, "it runs no more");
}

#[test]
fn queries_of_clients_that_went_end() {
    let tenants = Tenants::start();
    let body = json!({ "query": SLOW });
    let wait = Duration::from_secs(3);
    tenants
        .begin(tenants.first, "*/*", &body, wait)
        .expect_err("it takes minutes");
    eventually("the query of a client that went ends", || {
        (tenants.running() == "0").then_some(())
    });
    let answer = tenants.query(tenants.first, "text/csv", "SELECT 1");
    assert_eq!(answer.status, 200, "{answer:?}");
}
