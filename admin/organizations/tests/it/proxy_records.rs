//! Proxy records: from a domain to a status.

use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{
    Activity, ActivityScope, Actor, ChangeError, Level, ProxyRecord, ProxyStatus,
};
use millrace_organizations::testing::fixture::{ALL, Fixture};
use millrace_organizations::{Members, NewUser, Organizations, ProxyRecords, Users};
use std::collections::BTreeSet;
use tokio::task::JoinSet;
use uuid::Uuid;

on_both!(
    a_domain_gets_a_target_of_its_own,
    an_organization_claims_a_domain_once,
    only_one_of_several_claims_is_valid_at_a_time,
    only_one_of_concurrently_checked_claims_becomes_valid,
    records_are_hidden_from_other_organizations,
    checks_change_the_status_and_log_the_change,
    a_record_is_due_at_once_and_then_less_and_less_often,
    only_one_checker_has_a_record_until_its_claim_lapses,
    an_actor_who_lost_access_meanwhile_changes_nothing,
    an_organization_has_at_most_100_records,
    a_failed_check_keeps_the_status_until_the_record_is_too_old,
);

const BASE: &str = "proxy.example";

fn blamed(error: &ChangeError) -> (Option<String>, &'static str) {
    let violation = error.violation().unwrap();
    (violation.field, violation.code)
}

async fn a_domain_gets_a_target_of_its_own(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let (catalog, id, actor) = (&fixture.catalog, fixture.organization_id, &fixture.actor);
    let made = ProxyRecords::new(catalog)
        .create(actor, id, "e.acme.example", BASE)
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
    let other = ProxyRecords::new(catalog)
        .create(actor, id, "f.acme.example", BASE)
        .await
        .unwrap();
    assert_ne!(other.record.target_cname, made.record.target_cname);
    let page = ProxyRecords::new(catalog).list(id, ALL).await.unwrap();
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

async fn an_organization_claims_a_domain_once(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let (catalog, actor) = (&fixture.catalog, &Actor::system());
    let make = |id, domain: String| async move {
        ProxyRecords::new(catalog)
            .create(actor, id, &domain, BASE)
            .await
    };
    let claimed = "e.acme.example".to_owned();
    let mut targets = BTreeSet::new();
    for id in [fixture.organization_id, fixture.foreign_id] {
        let made = make(id, claimed.clone()).await.unwrap();
        targets.insert(made.record.target_cname);
        let error = make(id, claimed.clone()).await.unwrap_err();
        assert_eq!(blamed(&error), (Some("domain".to_owned()), "unique"));
    }
    assert_eq!(targets.len(), 2, "each has to prove it");
    let longest = format!("{}.example", "a".repeat(56));
    make(fixture.organization_id, longest.clone())
        .await
        .unwrap();
    let error = make(fixture.organization_id, format!("a{longest}"))
        .await
        .unwrap_err();
    assert_eq!(blamed(&error), (Some("domain".to_owned()), "max_length"));
}

async fn only_one_of_several_claims_is_valid_at_a_time(database: TestDatabase) {
    use ProxyStatus::{Erroring, Issuing, Valid, Waiting};
    let fixture = Fixture::open(&database).await;
    let (catalog, actor) = (&fixture.catalog, &Actor::system());
    let make = |id| ProxyRecords::new(catalog).create(actor, id, "e.acme.example", BASE);
    let ours = make(fixture.organization_id).await.unwrap().record.id;
    let theirs = make(fixture.foreign_id).await.unwrap().record.id;
    let organization_of = |id| match id == ours {
        true => fixture.organization_id,
        false => fixture.foreign_id,
    };
    // Record whose check finds the status, and the statuses of both records then.
    let table = [
        (theirs, Waiting, Waiting, Waiting),
        (ours, Valid, Valid, Waiting),
        (theirs, Valid, Valid, Issuing),
        (theirs, Valid, Valid, Issuing),
        (ours, Valid, Valid, Issuing),
        (ours, Waiting, Erroring, Issuing),
        (theirs, Valid, Erroring, Valid),
        (ours, Valid, Erroring, Valid),
    ];
    for (number, (id, found, ours_then, theirs_then)) in table.into_iter().enumerate() {
        let kept = ProxyRecords::new(catalog)
            .record_check(id, Some(found), None)
            .await;
        assert!(kept.unwrap());
        for (id, status) in [(ours, ours_then), (theirs, theirs_then)] {
            let seen = ProxyRecords::new(catalog)
                .get(organization_of(id), id)
                .await;
            let seen = seen.unwrap().unwrap().record;
            assert_eq!(seen.status, status, "step {number}");
            let contested = id == theirs && (2..6).contains(&number) || id == ours && number == 7;
            let said = seen.message.unwrap_or_default();
            assert_eq!(said.contains("another organization"), contested, "{number}");
        }
    }
    // An organization without a record cannot create one while another's works.
    ProxyRecords::new(catalog)
        .delete(actor, fixture.organization_id, ours)
        .await
        .unwrap();
    let error = make(fixture.organization_id).await.unwrap_err();
    assert_eq!(blamed(&error), (Some("domain".to_owned()), "unique"));
    let lost = ProxyRecords::new(catalog).record_check(theirs, Some(Waiting), None);
    assert!(lost.await.unwrap());
    make(fixture.organization_id).await.unwrap();
}

async fn only_one_of_concurrently_checked_claims_becomes_valid(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let (catalog, actor) = (&fixture.catalog, &Actor::system());
    for round in 0..10 {
        let domain = format!("e{round}.acme.example");
        let mut made = Vec::new();
        for organization_id in [fixture.organization_id, fixture.foreign_id] {
            let record = ProxyRecords::new(catalog).create(actor, organization_id, &domain, BASE);
            made.push((organization_id, record.await.unwrap().record.id));
        }
        let mut checks = JoinSet::new();
        for (organization_id, id) in made {
            let catalog = catalog.clone();
            checks.spawn(async move {
                let found = Some(ProxyStatus::Valid);
                let kept = ProxyRecords::new(&catalog)
                    .record_check(id, found, None)
                    .await;
                assert!(kept.unwrap());
                let seen = ProxyRecords::new(&catalog).get(organization_id, id).await;
                seen.unwrap().unwrap().record.status == ProxyStatus::Valid
            });
        }
        let valid = checks.join_all().await;
        assert_eq!(valid.iter().filter(|is| **is).count(), 1, "round {round}");
    }
}

async fn records_are_hidden_from_other_organizations(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let (catalog, id, actor) = (&fixture.catalog, fixture.organization_id, &fixture.actor);
    let made = ProxyRecords::new(catalog)
        .create(actor, id, "e.acme.example", BASE)
        .await
        .unwrap();
    let record = made.record.id;
    let foreign = fixture.foreign_id;
    assert_eq!(
        ProxyRecords::new(catalog)
            .get(foreign, record)
            .await
            .unwrap(),
        None
    );
    let system = Actor::system();
    let refused = ProxyRecords::new(catalog)
        .delete(&system, foreign, record)
        .await;
    assert!(
        matches!(refused, Err(ChangeError::NotFound { .. })),
        "{refused:?}"
    );
    assert_eq!(
        ProxyRecords::new(catalog)
            .list(foreign, ALL)
            .await
            .unwrap()
            .count,
        0
    );
    ProxyRecords::new(catalog)
        .delete(actor, id, record)
        .await
        .unwrap();
    assert_eq!(
        ProxyRecords::new(catalog).get(id, record).await.unwrap(),
        None
    );
    ProxyRecords::new(catalog)
        .create(actor, id, "e.acme.example", BASE)
        .await
        .unwrap();
}

const MINUTE: i64 = 60_000_000;
const WEEK: i64 = 7 * 24 * 60 * MINUTE;

/// Reads a record.
async fn read(fixture: &Fixture, record: Uuid) -> ProxyRecord {
    let seen = ProxyRecords::new(&fixture.catalog)
        .get(fixture.organization_id, record)
        .await;
    seen.unwrap().unwrap().record
}

async fn claimed(fixture: &Fixture) -> usize {
    let claimed = ProxyRecords::new(&fixture.catalog).claim_due(10).await;
    claimed.unwrap().len()
}

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

async fn an_actor_who_lost_access_meanwhile_changes_nothing(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let (catalog, id, owner) = (&fixture.catalog, fixture.organization_id, &fixture.actor);
    let made = ProxyRecords::new(catalog)
        .create(owner, id, "e.acme.example", BASE)
        .await
        .unwrap();
    let new = NewUser {
        email: "mia@example.com".to_owned(),
        ..NewUser::default()
    };
    let mia = Users::new(catalog).create(new).await.unwrap();
    let actor = Actor::user(&mia, None);
    for level in [None, Some(Level::Member), Some(Level::Administrator)] {
        match level {
            None => (),
            Some(Level::Member) => drop(catalog.add_member(id, mia.id, Level::Member).await),
            Some(level) => {
                let set = Members::new(catalog).set_level(owner, id, mia.uuid, level);
                set.await.unwrap();
            }
        }
        let new = ProxyRecords::new(catalog).create(&actor, id, "f.acme.example", BASE);
        let new = new.await.map(drop);
        let deleted = ProxyRecords::new(catalog).delete(&actor, id, made.record.id);
        for outcome in [new, deleted.await] {
            let refused = matches!(outcome, Err(ChangeError::Forbidden(_)));
            assert_eq!(refused, level < Some(Level::Administrator), "{outcome:?}");
        }
    }
    Organizations::new(catalog).delete(owner, id).await.unwrap();
    let late = ProxyRecords::new(catalog).create(owner, id, "g.acme.example", BASE);
    let late = late.await;
    assert!(
        matches!(late, Err(ChangeError::NotFound { .. })),
        "{late:?}"
    );
}

async fn an_organization_has_at_most_100_records(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let (catalog, actor) = (&fixture.catalog, &Actor::system());
    let make = |id, number: u32| async move {
        let domain = format!("e{number}.acme.example");
        ProxyRecords::new(catalog)
            .create(actor, id, &domain, BASE)
            .await
    };
    let mut last = None;
    for number in 0..100 {
        last = Some(make(fixture.organization_id, number).await.unwrap());
    }
    let refused = make(fixture.organization_id, 100).await;
    let forbidden = matches!(refused, Err(ChangeError::Forbidden(_)));
    assert!(forbidden, "{refused:?}");
    make(fixture.foreign_id, 100).await.unwrap();
    let last = last.unwrap().record.id;
    let deleted = ProxyRecords::new(catalog).delete(actor, fixture.organization_id, last);
    deleted.await.unwrap();
    make(fixture.organization_id, 101).await.unwrap();
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
