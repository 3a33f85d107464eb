//! Queries of projects and their users in ClickHouse, over queries that are made up. Those of the
//! real engine are tested with the program.

use crate::Fixture;
use crate::fake_queries::{BROKEN, ENDLESS, LARGE, PASSWORD, WRONG, running_query};
use crate::test_server::TestServer;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use millrace_catalog::Level;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::net::TcpStream;
use uuid::Uuid;

on_both!(
    an_answer_has_the_format_that_is_accepted,
    errors_have_clickhouses_code_and_position,
    a_query_is_stopped_in_its_own_project_only,
    a_new_password_is_shown_once_and_to_administrators,
);
on_both!(threads: an_organization_runs_a_few_queries_at_a_time_and_gone_clients_none);

const QUERY: &str = "/api/projects/@current/query/";
const USER: &str = "/api/projects/@current/clickhouse_user/";

async fn an_answer_has_the_format_that_is_accepted() {
    let fixture = Fixture::new().await;
    let key = format!("Bearer {}", fixture.owner_key());
    let body = json!({ "query": "SELECT 1\n\tFROM events" }).to_string();
    for (accept, status, content_type) in [
        ("*/*", 200, "application/json"),
        ("text/csv", 200, "text/csv; charset=utf-8; header=present"),
        ("application/x-ndjson", 200, "application/x-ndjson"),
        (
            "application/vnd.apache.parquet",
            200,
            "application/vnd.apache.parquet",
        ),
        (
            "application/vnd.apache.arrow.stream",
            200,
            "application/vnd.apache.arrow.stream",
        ),
        ("image/png", 406, "application/json"),
    ] {
        let headers = [
            ("authorization", key.as_str()),
            ("content-type", "application/json"),
            ("accept", accept),
            // Ignored: the answer could not be kept.
            ("idempotency-key", "one"),
        ];
        let answer = fixture
            .request("POST", QUERY, &headers, body.as_bytes())
            .await;
        assert_eq!(answer.status, status, "{accept}: {answer:?}");
        assert_eq!(answer.header("content-type"), content_type, "{accept}");
        if status == 200 {
            assert_eq!(
                answer.header("x-clickhouse-summary"),
                r#"{"read_rows":"1"}"#
            );
            let id = answer.header("x-clickhouse-query-id");
            Uuid::parse_str(id).unwrap_or_else(|error| panic!("{id}: {error}"));
            assert_eq!(answer.header("cache-control"), "no-store");
            assert_eq!(answer.header("x-content-type-options"), "nosniff");
        }
    }
    let id = Uuid::from_u128(5);
    let chosen = json!({ "query": "SELECT 1", "query_id": id });
    let answer = fixture.call("POST", QUERY, &chosen).await;
    assert_eq!(answer.header("x-clickhouse-query-id"), id.to_string());
}

async fn errors_have_clickhouses_code_and_position() {
    let fixture = Fixture::new().await;
    for (sql, code) in [(WRONG, "query_failed"), (LARGE, "query_limit_exceeded")] {
        let answer = fixture.call("POST", QUERY, &json!({ "query": sql })).await;
        assert_eq!(answer.error(), (400, code, Some("query")), "{answer:?}");
        let clickhouse = json!({ "code": 62, "name": "SYNTAX_ERROR", "position": 7 });
        assert_eq!(answer.body["clickhouse"], clickhouse);
    }
    for body in [
        json!({}),
        json!({ "query": " " }),
        json!({ "query": "x".repeat(300_000) }),
    ] {
        let answer = fixture.call("POST", QUERY, &body).await;
        assert_eq!(
            (answer.status, answer.error().2),
            (400, Some("query")),
            "{answer:?}"
        );
        assert_eq!(answer.body.get("clickhouse"), None);
    }
}

async fn a_query_is_stopped_in_its_own_project_only() {
    let fixture = Fixture::new().await;
    let project_id = fixture.made.project_id.0;
    for (id, status) in [(project_id, 204), (project_id + 1, 404)] {
        let path = format!("{QUERY}{}/", running_query(id));
        let answer = fixture
            .send("DELETE", &path, Some(fixture.owner_key()))
            .await;
        assert_eq!(answer.status, status, "{answer:?}");
    }
}

async fn a_new_password_is_shown_once_and_to_administrators() {
    let fixture = Fixture::new().await;
    let none = fixture.get(USER).await;
    assert_eq!((none.status, &none.body["rotated_at"]), (200, &Value::Null));
    let key = format!("Bearer {}", fixture.owner_key());
    let headers = [("authorization", key.as_str()), ("idempotency-key", "one")];
    for replayed in [false, true] {
        let answer = fixture.request("POST", USER, &headers, b"").await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let expected = if replayed {
            json!(null)
        } else {
            json!(PASSWORD)
        };
        assert_eq!(answer.body["password"], expected);
        assert!(answer.body["rotated_at"].is_string(), "{answer:?}");
    }
    let shown = fixture.get(USER).await.body;
    assert!(
        shown["rotated_at"].is_string() && shown.get("password").is_none(),
        "{shown}"
    );
    let project = "/api/organizations/@current/projects/@current/";
    let entries = fixture
        .get(&format!("{project}activity/"))
        .await
        .body
        .to_string();
    assert!(
        entries.contains("clickhouse_user") && !entries.contains(PASSWORD),
        "{entries}"
    );
    let member = fixture.member("mia@example.org", Level::Member).await;
    for method in ["GET", "POST"] {
        let answer = fixture.send(method, USER, Some(&member)).await;
        assert_eq!(answer.status, 403, "{method}: {answer:?}");
    }
    let answer = fixture
        .call_with(&member, "POST", QUERY, &json!({ "query": "SELECT 1" }))
        .await;
    assert_eq!(answer.status, 200, "members run queries: {answer:?}");
}

/// Begins a query over a connection of its own; the connection ends with the sender.
async fn begin(
    server: &TestServer,
    sql: &str,
) -> (
    http1::SendRequest<Full<bytes::Bytes>>,
    http::Response<hyper::body::Incoming>,
) {
    let stream = TcpStream::connect(server.address).await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = http::Request::post(QUERY)
        .header("host", "localhost")
        .header(
            "authorization",
            format!("Bearer {}", server.fixture.owner_key()),
        )
        .header("content-type", "application/json")
        .body(Full::from(json!({ "query": sql }).to_string()))
        .unwrap();
    let response = sender.send_request(request).await.unwrap();
    (sender, response)
}

async fn an_organization_runs_a_few_queries_at_a_time_and_gone_clients_none() {
    let server = TestServer::start_unthrottled().await;
    let mut running = Vec::new();
    for _ in 0..4 {
        let (sender, mut response) = begin(&server, ENDLESS).await;
        assert_eq!(response.status(), 200);
        response.frame().await.unwrap().unwrap();
        running.push((sender, response));
    }
    let (_sender, refused) = begin(&server, "SELECT 1").await;
    assert_eq!(refused.status(), 429);
    assert_eq!(refused.headers()["retry-after"], "5");
    // Their clients go, and with them their queries.
    running.clear();
    let (_sender, served) = begin(&server, "SELECT 1").await;
    assert_eq!(served.status(), 200);
    let body = served.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(body, "{}");
    let (_sender, broken) = begin(&server, BROKEN).await;
    assert_eq!(broken.status(), 200, "its beginning was sent");
    let read = tokio::time::timeout(Duration::from_secs(10), broken.into_body().collect());
    assert!(
        read.await.unwrap().is_err(),
        "an answer that failed looks complete"
    );
    server.stop().await;
}
