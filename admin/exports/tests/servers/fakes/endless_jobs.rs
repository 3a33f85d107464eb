//! Tests of warehouses whose statements never end: each has an hour, and then the try fails.

use super::server::{self, Fake, Reply, refusal};
use crate::rows::{delivered, lines, row, run};
use millrace_catalog::DestinationType::{Databricks, Snowflake};
use millrace_exports::ExportErrorKind::Retryable;
use millrace_exports::destination::calls::RetryPolicy;
use millrace_rows::TestClock;
use serde_json::json;
use std::time::Duration;

#[test]
fn a_job_of_a_warehouse_has_an_hour() {
    let hour = Duration::from_secs(3_600);
    assert_eq!(RetryPolicy::default().work_max, hour);
}

#[tokio::test]
async fn a_statement_that_never_ends_fails_the_try() {
    let table = [
        (
            Snowflake,
            json!({"account": "my-account", "database": "d", "schema": "s", "warehouse": "w",
                "role": "r", "authentication_type": "password"}),
            [("user", "canary-user"), ("password", "canary-secret")],
            202,
            json!({"code": "333334", "statementHandle": "01-0"}),
        ),
        (
            Databricks,
            json!({"server_hostname": "unused.example", "catalog": "main", "schema": "s",
                "http_path": "/sql/1.0/warehouses/abc123", "table_name": "e",
                "use_variant_type": true}),
            [("client_id", "client"), ("client_secret", "canary-secret")],
            200,
            json!({"statement_id": "01ef-0", "status": {"state": "RUNNING"}}),
        ),
    ];
    for (kind, config, secrets, status, running) in table {
        let fake = Fake::start(move |request| match request.target.as_str() {
            "/oidc/v1/token" => Reply::json(200, json!({"access_token": "t", "expires_in": 3600})),
            _ => Reply::json(status, running.clone()),
        });
        let fake = fake.await;
        let deps = server::impatient_deps(TestClock::default());
        let warehouse = server::opened_by(&fake, kind, &config, &secrets, deps);
        let outcome = delivered(&warehouse, &run(0), &lines([row(1)])).await;
        let (found, message) = refusal(outcome);
        assert_eq!(found, Retryable, "{kind:?}: {message}");
        assert!(message.contains("took too long"), "{kind:?}: {message}");
    }
}
