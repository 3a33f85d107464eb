//! Domains: claims, proofs, login rules.

use millrace_catalog::testing::{TestDatabase, numbers, random_uuid};
use millrace_catalog::{
    Activity, ActivityScope, Actor, ChangeError, Domain, Level, PageRequest, Patch, UtcTime,
};
use millrace_organizations::testing::test_env::{FIRST, START, TestEnv, actor, field, violation};
use millrace_organizations::{DomainChange, Domains, NewDomain, Organizations};
use uuid::Uuid;

on_both!(
    a_claimed_domain_has_a_challenge_and_no_login_rules,
    malformed_domains_are_refused,
    a_domain_is_proved_once_and_by_one_organization,
    only_one_of_parallel_proofs_wins,
    a_proof_for_the_previous_name_proves_nothing,
    login_rules_wait_for_the_proof,
    a_verified_domain_cannot_be_renamed,
    changes_are_logged_and_unchanged_values_are_not,
    administrators_change_domains_and_members_do_not,
    domains_are_hidden_from_other_organizations,
    a_list_of_1000_domains_takes_three_statements,
);

async fn claim(env: &TestEnv, organization: Uuid, name: &str) -> Result<Domain, ChangeError> {
    let (system, new) = (Actor::system(), NewDomain::named(name));
    let catalog = &env.catalog;
    Domains::new(catalog)
        .create(&system, organization, new)
        .await
}

async fn verify(env: &TestEnv, domain: &Domain) -> Result<Domain, ChangeError> {
    let catalog = &env.catalog;
    let (here, id) = (domain.organization_id, domain.id);
    Domains::new(catalog).get_unproved(here, id).await?;
    let system = Actor::system();
    Domains::new(catalog)
        .verify(&system, here, id, &domain.domain)
        .await
}

async fn change(
    env: &TestEnv,
    domain: &Domain,
    change: DomainChange,
) -> Result<Domain, ChangeError> {
    let catalog = &env.catalog;
    let (here, id) = (domain.organization_id, domain.id);
    Domains::new(catalog)
        .update(&env.owner, here, id, change)
        .await
}

fn renamed(name: &str) -> DomainChange {
    DomainChange {
        domain: Patch::Value(name.to_owned()),
        ..DomainChange::default()
    }
}

fn enforced(sso: &str) -> DomainChange {
    DomainChange {
        sso_enforcement: Patch::Value(sso.to_owned()),
        ..DomainChange::default()
    }
}

fn jit(enabled: bool) -> DomainChange {
    DomainChange {
        jit_provisioning_enabled: Patch::Value(enabled),
        ..DomainChange::default()
    }
}

async fn other_organization(env: &TestEnv) -> Uuid {
    let made = Organizations::new(&env.catalog).create(&env.owner, "Other", Some(env.ann.id));
    made.await.unwrap().id
}

async fn a_claimed_domain_has_a_challenge_and_no_login_rules(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let here = env.organization;
    let new = NewDomain {
        saml_entity_id: Some(" https://idp.example ".to_owned()),
        saml_acs_url: Some(" ".to_owned()),
        ..NewDomain::named("acme.example")
    };
    let made = Domains::new(&env.catalog)
        .create(&env.owner, here, new)
        .await;
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
    let second = claim(&env, here, "second.example").await.unwrap();
    assert_ne!(second.verification_challenge, made.verification_challenge);
    let listed = Domains::new(&env.catalog).list(here, FIRST).await.unwrap();
    assert_eq!(listed.rows, [made.clone(), second]);
    let entries = env.entries(ActivityScope::Domain).await;
    let entry = entries.last().unwrap();
    assert_eq!(
        (entry.activity, &*entry.item_id, &*entry.detail.name),
        (Activity::Created, &*made.id.to_string(), "acme.example")
    );
}

async fn malformed_domains_are_refused(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
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
        let made = Domains::new(&env.catalog).create(&env.owner, env.organization, new);
        assert_eq!(violation(made.await), expected);
    }
}

async fn a_domain_is_proved_once_and_by_one_organization(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let (here, there) = (env.organization, other_organization(&env).await);
    let unique = || field("unique", "domain");
    let ours = claim(&env, here, "acme.example").await.unwrap();
    assert_eq!(violation(claim(&env, here, "acme.example").await), unique());
    let theirs = claim(&env, there, "acme.example").await.unwrap();
    let another = claim(&env, there, "another.example").await.unwrap();
    let taken = change(&env, &another, renamed("acme.example")).await;
    assert_eq!(violation(taken), unique());

    env.clock.set(millrace_rows::Micros(START.0 + 5));
    let proved = verify(&env, &ours).await.unwrap();
    assert_eq!(proved.verified_at, Some(UtcTime(START.0 + 5)));
    assert_eq!(
        violation(verify(&env, &ours).await),
        ("already_verified", None)
    );
    let system = Actor::system();
    let again = Domains::new(&env.catalog).verify(&system, here, ours.id, &ours.domain);
    assert_eq!(violation(again.await), ("already_verified", None));

    assert_eq!(violation(verify(&env, &theirs).await), unique());
    let late = Domains::new(&env.catalog).verify(&system, there, theirs.id, &theirs.domain);
    assert_eq!(violation(late.await), unique());
    let kept = Domains::new(&env.catalog)
        .get(there, theirs.id)
        .await
        .unwrap()
        .unwrap();
    assert!(!kept.is_verified());
    let taken = change(&env, &another, renamed("acme.example")).await;
    assert_eq!(violation(taken), unique());
    let third = Organizations::new(&env.catalog)
        .create(&env.owner, "Third", None)
        .await;
    let claimed = claim(&env, third.unwrap().id, "acme.example").await;
    assert_eq!(violation(claimed), unique());

    let deleted = Domains::new(&env.catalog).delete(&env.owner, here, ours.id);
    deleted.await.unwrap();
    assert!(verify(&env, &theirs).await.unwrap().is_verified());
}

async fn only_one_of_parallel_proofs_wins(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let mut claims = Vec::new();
    for number in 0..8 {
        let name = format!("Organization {number}");
        let made = Organizations::new(&env.catalog)
            .create(&env.owner, &*name, None)
            .await;
        claims.push(claim(&env, made.unwrap().id, "acme.example").await.unwrap());
    }
    let proofs: Vec<_> = claims
        .into_iter()
        .map(|claim| {
            let catalog = env.catalog.clone();
            tokio::spawn(async move {
                let (there, id) = (claim.organization_id, claim.id);
                let system = Actor::system();
                Domains::new(&catalog)
                    .verify(&system, there, id, "acme.example")
                    .await
            })
        })
        .collect();
    let mut won = 0;
    for proof in proofs {
        match proof.await.unwrap() {
            Ok(_) => won += 1,
            refused => assert_eq!(violation(refused), field("unique", "domain")),
        }
    }
    assert_eq!(won, 1);
}

async fn a_proof_for_the_previous_name_proves_nothing(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let claim = claim(&env, env.organization, "acme.example").await.unwrap();
    let asked = Domains::new(&env.catalog).get_unproved(env.organization, claim.id);
    assert_eq!(asked.await.unwrap().domain, "acme.example");
    let changed = change(&env, &claim, renamed("bank.example")).await.unwrap();
    assert_eq!(changed.verification_challenge, claim.verification_challenge);
    let (owner, here) = (&env.owner, env.organization);
    let proved = Domains::new(&env.catalog).verify(owner, here, claim.id, "acme.example");
    assert_eq!(proved.await.unwrap(), changed);
}

async fn login_rules_wait_for_the_proof(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let claim = claim(&env, env.organization, "acme.example").await.unwrap();
    let text = |text: &str| Patch::Value(Some(text.to_owned()));
    let early = [
        (jit(true), Some("jit_provisioning_enabled")),
        (enforced("saml"), Some("sso_enforcement")),
        (jit(false), None),
        (enforced(""), None),
        (renamed("acme.example"), None),
    ];
    for (wanted, blamed) in early {
        let changed = change(&env, &claim, wanted).await;
        match blamed {
            Some(name) => assert_eq!(violation(changed), field("verification_required", name)),
            None => assert_eq!(changed.unwrap(), claim),
        }
    }
    let saml = DomainChange {
        saml_entity_id: text("https://idp.example"),
        saml_acs_url: text("https://idp.example/acs"),
        saml_x509_cert: text("MIIB"),
        ..DomainChange::default()
    };
    assert!(change(&env, &claim, saml).await.unwrap().has_saml());
    let emptied = DomainChange {
        saml_x509_cert: Patch::Value(None),
        ..DomainChange::default()
    };
    assert!(!change(&env, &claim, emptied).await.unwrap().has_saml());
    verify(&env, &claim).await.unwrap();
    for sso in ["saml", "google-oauth2", "github", "gitlab", ""] {
        let changed = change(&env, &claim, enforced(sso)).await.unwrap();
        assert_eq!(changed.sso_enforcement, sso);
    }
    let bogus = change(&env, &claim, enforced("facebook")).await;
    assert_eq!(violation(bogus), field("invalid_choice", "sso_enforcement"));
    let changed = change(&env, &claim, jit(true)).await.unwrap();
    assert!(changed.jit_provisioning_enabled);
}

async fn a_verified_domain_cannot_be_renamed(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let claim = claim(&env, env.organization, "acme.example").await.unwrap();
    let claim = change(&env, &claim, renamed("b.example")).await.unwrap();
    assert_eq!(claim.domain, "b.example");
    let proved = verify(&env, &claim).await.unwrap();
    let refused = change(&env, &proved, renamed("c.example")).await;
    assert_eq!(violation(refused), field("invalid_input", "domain"));
    let same = change(&env, &proved, renamed("b.example")).await;
    assert_eq!(same.unwrap(), proved);
}

async fn changes_are_logged_and_unchanged_values_are_not(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let claim = claim(&env, env.organization, "acme.example").await.unwrap();
    verify(&env, &claim).await.unwrap();
    for _ in 0..2 {
        let both = DomainChange {
            jit_provisioning_enabled: Patch::Value(true),
            ..enforced("github")
        };
        change(&env, &claim, both).await.unwrap();
    }
    let deleted = Domains::new(&env.catalog).delete(&env.owner, env.organization, claim.id);
    deleted.await.unwrap();
    let entries = env.entries(ActivityScope::Domain).await;
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
    let env = TestEnv::new(&database).await;
    let (catalog, here) = (&env.catalog, env.organization);
    let claimed = claim(&env, here, "acme.example").await.unwrap();
    let stranger = env.user("stranger").await;
    for (name, level) in [("member", Some(Level::Member)), ("nobody", None)] {
        let user = env.user(name).await;
        if let Some(level) = level {
            catalog.add_member(here, user.id, level).await.unwrap();
        }
        let by = actor(&user);
        let forbidden = ("permission_denied", None);
        let made = Domains::new(catalog).create(&by, here, NewDomain::named("b.example"));
        assert_eq!(violation(made.await), forbidden, "{name}");
        let changed = Domains::new(catalog).update(&by, here, claimed.id, renamed("b.example"));
        assert_eq!(violation(changed.await), forbidden, "{name}");
        let proved = Domains::new(catalog).verify(&by, here, claimed.id, "acme.example");
        assert_eq!(violation(proved.await), forbidden, "{name}");
        let deleted = Domains::new(catalog).delete(&by, here, claimed.id);
        assert_eq!(violation(deleted.await), forbidden, "{name}");
    }
    catalog
        .add_member(here, stranger.id, Level::Administrator)
        .await
        .unwrap();
    let by = actor(&stranger);
    let deleted = Domains::new(catalog).delete(&by, here, claimed.id);
    deleted.await.unwrap();
}

async fn domains_are_hidden_from_other_organizations(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let (catalog, owner) = (&env.catalog, &env.owner);
    let there = other_organization(&env).await;
    let ours = claim(&env, env.organization, "acme.example").await.unwrap();
    let missing = ("not_found", None);
    assert_eq!(
        Domains::new(catalog).get(there, ours.id).await.unwrap(),
        None
    );
    assert_eq!(
        violation(Domains::new(catalog).get_unproved(there, ours.id).await),
        missing
    );
    let changed = Domains::new(catalog).update(owner, there, ours.id, jit(false));
    assert_eq!(violation(changed.await), missing);
    let proved = Domains::new(catalog).verify(owner, there, ours.id, &ours.domain);
    assert_eq!(violation(proved.await), missing);
    assert_eq!(
        violation(Domains::new(catalog).delete(owner, there, ours.id).await),
        missing
    );
    assert_eq!(
        Domains::new(catalog)
            .list(there, FIRST)
            .await
            .unwrap()
            .count,
        0
    );
    Organizations::new(catalog)
        .delete(owner, env.organization)
        .await
        .unwrap();
    assert_eq!(
        Domains::new(catalog)
            .get(env.organization, ours.id)
            .await
            .unwrap(),
        None
    );
}

async fn a_list_of_1000_domains_takes_three_statements(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let (numbers, uuid) = (numbers(1000), random_uuid(&database));
    let insert = format!(
        "INSERT INTO organization_domains (id, organization_id, domain, verification_challenge, \
         jit_provisioning_enabled, sso_enforcement, created_at, updated_at) {numbers} \
         SELECT {uuid}, organizations.id, 'd' || i || '.example', 'x', false, '', 1 + i / 2, 1 \
         FROM n, organizations"
    );
    database.execute(&insert).await.unwrap();
    let (catalog, sent) = env.catalog.counted();
    let mut seen = Vec::new();
    for offset in [0, 400, 800] {
        let page = PageRequest { limit: 400, offset };
        let part = Domains::new(&catalog)
            .list(env.organization, page)
            .await
            .unwrap();
        let statements = sent.take();
        assert!(statements.len() <= 3, "{statements:#?}");
        assert_eq!(part.count, 1000);
        seen.extend(part.rows);
    }
    assert_eq!(seen.len(), 1000);
    assert!(seen.is_sorted_by_key(|domain| (domain.created_at, domain.id)));
}
