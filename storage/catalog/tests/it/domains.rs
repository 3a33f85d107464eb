//! Domains: claims, proofs, logins.

use crate::crowd::{numbers, random_uuid};
use crate::stand::{FIRST, START, Stand, actor, blame, field};
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{
    Activity, ActivityScope, Actor, ChangeError, Domain, DomainChange, Level, NewDomain,
    PageRequest, UtcTime,
};
use uuid::Uuid;

on_both!(
    a_claim_has_a_challenge_and_nothing_else,
    what_is_no_domain_is_refused,
    a_domain_is_proved_once_and_by_one_organization,
    of_parallel_proofs_one_wins,
    a_proof_of_another_name_proves_nothing,
    logins_wait_for_the_proof,
    a_verified_name_is_final,
    changes_are_logged_and_what_is_the_same_is_none,
    administrators_change_domains_and_members_do_not,
    domains_are_their_organizations_only,
    a_list_of_1000_domains_takes_three_statements,
);

async fn claim(stand: &Stand, organization: Uuid, name: &str) -> Result<Domain, ChangeError> {
    let (system, new) = (Actor::system(), NewDomain::named(name));
    let catalog = &stand.catalog;
    catalog.create_domain(&system, organization, new).await
}

async fn verify(stand: &Stand, domain: &Domain) -> Result<Domain, ChangeError> {
    let catalog = &stand.catalog;
    let (here, id) = (domain.organization_id, domain.id);
    catalog.domain_to_verify(here, id).await?;
    let system = Actor::system();
    catalog
        .verify_domain(&system, here, id, &domain.domain)
        .await
}

async fn change(
    stand: &Stand,
    domain: &Domain,
    change: DomainChange,
) -> Result<Domain, ChangeError> {
    let catalog = &stand.catalog;
    let (here, id) = (domain.organization_id, domain.id);
    catalog.update_domain(&stand.owner, here, id, change).await
}

fn renamed(name: &str) -> DomainChange {
    DomainChange {
        domain: Some(name.to_owned()),
        ..DomainChange::default()
    }
}

fn enforced(sso: &str) -> DomainChange {
    DomainChange {
        sso_enforcement: Some(sso.to_owned()),
        ..DomainChange::default()
    }
}

fn jit(enabled: bool) -> DomainChange {
    DomainChange {
        jit_provisioning_enabled: Some(enabled),
        ..DomainChange::default()
    }
}

async fn other_organization(stand: &Stand) -> Uuid {
    let made = stand
        .catalog
        .create_organization(&stand.owner, "Other", Some(stand.ann.id));
    made.await.unwrap().id
}

async fn a_claim_has_a_challenge_and_nothing_else(database: TestDatabase) {
    let stand = Stand::new(&database).await;
    let here = stand.organization;
    let new = NewDomain {
        saml_entity_id: Some(" https://idp.example ".to_owned()),
        saml_acs_url: Some(" ".to_owned()),
        ..NewDomain::named("acme.example")
    };
    let made = stand.catalog.create_domain(&stand.owner, here, new).await;
    let made = made.unwrap();
    assert_eq!(made.domain, "acme.example");
    assert_eq!(made.verification_challenge.len(), 43);
    assert_eq!((made.verified_at, made.is_verified()), (None, false));
    assert_eq!(
        (made.jit_provisioning_enabled, &*made.sso_enforcement),
        (false, "")
    );
    assert_eq!(made.saml_entity_id.as_deref(), Some("https://idp.example"));
    assert_eq!((&made.saml_acs_url, made.has_saml()), (&None, false));
    let second = claim(&stand, here, "second.example").await.unwrap();
    assert_ne!(second.verification_challenge, made.verification_challenge);
    let listed = stand.catalog.domains_of(here, FIRST).await.unwrap();
    assert_eq!(listed.rows, [made.clone(), second]);
    let entries = stand.entries(ActivityScope::Domain).await;
    let entry = entries.last().unwrap();
    assert_eq!(
        (entry.activity, &*entry.item_id, &*entry.detail.name),
        (Activity::Created, &*made.id.to_string(), "acme.example")
    );
}

async fn what_is_no_domain_is_refused(database: TestDatabase) {
    let stand = Stand::new(&database).await;
    let long = "a".repeat(513);
    let saml = |entity: &str, url: &str| NewDomain {
        saml_entity_id: Some(entity.to_owned()),
        saml_acs_url: Some(url.to_owned()),
        ..NewDomain::named("acme.example")
    };
    let table = [
        (NewDomain::named(" "), field("blank", "domain")),
        (
            NewDomain::named(&"a".repeat(129)),
            field("max_length", "domain"),
        ),
        (saml(&long, ""), field("max_length", "saml_entity_id")),
        (saml("", &long), field("max_length", "saml_acs_url")),
    ];
    for (new, expected) in table {
        let made = stand
            .catalog
            .create_domain(&stand.owner, stand.organization, new);
        assert_eq!(blame(made.await), expected);
    }
}

async fn a_domain_is_proved_once_and_by_one_organization(database: TestDatabase) {
    let stand = Stand::new(&database).await;
    let (here, there) = (stand.organization, other_organization(&stand).await);
    let unique = || field("unique", "domain");
    let ours = claim(&stand, here, "acme.example").await.unwrap();
    assert_eq!(blame(claim(&stand, here, "acme.example").await), unique());
    let theirs = claim(&stand, there, "acme.example").await.unwrap();
    let another = claim(&stand, there, "another.example").await.unwrap();
    let taken = change(&stand, &another, renamed("acme.example")).await;
    assert_eq!(blame(taken), unique());

    stand.clock.set(millrace_rows::Micros(START.0 + 5));
    let proved = verify(&stand, &ours).await.unwrap();
    assert_eq!(proved.verified_at, Some(UtcTime(START.0 + 5)));
    assert_eq!(
        blame(verify(&stand, &ours).await),
        ("already_verified", None)
    );
    let system = Actor::system();
    let again = stand
        .catalog
        .verify_domain(&system, here, ours.id, &ours.domain);
    assert_eq!(blame(again.await), ("already_verified", None));

    assert_eq!(blame(verify(&stand, &theirs).await), unique());
    let late = stand
        .catalog
        .verify_domain(&system, there, theirs.id, &theirs.domain);
    assert_eq!(blame(late.await), unique());
    let kept = stand
        .catalog
        .domain(there, theirs.id)
        .await
        .unwrap()
        .unwrap();
    assert!(!kept.is_verified());
    let taken = change(&stand, &another, renamed("acme.example")).await;
    assert_eq!(blame(taken), unique());
    let third = stand
        .catalog
        .create_organization(&stand.owner, "Third", None)
        .await;
    let claimed = claim(&stand, third.unwrap().id, "acme.example").await;
    assert_eq!(blame(claimed), unique());

    let deleted = stand.catalog.delete_domain(&stand.owner, here, ours.id);
    deleted.await.unwrap();
    assert!(verify(&stand, &theirs).await.unwrap().is_verified());
}

async fn of_parallel_proofs_one_wins(database: TestDatabase) {
    let stand = Stand::new(&database).await;
    let mut claims = Vec::new();
    for number in 0..8 {
        let name = format!("Organization {number}");
        let made = stand
            .catalog
            .create_organization(&stand.owner, &*name, None)
            .await;
        claims.push(
            claim(&stand, made.unwrap().id, "acme.example")
                .await
                .unwrap(),
        );
    }
    let proofs: Vec<_> = claims
        .into_iter()
        .map(|claim| {
            let catalog = stand.catalog.clone();
            tokio::spawn(async move {
                let (there, id) = (claim.organization_id, claim.id);
                let system = Actor::system();
                catalog
                    .verify_domain(&system, there, id, "acme.example")
                    .await
            })
        })
        .collect();
    let mut won = 0;
    for proof in proofs {
        match proof.await.unwrap() {
            Ok(_) => won += 1,
            refused => assert_eq!(blame(refused), field("unique", "domain")),
        }
    }
    assert_eq!(won, 1);
}

async fn a_proof_of_another_name_proves_nothing(database: TestDatabase) {
    let stand = Stand::new(&database).await;
    let claim = claim(&stand, stand.organization, "acme.example")
        .await
        .unwrap();
    let asked = stand.catalog.domain_to_verify(stand.organization, claim.id);
    assert_eq!(asked.await.unwrap().domain, "acme.example");
    let changed = change(&stand, &claim, renamed("bank.example"))
        .await
        .unwrap();
    assert_eq!(changed.verification_challenge, claim.verification_challenge);
    let (owner, here) = (&stand.owner, stand.organization);
    let proved = stand
        .catalog
        .verify_domain(owner, here, claim.id, "acme.example");
    assert_eq!(proved.await.unwrap(), changed);
}

async fn logins_wait_for_the_proof(database: TestDatabase) {
    let stand = Stand::new(&database).await;
    let claim = claim(&stand, stand.organization, "acme.example")
        .await
        .unwrap();
    let text = |text: &str| Some(Some(text.to_owned()));
    let early = [
        (jit(true), Some("jit_provisioning_enabled")),
        (enforced("saml"), Some("sso_enforcement")),
        (jit(false), None),
        (enforced(""), None),
        (renamed("acme.example"), None),
    ];
    for (wanted, blamed) in early {
        let changed = change(&stand, &claim, wanted).await;
        match blamed {
            Some(name) => assert_eq!(blame(changed), field("verification_required", name)),
            None => assert_eq!(changed.unwrap(), claim),
        }
    }
    let saml = DomainChange {
        saml_entity_id: text("https://idp.example"),
        saml_acs_url: text("https://idp.example/acs"),
        saml_x509_cert: text("MIIB"),
        ..DomainChange::default()
    };
    assert!(change(&stand, &claim, saml).await.unwrap().has_saml());
    let emptied = DomainChange {
        saml_x509_cert: Some(None),
        ..DomainChange::default()
    };
    assert!(!change(&stand, &claim, emptied).await.unwrap().has_saml());
    verify(&stand, &claim).await.unwrap();
    for sso in ["saml", "google-oauth2", "github", "gitlab", ""] {
        let changed = change(&stand, &claim, enforced(sso)).await.unwrap();
        assert_eq!(changed.sso_enforcement, sso);
    }
    let bogus = change(&stand, &claim, enforced("facebook")).await;
    assert_eq!(blame(bogus), field("invalid_choice", "sso_enforcement"));
    let changed = change(&stand, &claim, jit(true)).await.unwrap();
    assert!(changed.jit_provisioning_enabled);
}

async fn a_verified_name_is_final(database: TestDatabase) {
    let stand = Stand::new(&database).await;
    let claim = claim(&stand, stand.organization, "acme.example")
        .await
        .unwrap();
    let claim = change(&stand, &claim, renamed("b.example")).await.unwrap();
    assert_eq!(claim.domain, "b.example");
    let proved = verify(&stand, &claim).await.unwrap();
    let refused = change(&stand, &proved, renamed("c.example")).await;
    assert_eq!(blame(refused), field("invalid_input", "domain"));
    let same = change(&stand, &proved, renamed("b.example")).await;
    assert_eq!(same.unwrap(), proved);
}

async fn changes_are_logged_and_what_is_the_same_is_none(database: TestDatabase) {
    let stand = Stand::new(&database).await;
    let claim = claim(&stand, stand.organization, "acme.example")
        .await
        .unwrap();
    verify(&stand, &claim).await.unwrap();
    for _ in 0..2 {
        let both = DomainChange {
            jit_provisioning_enabled: Some(true),
            ..enforced("github")
        };
        change(&stand, &claim, both).await.unwrap();
    }
    let deleted = stand
        .catalog
        .delete_domain(&stand.owner, stand.organization, claim.id);
    deleted.await.unwrap();
    let entries = stand.entries(ActivityScope::Domain).await;
    let told: Vec<_> = entries
        .iter()
        .map(|entry| {
            let changes = entry.detail.changes.iter();
            let fields: Vec<_> = changes.map(|change| change.field.as_str()).collect();
            (entry.activity, fields.join(" "))
        })
        .collect();
    let expected = [
        (Activity::Deleted, "domain"),
        (
            Activity::Updated,
            "jit_provisioning_enabled sso_enforcement",
        ),
        (Activity::Updated, "is_verified"),
        (Activity::Created, "domain"),
    ];
    assert_eq!(
        told,
        expected.map(|(activity, fields)| (activity, fields.to_owned()))
    );
    let text = serde_json::to_string(&entries[3].detail).unwrap();
    assert!(!text.contains(&claim.verification_challenge), "{text}");
}

async fn administrators_change_domains_and_members_do_not(database: TestDatabase) {
    let stand = Stand::new(&database).await;
    let (catalog, here) = (&stand.catalog, stand.organization);
    let claimed = claim(&stand, here, "acme.example").await.unwrap();
    let stranger = stand.user("stranger").await;
    for (name, level) in [("member", Some(Level::Member)), ("nobody", None)] {
        let user = stand.user(name).await;
        if let Some(level) = level {
            catalog.add_member(here, user.id, level).await.unwrap();
        }
        let by = actor(&user);
        let forbidden = ("permission_denied", None);
        let made = catalog.create_domain(&by, here, NewDomain::named("b.example"));
        assert_eq!(blame(made.await), forbidden, "{name}");
        let changed = catalog.update_domain(&by, here, claimed.id, renamed("b.example"));
        assert_eq!(blame(changed.await), forbidden, "{name}");
        let proved = catalog.verify_domain(&by, here, claimed.id, "acme.example");
        assert_eq!(blame(proved.await), forbidden, "{name}");
        let deleted = catalog.delete_domain(&by, here, claimed.id);
        assert_eq!(blame(deleted.await), forbidden, "{name}");
    }
    catalog
        .add_member(here, stranger.id, Level::Administrator)
        .await
        .unwrap();
    let by = actor(&stranger);
    let deleted = catalog.delete_domain(&by, here, claimed.id);
    deleted.await.unwrap();
}

async fn domains_are_their_organizations_only(database: TestDatabase) {
    let stand = Stand::new(&database).await;
    let (catalog, owner) = (&stand.catalog, &stand.owner);
    let there = other_organization(&stand).await;
    let ours = claim(&stand, stand.organization, "acme.example")
        .await
        .unwrap();
    let missing = ("not_found", None);
    assert_eq!(catalog.domain(there, ours.id).await.unwrap(), None);
    assert_eq!(
        blame(catalog.domain_to_verify(there, ours.id).await),
        missing
    );
    let changed = catalog.update_domain(owner, there, ours.id, jit(false));
    assert_eq!(blame(changed.await), missing);
    let proved = catalog.verify_domain(owner, there, ours.id, &ours.domain);
    assert_eq!(blame(proved.await), missing);
    assert_eq!(
        blame(catalog.delete_domain(owner, there, ours.id).await),
        missing
    );
    assert_eq!(catalog.domains_of(there, FIRST).await.unwrap().count, 0);
    catalog
        .delete_organization(owner, stand.organization)
        .await
        .unwrap();
    assert_eq!(
        catalog.domain(stand.organization, ours.id).await.unwrap(),
        None
    );
}

async fn a_list_of_1000_domains_takes_three_statements(database: TestDatabase) {
    let stand = Stand::new(&database).await;
    let (numbers, uuid) = (numbers(1000), random_uuid(&database));
    let insert = format!(
        "INSERT INTO organization_domains (id, organization_id, domain, verification_challenge, \
         jit_provisioning_enabled, sso_enforcement, created_at, updated_at) {numbers} \
         SELECT {uuid}, organizations.id, 'd' || i || '.example', 'x', false, '', 1 + i / 2, 1 \
         FROM n, organizations"
    );
    database.execute(&insert).await.unwrap();
    let (catalog, sent) = stand.catalog.counted();
    let mut seen = Vec::new();
    for offset in [0, 400, 800] {
        let page = PageRequest { limit: 400, offset };
        let part = catalog.domains_of(stand.organization, page).await.unwrap();
        let statements = sent.take();
        assert!(statements.len() <= 3, "{statements:#?}");
        assert_eq!(part.count, 1000);
        seen.extend(part.rows);
    }
    assert_eq!(seen.len(), 1000);
    assert!(seen.is_sorted_by_key(|domain| (domain.created_at, domain.id)));
}
