//! Tests of the steps of a destination's test.

use super::fixture::{Fixture, WRONG_PASSWORD, refusal};
use millrace_exports::destination::TestStep::{
    self, Authenticate, Delete, Find, Reach, Read, Write,
};

const TABLES: &str =
    "SELECT count(*) FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')";

#[tokio::test]
async fn all_steps_succeed_and_leave_nothing() {
    let fixture = Fixture::new().await;
    for destination in fixture.all().await {
        // Twice, as the test may be repeated.
        for _ in 0..2 {
            for step in destination.test_steps() {
                destination.test(*step).await.unwrap();
                let is_there = matches!(step, Write | Read);
                let tables = if is_there { "1" } else { "0" };
                assert_eq!(fixture.text(TABLES).await, tables, "{step:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_test_drops_neither_a_table_of_the_customer_nor_that_of_another_test() {
    let fixture = Fixture::new().await;
    let own = "CREATE TABLE events_millrace_test (other text)";
    fixture.execute(own).await;
    let tests = [fixture.all().await, fixture.all().await];
    for (step, tables) in [(Write, "5"), (Read, "5"), (Delete, "1")] {
        for destination in tests.iter().flatten() {
            destination.test(step).await.unwrap();
        }
        assert_eq!(fixture.text(TABLES).await, tables, "{step:?}");
    }
    let left = "SELECT count(*) FROM events_millrace_test WHERE other IS NULL";
    assert_eq!(fixture.text(left).await, "0");
}

#[tokio::test]
async fn the_first_failing_step_has_the_error() {
    type Spoil = fn(&mut Fixture);
    let table: [(Spoil, TestStep); 5] = [
        (|fixture| fixture.set("port", 1), Reach),
        (
            |fixture| WRONG_PASSWORD.clone_into(&mut fixture.password),
            Authenticate,
        ),
        (|fixture| fixture.set("database", "missing"), Find),
        (|fixture| fixture.set("schema", "missing"), Find),
        (|fixture| fixture.set("schema", "pg_catalog"), Write),
    ];
    for (spoil, expected) in table {
        let mut fixture = Fixture::new().await;
        spoil(&mut fixture);
        for destination in [&fixture.postgres() as &dyn millrace_exports::destination::Destination]
        {
            for step in [Reach, Authenticate, Find, Write, Read, Delete] {
                let outcome = destination.test(step).await;
                if step == expected {
                    refusal(outcome);
                    break;
                }
                outcome.unwrap();
            }
        }
    }
}

#[tokio::test]
async fn a_table_that_events_do_not_fit_into_fails_the_test() {
    let fixture = Fixture::new().await;
    fixture.execute("CREATE TABLE events (id integer)").await;
    let destination = fixture.postgres();
    let error = refusal(millrace_exports::destination::Destination::test(&destination, Find).await);
    assert!(error.message.contains("it has no uuid"), "{error}");
}
