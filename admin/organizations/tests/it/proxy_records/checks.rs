//! Checks of proxy records: their times, their checkers and the status.

use super::{BASE, claimed, read};
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{Activity, ActivityScope, ProxyStatus};
use millrace_organizations::ProxyRecords;
use millrace_organizations::testing::fixture::Fixture;
use std::collections::BTreeSet;
use tokio::task::JoinSet;

on_both!(
    checks_change_the_status_and_log_the_change,
    a_record_is_due_at_once_and_then_less_and_less_often,
    only_one_checker_has_a_record_until_its_claim_lapses,
    a_failed_check_keeps_the_status_until_the_record_is_too_old,
);

const MINUTE: i64 = 60_000_000;
const WEEK: i64 = 7 * 24 * 60 * MINUTE;

async fn checks_change_the_status_and_log_the_change(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let (catalog, id, actor) = (&fixture.catalog, fixture.organization_id, &fixture.actor);
    let made = ProxyRecords::new(catalog)
        .create(actor, id, "e.acme.example", BASE)
        .await
        .unwrap();
    let record = made.record.id;
    let check = |found, message: Option<&str>| {
        let message = message.map(str::to_owned);
        async move {
            ProxyRecords::new(catalog)
                .record_check(record, Some(found), message)
                .await
        }
    };
    use ProxyStatus::{Erroring, Issuing, TimedOut, Valid, Waiting};
    // Time, result of the check, its message, status that follows, number of entries.
    let table = [
        (0, Waiting, Some("no CNAME"), Waiting, 2),
        (MINUTE, Waiting, Some("no CNAME"), Waiting, 2),
        (MINUTE, Issuing, Some("no TLS"), Issuing, 3),
        (WEEK, Issuing, Some("no TLS"), TimedOut, 4),
        (MINUTE, Valid, None, Valid, 5),
        (MINUTE, Valid, None, Valid, 5),
        (MINUTE, Issuing, Some("no TLS"), Erroring, 6),
        (MINUTE, Waiting, Some("no CNAME"), Erroring, 7),
        (MINUTE, Valid, None, Valid, 8),
    ];
    let mut changed_at = made.record.updated_at;
    for (pass, found, message, status, entries) in table {
        fixture.pass_micros(pass);
        let was = fixture.activity(ActivityScope::ProxyRecord).await.len();
        assert!(check(found, message).await.unwrap());
        if entries > was {
            changed_at = fixture.now().into();
        }
        let seen = read(&fixture, record).await;
        assert_eq!((seen.status, seen.message.as_deref()), (status, message));
        assert_eq!(seen.updated_at, changed_at);
        let log = fixture.activity(ActivityScope::ProxyRecord).await;
        assert_eq!(log.len(), entries, "{found:?} {message:?}");
    }
    let log = fixture.activity(ActivityScope::ProxyRecord).await;
    let changes = log[0].detail.changes.iter();
    let fields: Vec<_> = changes.map(|change| change.field.as_str()).collect();
    assert_eq!(
        (log[0].activity, fields),
        (Activity::Updated, vec!["status", "message"])
    );
    ProxyRecords::new(catalog)
        .delete(actor, id, record)
        .await
        .unwrap();
    assert!(!check(Waiting, None).await.unwrap());
}

async fn a_record_is_due_at_once_and_then_less_and_less_often(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let (catalog, id, actor) = (&fixture.catalog, fixture.organization_id, &fixture.actor);
    let made = ProxyRecords::new(catalog)
        .create(actor, id, "e.acme.example", BASE)
        .await
        .unwrap();
    let record = made.record.id;
    let due = ProxyRecords::new(catalog).claim_due(10).await.unwrap();
    assert_eq!(due, [made.record]);
    // Time without a change until a check, and pause after the check.
    for (pass, pause) in [
        (0, MINUTE),
        (5 * MINUTE, MINUTE),
        (295 * MINUTE, 30 * MINUTE),
        (WEEK, 60 * MINUTE),
    ] {
        fixture.pass_micros(pass);
        let checked =
            ProxyRecords::new(catalog).record_check(record, Some(ProxyStatus::Valid), None);
        assert!(checked.await.unwrap());
        let seen = read(&fixture, record).await;
        assert_eq!(seen.check_at.0 - fixture.now().0, pause, "after {pass}");
        fixture.pass_micros(pause - 1);
        assert_eq!(claimed(&fixture).await, 0, "after {pass}");
        fixture.pass_micros(1);
        assert_eq!(claimed(&fixture).await, 1, "after {pass}");
        fixture.pass_micros(-pause);
    }
}

async fn only_one_checker_has_a_record_until_its_claim_lapses(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let (catalog, id, actor) = (&fixture.catalog, fixture.organization_id, &fixture.actor);
    for number in 0..12 {
        let domain = format!("e{number}.acme.example");
        let made = ProxyRecords::new(catalog).create(actor, id, &domain, BASE);
        made.await.unwrap();
    }
    let mut claims = JoinSet::new();
    for _ in 0..12 {
        let catalog = catalog.clone();
        claims.spawn(async move { ProxyRecords::new(&catalog).claim_due(1).await.unwrap() });
    }
    let claimed_then = claims.join_all().await;
    let ids: Vec<_> = claimed_then.iter().flatten().map(|it| it.id).collect();
    let different: BTreeSet<_> = ids.iter().collect();
    assert_eq!(different.len(), ids.len(), "no record was claimed twice");
    assert_eq!(claimed(&fixture).await, (12 - ids.len()).min(10));
    fixture.pass_micros(2 * MINUTE);
    assert_eq!(claimed(&fixture).await, 10, "claims lapse");
}

async fn a_failed_check_keeps_the_status_until_the_record_is_too_old(database: TestDatabase) {
    use ProxyStatus::{Erroring, Issuing, TimedOut, Valid, Waiting};
    let fixture = Fixture::open(&database).await;
    let (catalog, id, actor) = (&fixture.catalog, fixture.organization_id, &fixture.actor);
    let made = ProxyRecords::new(catalog).create(actor, id, "e.acme.example", BASE);
    let record = made.await.unwrap().record.id;
    let silence = Some("no answer");
    // Time, result of the check, status that follows, pause until the next check, number of
    // entries.
    let table = [
        (0, None, Waiting, MINUTE, 2),
        (100 * MINUTE, None, Waiting, 10 * MINUTE, 2),
        (MINUTE, Some(Issuing), Issuing, MINUTE, 3),
        (MINUTE, None, Issuing, MINUTE, 4),
        (WEEK, None, TimedOut, MINUTE, 5),
        (WEEK, None, TimedOut, 60 * MINUTE, 5),
        (0, Some(Valid), Valid, MINUTE, 6),
        (0, None, Valid, MINUTE, 7),
        (WEEK, None, Valid, 60 * MINUTE, 7),
        (0, Some(Waiting), Erroring, MINUTE, 8),
        (0, None, Erroring, MINUTE, 9),
    ];
    for (pass, found, status, pause, entries) in table {
        fixture.pass_micros(pass);
        let message = silence.filter(|_| found.is_none()).map(str::to_owned);
        let kept = ProxyRecords::new(catalog).record_check(record, found, message.clone());
        assert!(kept.await.unwrap());
        let seen = read(&fixture, record).await;
        assert_eq!((seen.status, seen.message), (status, message));
        assert_eq!(seen.check_at.0 - fixture.now().0, pause, "{found:?}");
        let log = fixture.activity(ActivityScope::ProxyRecord).await;
        assert_eq!(log.len(), entries, "{found:?} {status:?}");
    }
}
