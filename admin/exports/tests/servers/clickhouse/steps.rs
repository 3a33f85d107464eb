//! Steps of a destination's test.

use super::fixture::Fixture;
use millrace_embedded::testing::gateway_with_page;
use millrace_exports::ExportErrorKind;
use millrace_exports::destination::{Destination as _, TestStep};

#[tokio::test(flavor = "multi_thread")]
async fn each_step_succeeds_and_leaves_nothing() {
    let fixture = Fixture::new("destination_steps").await;
    let destination = fixture.opened().unwrap();
    for step in destination.test_steps() {
        destination.test(*step).await.unwrap();
    }
    assert_eq!(fixture.tables().await, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_step_has_its_reason() {
    let mut fixture = Fixture::new("destination_failed_steps").await;
    fixture.database = "destination_nowhere".to_owned();
    let error = fixture.opened().unwrap().test(TestStep::Find).await;
    let error = error.unwrap_err();
    assert!(error.message.contains("no database"), "{error}");

    fixture.password = "canary".to_owned();
    let error = fixture.opened().unwrap().test(TestStep::Authenticate).await;
    let error = error.unwrap_err();
    assert_eq!(error.kind, ExportErrorKind::Permanent, "{error}");
    assert!(error.message.contains("did not accept"), "{error}");
    assert!(!error.message.contains("canary"), "{error}");

    fixture.url = gateway_with_page("<h1>Welcome</h1>");
    let error = fixture.opened().unwrap().test(TestStep::Authenticate).await;
    let error = error.unwrap_err();
    assert_eq!(error.kind, ExportErrorKind::Permanent, "{error}");
    assert!(error.message.contains("not ClickHouse"), "{error}");
}
