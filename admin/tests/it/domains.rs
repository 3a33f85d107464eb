//! Domains: normalization, verification, and fields that need a verified domain.

use crate::Fixture;
use crate::fixture::TestResponse;
use crate::servers::dns::DnsServer;
use millrace_catalog::{Actor, Level};
use millrace_organizations::Organizations;
use rcgen::generate_simple_self_signed;
use serde_json::{Value, json};

on_both!(
    a_domain_is_normalized_and_keeps_its_challenge,
    invalid_and_duplicate_domains_are_refused,
    a_domain_is_verified_by_its_txt_record_only,
    a_nameserver_timeout_does_not_verify_a_domain,
    the_first_organization_to_verify_a_domain_owns_it,
    logins_of_a_domain_can_be_set_only_once_it_is_verified,
    has_saml_is_true_once_all_three_fields_are_set,
    members_read_and_administrators_write,
    fields_of_a_disabled_feature_cannot_be_set,
);

const ALL: &str = "/api/organizations/@current/domains/";

async fn with_dns(dns: &DnsServer) -> Fixture {
    let client = dns.client();
    Fixture::with_services(|services| services.dns = client).await
}

async fn created(fixture: &Fixture, domain: &str) -> Value {
    let answer = fixture
        .call("POST", ALL, &json!({ "domain": domain }))
        .await;
    assert_eq!(answer.status, 201, "{domain}: {answer:?}");
    answer.body
}

fn path(domain: &Value) -> String {
    format!("{ALL}{}/", domain["id"].as_str().unwrap())
}

async fn verify(fixture: &Fixture, domain: &Value) -> TestResponse {
    let path = format!("{}verify/", path(domain));
    fixture
        .call("POST", &path, &json!({ "domain": "ignored.example" }))
        .await
}

/// TXT record that proves a domain.
fn proof(domain: &Value) -> String {
    let name = domain["domain"].as_str().unwrap();
    let challenge = domain["verification_challenge"].as_str().unwrap();
    format!("_millrace-challenge.{name} 60 TXT \"{challenge}\"")
}

async fn a_domain_is_normalized_and_keeps_its_challenge() {
    let fixture = Fixture::new().await;
    let body = json!({
        "domain": " BÜCHER.Example. ", "id": "mine", "is_verified": true,
        "jit_provisioning_enabled": true, "sso_enforcement": "saml",
    });
    let made = fixture.call("POST", ALL, &body).await;
    assert_eq!(made.status, 201, "{made:?}");
    let challenge = made.body["verification_challenge"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(challenge.len(), 43, "{challenge}");
    let expected = json!({
        "id": made.body["id"], "domain": "xn--bcher-kva.example", "is_verified": false,
        "verified_at": null, "verification_challenge": challenge,
        "jit_provisioning_enabled": false, "sso_enforcement": "", "has_saml": false,
        "saml_entity_id": null, "saml_acs_url": null, "saml_x509_cert": null,
    });
    assert_eq!(made.body, expected);
    assert_eq!(fixture.get(&path(&made.body)).await.body, expected);
    let list = fixture.get(ALL).await;
    assert_eq!(
        (&list.body["count"], &list.body["results"]),
        (&json!(1), &json!([expected]))
    );
    let body = json!({ "domain": "other.example" });
    let renamed = fixture.call("PATCH", &path(&made.body), &body).await.body;
    assert_eq!(
        (&renamed["domain"], &renamed["verification_challenge"]),
        (&json!("other.example"), &json!(challenge))
    );
    let path = path(&made.body);
    assert_eq!(fixture.call("DELETE", &path, &json!({})).await.status, 204);
    assert_eq!(fixture.get(&path).await.error(), (404, "not_found", None));
}

async fn invalid_and_duplicate_domains_are_refused() {
    let fixture = Fixture::new().await;
    created(&fixture, "taken.example").await;
    let long = format!("{}example", "abcdefg.".repeat(16));
    let table = [
        (json!({}), "required"),
        (json!({ "domain": null }), "null"),
        (json!({ "domain": "" }), "blank"),
        (json!({ "domain": "  " }), "blank"),
        (json!({ "domain": 5 }), "invalid_input"),
        (json!({ "domain": "localhost" }), "invalid_input"),
        (json!({ "domain": "a_b.example" }), "invalid_input"),
        (json!({ "domain": "192.0.2.1" }), "invalid_input"),
        (
            json!({ "domain": "a.example\r\nb.example" }),
            "invalid_input",
        ),
        (json!({ "domain": long }), "max_length"),
        (json!({ "domain": "Taken.Example" }), "unique"),
    ];
    for (body, code) in table {
        let answer = fixture.call("POST", ALL, &body).await;
        assert_eq!(answer.error(), (400, code, Some("domain")), "{body}");
    }
}

async fn a_domain_is_verified_by_its_txt_record_only() {
    let mut dns = DnsServer::start("").await;
    let fixture = with_dns(&dns).await;
    let wrong = "_millrace-challenge.wrong.example 60 TXT \"x\"";
    for (name, record) in [
        ("missing.example", None),
        ("wrong.example", Some(wrong)),
        ("a.broken", None),
    ] {
        let domain = created(&fixture, name).await;
        if let Some(record) = record {
            dns.add(record).await;
        }
        let answer = verify(&fixture, &domain).await;
        assert_eq!((answer.status, &answer.body), (200, &domain), "{name}");
    }
    for (name, more) in [
        ("right.example", None),
        ("bücher.example", None),
        (
            "several.example",
            Some("_millrace-challenge.several.example 60 TXT \"v=spf1 -all\""),
        ),
        (
            "alias.example",
            Some("_millrace-challenge.alias.example 60 CNAME proof.elsewhere.example"),
        ),
    ] {
        let domain = created(&fixture, name).await;
        let mut proof = proof(&domain);
        if let Some(more) = more {
            dns.add(more).await;
        }
        if name == "alias.example" {
            proof = proof.replace(
                "_millrace-challenge.alias.example",
                "proof.elsewhere.example",
            );
        }
        dns.add(&proof).await;
        let answer = verify(&fixture, &domain).await;
        assert_eq!(
            (answer.status, &answer.body["is_verified"]),
            (200, &json!(true)),
            "{name}"
        );
        assert!(answer.body["verified_at"].as_str().unwrap().ends_with('Z'));
        assert_eq!(fixture.get(&path(&domain)).await.body, answer.body);
        let again = verify(&fixture, &domain).await;
        assert_eq!(again.error(), (400, "already_verified", None), "{name}");
    }
}

async fn a_nameserver_timeout_does_not_verify_a_domain() {
    let dns = DnsServer::start("").await;
    let client = dns.impatient_client();
    let fixture = Fixture::with_services(|services| services.dns = client).await;
    let domain = created(&fixture, "a.silent").await;
    let answer = verify(&fixture, &domain).await;
    assert_eq!((answer.status, &answer.body), (200, &domain));
}

async fn the_first_organization_to_verify_a_domain_owns_it() {
    let mut dns = DnsServer::start("").await;
    let fixture = with_dns(&dns).await;
    let eve = fixture.user("eve@example.net").await;
    let system = Actor::system();
    let theirs = Organizations::new(&fixture.catalog).create(&system, "Theirs", Some(eve));
    let theirs = format!("/api/organizations/{}/domains/", theirs.await.unwrap().id);
    let key = fixture.key_of("eve@example.net", &["*"]).await;
    let body = json!({ "domain": "both.example" });
    let rival = fixture.call_with(&key, "POST", &theirs, &body).await;
    assert_eq!(rival.status, 201, "unverified ones may be alike");

    let domain = created(&fixture, "both.example").await;
    assert_ne!(
        rival.body["verification_challenge"],
        domain["verification_challenge"]
    );
    dns.add(&proof(&domain)).await;
    dns.add(&proof(&rival.body)).await;
    assert_eq!(verify(&fixture, &domain).await.body["is_verified"], true);
    let late = format!("{theirs}{}/", rival.body["id"].as_str().unwrap());
    let answer = fixture
        .call_with(&key, "POST", &format!("{late}verify/"), &json!({}))
        .await;
    assert_eq!(
        (answer.status, answer.error().1),
        (400, "unique"),
        "{answer:?}"
    );
    assert_eq!(
        fixture.send("GET", &late, Some(&key)).await.body["is_verified"],
        false
    );
    let made = fixture.call_with(&key, "POST", &theirs, &body).await;
    assert_eq!(made.error(), (400, "unique", Some("domain")));
    let foreign = format!("{ALL}{}/verify/", rival.body["id"].as_str().unwrap());
    let foreign = fixture.call("POST", &foreign, &json!({})).await;
    assert_eq!(foreign.error(), (404, "not_found", None));
}

async fn logins_of_a_domain_can_be_set_only_once_it_is_verified() {
    let mut dns = DnsServer::start("").await;
    let fixture = with_dns(&dns).await;
    let domain = created(&fixture, "acme.example").await;
    let patch = |body: Value| {
        let (fixture, path) = (&fixture, path(&domain));
        async move { fixture.call("PATCH", &path, &body).await }
    };
    for (body, field) in [
        (
            json!({ "jit_provisioning_enabled": true }),
            "jit_provisioning_enabled",
        ),
        (json!({ "sso_enforcement": "saml" }), "sso_enforcement"),
    ] {
        let expected = (400, "verification_required", Some(field));
        assert_eq!(patch(body.clone()).await.error(), expected, "{body}");
    }
    let unchanged = json!({ "jit_provisioning_enabled": false, "sso_enforcement": "" });
    assert_eq!(patch(unchanged).await.status, 200);
    dns.add(&proof(&domain)).await;
    verify(&fixture, &domain).await;
    for (body, expected) in [
        (
            json!({ "jit_provisioning_enabled": true, "sso_enforcement": "github" }),
            (200, "", None),
        ),
        (json!({ "sso_enforcement": "" }), (200, "", None)),
        (
            json!({ "sso_enforcement": "okta" }),
            (400, "invalid_choice", Some("sso_enforcement")),
        ),
        (
            json!({ "sso_enforcement": null }),
            (400, "null", Some("sso_enforcement")),
        ),
        (
            json!({ "jit_provisioning_enabled": "yes" }),
            (400, "invalid_input", Some("jit_provisioning_enabled")),
        ),
        (json!({ "domain": "acme.example" }), (200, "", None)),
        (
            json!({ "domain": "other.example" }),
            (400, "invalid_input", Some("domain")),
        ),
    ] {
        let answer = patch(body.clone()).await;
        assert_eq!(answer.error(), expected, "{body}: {answer:?}");
    }
    let put = fixture.call("PUT", &path(&domain), &json!({})).await;
    assert_eq!(put.error(), (400, "required", Some("domain")));
}

async fn has_saml_is_true_once_all_three_fields_are_set() {
    let fixture = Fixture::new().await;
    let domain = created(&fixture, "acme.example").await;
    let certificate = generate_simple_self_signed(["idp.example".to_owned()]).unwrap();
    let certificate = certificate.cert.pem();
    let path = path(&domain);
    let steps = [
        (
            json!({ "saml_entity_id": "https://idp.example/entity" }),
            (200, "", None),
            false,
        ),
        (
            json!({ "saml_acs_url": "https://idp.example/acs" }),
            (200, "", None),
            false,
        ),
        (
            json!({ "saml_x509_cert": "not one" }),
            (400, "invalid_input", Some("saml_x509_cert")),
            false,
        ),
        (
            json!({ "saml_x509_cert": certificate }),
            (200, "", None),
            true,
        ),
        (
            json!({ "saml_entity_id": "e".repeat(513) }),
            (400, "max_length", Some("saml_entity_id")),
            true,
        ),
        (json!({ "saml_entity_id": "" }), (200, "", None), false),
        (json!({ "saml_entity_id": "again" }), (200, "", None), true),
        (json!({ "saml_x509_cert": null }), (200, "", None), false),
    ];
    for (body, expected, has_saml) in steps {
        let answer = fixture.call("PATCH", &path, &body).await;
        assert_eq!(answer.error(), expected, "{body}: {answer:?}");
        assert_eq!(
            fixture.get(&path).await.body["has_saml"],
            has_saml,
            "{body}"
        );
    }
}

async fn members_read_and_administrators_write() {
    let fixture = Fixture::new().await;
    let domain = created(&fixture, "acme.example").await;
    let member = fixture.member("mia@example.com", Level::Member).await;
    let reader = fixture.key(&["organization:read"]).await;
    let one = path(&domain);
    let verify = format!("{one}verify/");
    let body = json!({ "domain": "new.example" });
    for key in [&member, &reader] {
        for (method, path, status) in [
            ("GET", ALL, 200),
            ("GET", one.as_str(), 200),
            ("POST", ALL, 403),
            ("PATCH", one.as_str(), 403),
            ("PUT", one.as_str(), 403),
            ("POST", verify.as_str(), 403),
            ("DELETE", one.as_str(), 403),
        ] {
            let answer = fixture.call_with(key, method, path, &body).await;
            assert_eq!(answer.status, status, "{method} {path}");
        }
    }
}

async fn fields_of_a_disabled_feature_cannot_be_set() {
    let mut dns = DnsServer::start("").await;
    let fixture = with_dns(&dns).await;
    let domain = created(&fixture, "acme.example").await;
    dns.add(&proof(&domain)).await;
    assert_eq!(verify(&fixture, &domain).await.body["is_verified"], true);
    let path = path(&domain);
    for (feature, body, status) in [
        ("saml", json!({ "saml_entity_id": "idp" }), 403),
        ("saml", json!({ "saml_entity_id": null }), 200),
        ("sso_enforcement", json!({ "sso_enforcement": "saml" }), 403),
        ("sso_enforcement", json!({ "sso_enforcement": "" }), 200),
        ("automatic_provisioning", json!({}), 403),
        (
            "roles",
            json!({ "saml_entity_id": "idp", "sso_enforcement": "saml" }),
            200,
        ),
    ] {
        let off = format!("UPDATE organizations SET disabled_features = '[\"{feature}\"]'");
        fixture.execute(&off).await;
        let answer = fixture.call("PATCH", &path, &body).await;
        assert_eq!(answer.status, status, "{feature} {body}");
        let code = if status == 403 {
            "payment_required"
        } else {
            ""
        };
        assert_eq!(answer.error().1, code, "{feature} {body}");
    }
}
