//! Proxy records: from a domain to a status.

mod checks;

use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{Actor, ChangeError, Level, ProxyRecord, ProxyStatus};
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
    an_actor_who_lost_access_meanwhile_changes_nothing,
    an_organization_has_at_most_100_records,
);

const BASE: &str = "proxy.example";

fn violation(error: &ChangeError) -> (Option<String>, &'static str) {
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
        assert_eq!(violation(&error), (Some("domain".to_owned()), "unique"));
    }
    assert_eq!(targets.len(), 2, "each has to prove it");
    let longest = format!("{}.example", "a".repeat(56));
    make(fixture.organization_id, longest.clone())
        .await
        .unwrap();
    let error = make(fixture.organization_id, format!("a{longest}"))
        .await
        .unwrap_err();
    assert_eq!(violation(&error), (Some("domain".to_owned()), "max_length"));
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
    assert_eq!(violation(&error), (Some("domain".to_owned()), "unique"));
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
