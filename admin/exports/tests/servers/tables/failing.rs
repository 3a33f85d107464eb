//! Tests of servers that refuse access, stall or fail.

use super::fixture::{Fixture, USER, WRONG_PASSWORD, refusal};
use super::gateway::GatewayFault;
use crate::rows::{delivered, lines, row, run};
use millrace_exports::ExportErrorKind;
use millrace_exports::destination::postgres::TimeLimits;
use std::time::Duration;

#[tokio::test]
async fn a_failed_login_has_a_reason_and_no_secret() {
    type Spoil = fn(&mut Fixture);
    let table: [(Spoil, ExportErrorKind, &str); 5] = [
        (
            |fixture| WRONG_PASSWORD.clone_into(&mut fixture.password),
            ExportErrorKind::Permanent,
            "did not accept the user and the password",
        ),
        (
            |fixture| fixture.set("database", "missing"),
            ExportErrorKind::Permanent,
            "There is no database missing.",
        ),
        (
            |fixture| fixture.set("schema", "missing"),
            ExportErrorKind::Permanent,
            "There is no schema missing.",
        ),
        (
            |fixture| fixture.set("port", 1),
            ExportErrorKind::Retryable,
            "The server cannot be reached.",
        ),
        (
            |fixture| fixture.gateway.inject(GatewayFault::CutBefore("millrace")),
            ExportErrorKind::Retryable,
            "The connection to the",
        ),
    ];
    for (spoil, kind, sentence) in table {
        let mut fixture = Fixture::new().await;
        spoil(&mut fixture);
        let error = refusal(delivered(&fixture.postgres(), &run(0), "").await);
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.message.contains(sentence), "{error}");
    }
}

#[tokio::test]
async fn missing_rights_are_named() {
    let table = [
        "REVOKE ALL ON SCHEMA public FROM PUBLIC, pg_database_owner",
        "CREATE TABLE events (a integer); ALTER TABLE events OWNER TO postgres",
    ];
    for take in table {
        let fixture = Fixture::new().await;
        fixture.admin.batch_execute(take).await.unwrap();
        let error = refusal(delivered(&fixture.postgres(), &run(0), "").await);
        assert_eq!(error.kind, ExportErrorKind::Permanent, "{error}");
    }
    let fixture = Fixture::new().await;
    delivered(&fixture.postgres(), &run(0), "").await.unwrap();
    let take = format!("ALTER TABLE events OWNER TO postgres; GRANT SELECT ON events TO {USER}");
    fixture.admin.batch_execute(&take).await.unwrap();
    let error = refusal(delivered(&fixture.postgres(), &run(0), &lines([row(1)])).await);
    assert_eq!(error.kind, ExportErrorKind::Permanent, "{error}");
    assert!(
        error.message.contains("SELECT, INSERT, UPDATE and DELETE"),
        "{error}"
    );
    // A user without the right to create tables can use existing ones.
    let give = format!(
        "GRANT INSERT, UPDATE, DELETE ON events TO {USER}; \
         REVOKE CREATE ON SCHEMA public FROM PUBLIC, pg_database_owner"
    );
    fixture.admin.batch_execute(&give).await.unwrap();
    delivered(&fixture.postgres(), &run(0), &lines([row(1)]))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_locked_table_is_given_up_after_the_time_limit() {
    let mut fixture = Fixture::new().await;
    fixture.limits.lock = Duration::from_millis(20);
    delivered(&fixture.postgres(), &run(0), "").await.unwrap();
    let other = fixture.other().await;
    other
        .batch_execute("BEGIN; LOCK TABLE events IN SHARE MODE")
        .await
        .unwrap();
    let error = refusal(delivered(&fixture.postgres(), &run(0), &lines([row(1)])).await);
    assert_eq!(error.kind, ExportErrorKind::Retryable);
    assert!(error.message.contains("locked the table"), "{error}");
    other.batch_execute("ROLLBACK").await.unwrap();
    delivered(&fixture.postgres(), &run(0), &lines([row(1)]))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_server_that_stalls_at_any_step_is_given_up() {
    type Limit = fn(&mut TimeLimits) -> &mut Duration;
    let table: [(&str, Limit); 3] = [
        ("millrace", |limits| &mut limits.connect),
        ("CREATE TEMPORARY", |limits| &mut limits.statement),
        ("COMMIT", |limits| &mut limits.publish),
    ];
    for (stall, limit) in table {
        let mut fixture = Fixture::new().await;
        *limit(&mut fixture.limits) = Duration::from_secs(1);
        fixture.gateway.inject(GatewayFault::StallBefore(stall));
        let error = refusal(delivered(&fixture.postgres(), &run(0), &lines([row(1)])).await);
        assert!(fixture.gateway.has_happened(), "{stall}");
        assert_eq!(error.kind, ExportErrorKind::Retryable, "{stall}: {error}");
    }
}

#[tokio::test]
async fn an_endless_answer_is_given_up_before_it_takes_the_memory() {
    for answered in ["CREATE TEMPORARY", "COMMIT"] {
        let fixture = Fixture::new().await;
        fixture
            .gateway
            .inject(GatewayFault::AnswerWithoutEnd(answered));
        let error = refusal(delivered(&fixture.postgres(), &run(0), &lines([row(1)])).await);
        assert!(fixture.gateway.has_happened(), "{answered}");
        assert_eq!(
            error.kind,
            ExportErrorKind::Retryable,
            "{answered}: {error}"
        );
        assert!(!error.message.contains("in time"), "{answered}: {error}");
    }
}

/// Deep enough look-ups would overflow the stack, which ends the process.
#[tokio::test]
async fn a_server_with_endless_types_is_given_up() {
    for answered in ["FROM information_schema", "COPY pg_temp"] {
        let fixture = Fixture::new().await;
        let fault = GatewayFault::EndlessTypes(answered);
        fixture.gateway.inject(fault);
        let error = refusal(delivered(&fixture.postgres(), &run(0), &lines([row(1)])).await);
        assert!(fixture.gateway.has_happened(), "{answered}");
        let kind = ExportErrorKind::Permanent;
        assert_eq!(error.kind, kind, "{answered}: {error}");
        assert!(
            error.message.contains("unknown types"),
            "{answered}: {error}"
        );
    }
    let fixture = Fixture::new().await;
    let fault = GatewayFault::EndlessTypes("FROM information_schema");
    fixture.gateway.inject(fault);
    let error = refusal(delivered(&fixture.redshift().await, &run(0), "").await);
    assert_eq!(error.kind, ExportErrorKind::Permanent, "{error}");
}

#[tokio::test]
async fn a_violated_constraint_is_named_and_the_rows_are_not() {
    let fixture = Fixture::new().await;
    delivered(&fixture.postgres(), &run(0), "").await.unwrap();
    fixture
        .execute("ALTER TABLE events ADD CONSTRAINT few CHECK (event <> 'page viewed')")
        .await;
    let error = refusal(delivered(&fixture.postgres(), &run(0), &lines([row(1)])).await);
    assert_eq!(error.kind, ExportErrorKind::Permanent);
    assert!(error.message.contains("the constraint few"), "{error}");
    assert!(!error.message.contains("page viewed"), "{error}");
}

#[tokio::test]
async fn a_session_without_its_temporary_table_is_told_of_poolers() {
    let lost_before = [
        "COPY pg_temp",
        "ANALYZE pg_temp",
        "INSERT INTO \"public\".\"events\"",
    ];
    for statement in lost_before {
        let fixture = Fixture::new().await;
        let fault = GatewayFault::DiscardTempBefore(statement);
        fixture.gateway.inject(fault);
        let error = refusal(delivered(&fixture.postgres(), &run(0), &lines([row(1)])).await);
        assert!(fixture.gateway.has_happened(), "{statement}");
        let kind = ExportErrorKind::Retryable;
        assert_eq!(error.kind, kind, "{statement}: {error}");
        assert!(error.message.contains("pooler"), "{statement}: {error}");
        let stored = "SELECT count(*) FROM events";
        assert_eq!(fixture.text(stored).await, "0", "{statement}");
        let outcome = delivered(&fixture.postgres(), &run(0), &lines([row(1)])).await;
        assert_eq!(outcome.unwrap().rows, Some(1), "{statement}");
    }
}
