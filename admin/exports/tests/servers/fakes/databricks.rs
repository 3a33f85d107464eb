//! Tests of Databricks' SQL statement execution API.

use super::server::{self, Fake, Fault, Reply, refusal};
use super::sql::Tables;
use crate::rows::{delivered, fat_row, lines, row, run};
use crate::wire::Request;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use millrace_catalog::DestinationType;
use millrace_exports::ExportErrorKind;
use millrace_exports::destination::Destination;
use millrace_exports::destination::warehouse::Warehouse;
use millrace_rows::{Micros, TestClock};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

#[derive(Default)]
struct FakeDatabricks {
    tables: Tables,
    /// True if statements are still running in their first answer.
    slow: bool,
    answers: BTreeMap<String, Option<String>>,
    tokens: u32,
}

impl FakeDatabricks {
    fn answer(&mut self, request: &Request) -> Reply {
        if request.target == "/oidc/v1/token" {
            let expected = STANDARD.encode("client:canary-secret");
            assert_eq!(
                request.headers["authorization"],
                format!("Basic {expected}")
            );
            assert_eq!(
                request.body,
                b"grant_type=client_credentials&scope=all-apis"
            );
            self.tokens += 1;
            let token = format!("token-{}", self.tokens);
            return Reply::json(200, json!({"access_token": token, "expires_in": 3600}));
        }
        let token = format!("Bearer token-{}", self.tokens);
        assert_eq!(request.headers["authorization"], token);
        let path = "/api/2.0/sql/statements/";
        let id = request.target.strip_prefix(path).unwrap();
        if !id.is_empty() {
            assert_eq!(request.method, "GET");
            return done(id, &self.answers[id]);
        }
        let body = request.json();
        assert_eq!(body["warehouse_id"], "abc123");
        assert_eq!(body["on_wait_timeout"], "CONTINUE");
        let rows = body.pointer("/parameters/0").map(|rows| {
            assert_eq!(
                (&rows["name"], &rows["type"]),
                (&json!("rows"), &json!("STRING"))
            );
            rows["value"].as_str().unwrap()
        });
        let first = self.tables.run(body["statement"].as_str().unwrap(), rows);
        let id = format!("01ef-{}", self.answers.len());
        self.answers.insert(id.clone(), first.clone());
        if self.slow {
            return Reply::json(
                200,
                json!({"statement_id": id, "status": {"state": "PENDING"}}),
            );
        }
        done(&id, &first)
    }
}

fn done(id: &str, first: &Option<String>) -> Reply {
    let data = first.iter().map(|first| json!([first])).collect::<Vec<_>>();
    Reply::json(
        200,
        json!({"statement_id": id, "status": {"state": "SUCCEEDED"}, "result": {"data_array": data}}),
    )
}

async fn started(service: &Arc<Mutex<FakeDatabricks>>) -> Fake {
    let service = Arc::clone(service);
    Fake::start(move |request| service.lock().unwrap().answer(request)).await
}

fn opened_with(fake: &Fake, clock: TestClock, variant: bool) -> Warehouse {
    let config = json!({"server_hostname": "unused.example", "catalog": "main", "schema": "Default",
        "http_path": "/sql/1.0/warehouses/abc123", "table_name": "e`vents", "use_variant_type": variant});
    let secrets = [("client_id", "client"), ("client_secret", "canary-secret")];
    server::opened(fake, DestinationType::Databricks, &config, &secrets, clock)
}

fn opened(fake: &Fake) -> Warehouse {
    opened_with(fake, TestClock::default(), true)
}

#[tokio::test]
async fn rows_arrive_once_whichever_answer_is_lost() {
    for fault in [Fault::Lost, Fault::Busy, Fault::Broken] {
        for (number, slow) in (0..20).flat_map(|number| [(number, false), (number, true)]) {
            let service = Arc::new(Mutex::new(FakeDatabricks::default()));
            service.lock().unwrap().slow = slow;
            let fake = started(&service).await;
            // The first request is for a token; only the last token is valid.
            fake.inject(number, fault);
            let lines = lines((0..5).map(fat_row));
            let outcome = delivered(&opened(&fake), &run(0), &lines).await.unwrap();
            assert_eq!(outcome.rows, Some(5), "{fault:?} {number}");
            let stored: Vec<Value> = service
                .lock()
                .unwrap()
                .tables
                .events
                .values()
                .cloned()
                .collect();
            assert_eq!(stored.len(), 5);
            assert_eq!(stored[1], fat_row(1));
            if fake.is_pending() {
                break;
            }
        }
    }
}

#[tokio::test]
async fn a_token_is_used_until_shortly_before_its_end() {
    let service = Arc::new(Mutex::new(FakeDatabricks::default()));
    let fake = started(&service).await;
    let clock = TestClock::default();
    let databricks = opened_with(&fake, clock.clone(), true);
    for (minutes, tokens) in [(0, 1), (49, 1), (51, 2), (100, 2), (102, 3)] {
        clock.set(Micros(minutes * 60_000_000));
        delivered(&databricks, &run(0), &lines([row(1)]))
            .await
            .unwrap();
        assert_eq!(service.lock().unwrap().tokens, tokens, "{minutes}");
    }
}

#[tokio::test]
async fn refusals_have_no_secret_in_them() {
    let state = |state: &str, code: &str| json!({"statement_id": "1", "status": {"state": state, "error": {"error_code": code, "message": "canary-secret"}}});
    let conflict = |sql_state: Option<&str>, message: &str| json!({"statement_id": "1", "status": {"state": "FAILED", "sql_state": sql_state, "error": {"error_code": "BAD_REQUEST", "message": message}}});
    let table = [
        (
            200,
            conflict(Some("2D521"), "canary-secret"),
            ExportErrorKind::Retryable,
            "conflict",
        ),
        (
            200,
            conflict(None, "[DELTA_CONCURRENT_WRITE] canary-secret"),
            ExportErrorKind::Retryable,
            "conflict",
        ),
        (
            200,
            conflict(Some("42601"), "[PARSE_SYNTAX_ERROR] canary-secret"),
            ExportErrorKind::Permanent,
            "BAD_REQUEST",
        ),
        (
            200,
            state("FAILED", "BAD_REQUEST"),
            ExportErrorKind::Permanent,
            "BAD_REQUEST",
        ),
        (
            200,
            state("FAILED", "INTERNAL_ERROR"),
            ExportErrorKind::Retryable,
            "INTERNAL_ERROR",
        ),
        (
            200,
            state("CANCELED", ""),
            ExportErrorKind::Retryable,
            "stopped",
        ),
        (200, json!({}), ExportErrorKind::Retryable, "cannot be read"),
        (403, json!({}), ExportErrorKind::Permanent, "rights"),
        (404, json!({}), ExportErrorKind::Permanent, "not find"),
        (503, json!({}), ExportErrorKind::Retryable, "503"),
    ];
    for (status, body, kind, sentence) in table {
        let fake = Fake::start(move |request| match request.target.as_str() {
            "/oidc/v1/token" => Reply::json(200, json!({"access_token": "t", "expires_in": 9})),
            _ => Reply::json(status, body.clone()),
        });
        let fake = fake.await;
        let (found, message) = refusal(delivered(&opened(&fake), &run(0), "").await);
        assert_eq!(found, kind, "{status}");
        assert!(message.contains(sentence), "{status}: {message}");
    }
    let fake = Fake::start(|_| Reply::json(401, json!({"error": "invalid_client"}))).await;
    let (kind, message) = refusal(delivered(&opened(&fake), &run(0), "").await);
    assert_eq!(kind, ExportErrorKind::Permanent);
    assert!(message.contains("credentials"), "{message}");
}

#[tokio::test]
async fn statements_are_those_of_databricks_documentation() {
    for (variant, kind, value) in [
        (
            true,
            "VARIANT",
            "parse_json(get_json_object(line, '$.properties'))",
        ),
        (
            false,
            "STRING",
            "get_json_object(line, '$.properties'), get_json_object",
        ),
    ] {
        let service = Arc::new(Mutex::new(FakeDatabricks::default()));
        let fake = started(&service).await;
        let databricks = opened_with(&fake, TestClock::default(), variant);
        for step in databricks.test_steps() {
            databricks.test(*step).await.unwrap();
        }
        assert!(service.lock().unwrap().tables.stages.is_empty());
        service.lock().unwrap().tables.statements.clear();
        delivered(&databricks, &run(0), &lines([row(1)]))
            .await
            .unwrap();
        let statements = service.lock().unwrap().tables.statements.clone();
        let create = "CREATE TABLE IF NOT EXISTS `main`.`Default`.`e``vents` (`uuid` STRING, `event` STRING, `properties` ";
        assert!(
            statements[0].starts_with(&format!("{create}{kind},")),
            "{}",
            statements[0]
        );
        assert!(statements[2].contains(value), "{}", statements[2]);
        assert!(statements[2].contains("explode(from_json(:rows, 'array<string>')) AS line"));
        assert!(statements[4].contains("kept.`set` = come.`set`"));
    }
}
