//! Proxy records: from a domain to a status.

use crate::fixture::{ALL, Fixture};
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{Activity, ActivityScope, ChangeError, ProxyStatus, UtcTime};

on_both!(
    a_domain_gets_a_target_of_its_own,
    a_domain_is_taken_once_whoever_asks,
    records_are_their_organizations_only,
    checks_move_the_status_and_are_logged_when_they_do,
);

const BASE: &str = "proxy.example";

fn blamed(error: &ChangeError) -> (Option<String>, &'static str) {
    let violation = error.violation().unwrap();
    (violation.field, violation.code)
}

async fn a_domain_gets_a_target_of_its_own(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let (catalog, id, actor) = (&fixture.catalog, fixture.organization_id, &fixture.actor);
    let made = catalog
        .create_proxy_record(actor, id, "e.acme.example", BASE)
        .await
        .unwrap();
    assert_eq!(made.record.status, ProxyStatus::Waiting);
    assert_eq!(made.created_by.unwrap().email, "owner@localhost");
    let label = made
        .record
        .target_cname
        .strip_suffix(".proxy.example")
        .unwrap();
    assert!(
        label.len() == 20 && label.bytes().all(|b| b.is_ascii_hexdigit()),
        "{label}"
    );
    let other = catalog
        .create_proxy_record(actor, id, "f.acme.example", BASE)
        .await
        .unwrap();
    assert_ne!(other.record.target_cname, made.record.target_cname);
    let page = catalog.list_proxy_records(id, ALL).await.unwrap();
    let domains: Vec<_> = page
        .rows
        .iter()
        .map(|seen| seen.record.domain.as_str())
        .collect();
    assert_eq!(
        (page.count, &domains[..]),
        (2, &["e.acme.example", "f.acme.example"][..])
    );
}

async fn a_domain_is_taken_once_whoever_asks(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let (catalog, actor) = (&fixture.catalog, &fixture.actor);
    let make = |id, domain: String| async move {
        catalog.create_proxy_record(actor, id, &domain, BASE).await
    };
    let taken = "e.acme.example".to_owned();
    make(fixture.organization_id, taken.clone()).await.unwrap();
    let error = make(fixture.foreign_id, taken).await.unwrap_err();
    assert_eq!(blamed(&error), (Some("domain".to_owned()), "unique"));
    let longest = format!("{}.example", "a".repeat(56));
    make(fixture.organization_id, longest.clone())
        .await
        .unwrap();
    let error = make(fixture.organization_id, format!("a{longest}"))
        .await
        .unwrap_err();
    assert_eq!(blamed(&error), (Some("domain".to_owned()), "max_length"));
}

async fn records_are_their_organizations_only(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let (catalog, id, actor) = (&fixture.catalog, fixture.organization_id, &fixture.actor);
    let made = catalog
        .create_proxy_record(actor, id, "e.acme.example", BASE)
        .await
        .unwrap();
    let record = made.record.id;
    let foreign = fixture.foreign_id;
    assert_eq!(catalog.proxy_record(foreign, record).await.unwrap(), None);
    let refused = catalog.delete_proxy_record(actor, foreign, record).await;
    assert!(
        matches!(refused, Err(ChangeError::NotFound { .. })),
        "{refused:?}"
    );
    assert_eq!(
        catalog
            .list_proxy_records(foreign, ALL)
            .await
            .unwrap()
            .count,
        0
    );
    catalog
        .delete_proxy_record(actor, id, record)
        .await
        .unwrap();
    assert_eq!(catalog.proxy_record(id, record).await.unwrap(), None);
    catalog
        .create_proxy_record(actor, id, "e.acme.example", BASE)
        .await
        .unwrap();
}

async fn checks_move_the_status_and_are_logged_when_they_do(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let (catalog, id, actor) = (&fixture.catalog, fixture.organization_id, &fixture.actor);
    let made = catalog
        .create_proxy_record(actor, id, "e.acme.example", BASE)
        .await
        .unwrap();
    let record = made.record.id;
    let due = catalog.proxy_records_due(10).await.unwrap();
    assert_eq!(due, [made.record], "a new record is looked at at once");
    let later = UtcTime(fixture.now().0 + 60_000_000);
    let message = || Some("no CNAME".to_owned());
    let waiting = ProxyStatus::Waiting;
    for _ in 0..2 {
        assert!(
            catalog
                .set_proxy_status(record, waiting, message(), later)
                .await
                .unwrap()
        );
        assert!(catalog.proxy_records_due(10).await.unwrap().is_empty());
    }
    fixture.pass_micros(60_000_000);
    assert_eq!(catalog.proxy_records_due(10).await.unwrap().len(), 1);
    catalog
        .set_proxy_status(record, ProxyStatus::Valid, None, later)
        .await
        .unwrap();
    let seen = catalog
        .proxy_record(id, record)
        .await
        .unwrap()
        .unwrap()
        .record;
    assert_eq!((seen.status, seen.message), (ProxyStatus::Valid, None));
    assert_eq!(seen.updated_at, later);
    let entries = fixture.activity(ActivityScope::ProxyRecord).await;
    let deeds: Vec<_> = entries.iter().map(|entry| entry.activity).collect();
    assert_eq!(
        deeds,
        [Activity::Updated, Activity::Updated, Activity::Created]
    );
    let fields: Vec<_> = entries[0]
        .detail
        .changes
        .iter()
        .map(|c| c.field.as_str())
        .collect();
    assert_eq!(fields, ["status", "message"]);
    catalog
        .delete_proxy_record(actor, id, record)
        .await
        .unwrap();
    assert!(
        !catalog
            .set_proxy_status(record, waiting, None, later)
            .await
            .unwrap()
    );
}
