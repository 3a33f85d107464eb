//! Servers that do not let us in, or do not do what they are told.

use super::fixture::{Fixture, USER, WRONG_PASSWORD, refusal};
use super::gateway::Harm;
use crate::rows::{delivered, lines, row, run};
use millrace_exports::Outlook;
use millrace_exports::destination::postgres::TimeLimits;
use std::time::Duration;

#[tokio::test]
async fn who_is_not_let_in_is_told_why_and_no_secret() {
    type Spoil = fn(&mut Fixture);
    let table: [(Spoil, Outlook, &str); 5] = [
        (
            |fixture| WRONG_PASSWORD.clone_into(&mut fixture.password),
            Outlook::Hopeless,
            "did not accept the user and the password",
        ),
        (
            |fixture| fixture.set("database", "missing"),
            Outlook::Hopeless,
            "There is no database missing.",
        ),
        (
            |fixture| fixture.set("schema", "missing"),
            Outlook::Hopeless,
            "There is no schema missing.",
        ),
        (
            |fixture| fixture.set("port", 1),
            Outlook::Retry,
            "The server cannot be reached.",
        ),
        (
            |fixture| fixture.gateway.harm(Harm::CutBefore("millrace")),
            Outlook::Retry,
            "The connection to the",
        ),
    ];
    for (spoil, outlook, sentence) in table {
        let mut fixture = Fixture::new().await;
        spoil(&mut fixture);
        let error = refusal(delivered(&fixture.postgres(), &run(0), "").await);
        assert_eq!(error.outlook, outlook, "{error}");
        assert!(error.message.contains(sentence), "{error}");
    }
}

#[tokio::test]
async fn rights_that_are_missing_are_named() {
    let table = [
        "REVOKE ALL ON SCHEMA public FROM PUBLIC, pg_database_owner",
        "CREATE TABLE events (a integer); ALTER TABLE events OWNER TO postgres",
    ];
    for take in table {
        let fixture = Fixture::new().await;
        fixture.admin.batch_execute(take).await.unwrap();
        let error = refusal(delivered(&fixture.postgres(), &run(0), "").await);
        assert_eq!(error.outlook, Outlook::Hopeless, "{error}");
    }
    let fixture = Fixture::new().await;
    delivered(&fixture.postgres(), &run(0), "").await.unwrap();
    let take = format!("ALTER TABLE events OWNER TO postgres; GRANT SELECT ON events TO {USER}");
    fixture.admin.batch_execute(&take).await.unwrap();
    let error = refusal(delivered(&fixture.postgres(), &run(0), &lines([row(1)])).await);
    assert_eq!(error.outlook, Outlook::Hopeless, "{error}");
    assert!(
        error.message.contains("SELECT, INSERT, UPDATE and DELETE"),
        "{error}"
    );
    // Who may not make tables needs none to be made.
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
async fn a_table_that_others_hold_is_not_waited_for_for_ever() {
    let mut fixture = Fixture::new().await;
    fixture.limits.lock = Duration::from_millis(20);
    delivered(&fixture.postgres(), &run(0), "").await.unwrap();
    let other = fixture.other().await;
    other
        .batch_execute("BEGIN; LOCK TABLE events IN SHARE MODE")
        .await
        .unwrap();
    let error = refusal(delivered(&fixture.postgres(), &run(0), &lines([row(1)])).await);
    assert_eq!(error.outlook, Outlook::Retry);
    assert!(error.message.contains("held the table"), "{error}");
    other.batch_execute("ROLLBACK").await.unwrap();
    delivered(&fixture.postgres(), &run(0), &lines([row(1)]))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_server_that_stalls_is_given_up_wherever_it_does() {
    type Limit = fn(&mut TimeLimits) -> &mut Duration;
    let table: [(&str, Limit); 3] = [
        ("millrace", |limits| &mut limits.connect),
        ("CREATE TEMPORARY", |limits| &mut limits.statement),
        ("COMMIT", |limits| &mut limits.publish),
    ];
    for (stall, limit) in table {
        let mut fixture = Fixture::new().await;
        *limit(&mut fixture.limits) = Duration::from_secs(1);
        fixture.gateway.harm(Harm::StallBefore(stall));
        let error = refusal(delivered(&fixture.postgres(), &run(0), &lines([row(1)])).await);
        assert!(fixture.gateway.is_done(), "{stall}");
        assert_eq!(error.outlook, Outlook::Retry, "{stall}: {error}");
    }
}

#[tokio::test]
async fn an_answer_without_an_end_is_given_up_before_it_takes_the_memory() {
    for answered in ["CREATE TEMPORARY", "COMMIT"] {
        let fixture = Fixture::new().await;
        fixture.gateway.harm(Harm::AnswerWithoutEnd(answered));
        let error = refusal(delivered(&fixture.postgres(), &run(0), &lines([row(1)])).await);
        assert!(fixture.gateway.is_done(), "{answered}");
        assert_eq!(error.outlook, Outlook::Retry, "{answered}: {error}");
        assert!(!error.message.contains("in time"), "{answered}: {error}");
    }
}

#[tokio::test]
async fn a_constraint_of_the_customers_is_named_and_their_rows_are_not() {
    let fixture = Fixture::new().await;
    delivered(&fixture.postgres(), &run(0), "").await.unwrap();
    fixture
        .execute("ALTER TABLE events ADD CONSTRAINT few CHECK (event <> 'page viewed')")
        .await;
    let error = refusal(delivered(&fixture.postgres(), &run(0), &lines([row(1)])).await);
    assert_eq!(error.outlook, Outlook::Hopeless);
    assert!(error.message.contains("the constraint few"), "{error}");
    assert!(!error.message.contains("page viewed"), "{error}");
}
