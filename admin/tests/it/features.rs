//! Features that an operator may disable, and the operations that need them.

use crate::Fixture;
use millrace_catalog::{Actor, FEATURES};
use millrace_exports::set_features;
use millrace_organizations::Domains;
use serde_json::{Value, json};

on_both!(
    each_feature_gates_its_own_operations_only,
    unchanged_fields_need_no_feature,
    existing_resources_are_read_and_ended_without_their_feature,
);

const BELOW: &str = "/api/organizations/@current/";

/// Request that needs features.
struct Gated {
    features: Vec<&'static str>,
    method: &'static str,
    path: String,
    body: Value,
    /// Body that reverts the change, so that the request can be repeated.
    undo: Value,
}

impl Gated {
    fn undone_by(self, undo: Value) -> Self {
        Self { undo, ..self }
    }
}

fn read(feature: &'static str, rest: &str) -> Gated {
    write(&[feature], "GET", rest, Value::Null)
}

fn write(features: &[&'static str], method: &'static str, rest: &str, body: Value) -> Gated {
    Gated {
        features: features.to_vec(),
        method,
        path: format!("{BELOW}{rest}"),
        body,
        undo: Value::Null,
    }
}

/// Request that creates something; with the feature its body is refused.
fn make(feature: &'static str, rest: &str) -> Gated {
    write(&[feature], "POST", rest, json!([]))
}

/// Request that creates a destination or a transformation in a view that needs no feature
/// otherwise.
fn makes_pipeline(rest: &str, method: &str) -> Gated {
    let body = json!({ "plugin_type": "custom", "capabilities": { "methods": [method] } });
    write(&["data_pipelines"], "POST", rest, body)
}

/// Lists at least one request for each feature.
async fn gated(fixture: &Fixture) -> Vec<Gated> {
    let claim = json!({ "domain": "acme.example" });
    let domains = format!("{BELOW}domains/");
    let domain = fixture.call("POST", &domains, &claim).await.body;
    let domain = format!("domains/{}/", domain["id"].as_str().unwrap());
    let access = json!([{ "id": fixture.made.project_id.0, "level": 1 }]);
    let invite = json!({ "target_email": "bob@example.org", "private_project_access": access });
    let security = json!({ "members_can_write_pipelines": false });
    let (domains, sso) = ("automatic_provisioning", "sso_enforcement");
    let enforced = |login: &str| json!({ "sso_enforcement": login });
    vec![
        write(
            &["organizations_projects"],
            "POST",
            "projects/",
            json!({ "name": "Second" }),
        ),
        make("data_pipelines", "batch_exports/"),
        make("data_pipelines", "pipeline_destinations/"),
        make("data_pipelines", "pipeline_transformations/"),
        makes_pipeline("plugins/", "onEvent"),
        makes_pipeline("pipeline_frontend_apps/", "composeWebhook"),
        makes_pipeline("pipeline_import_apps/", "processEvent"),
        make(domains, "domains/"),
        write(
            &[domains, sso, "social_sso"],
            "PATCH",
            &domain,
            enforced("github"),
        ),
        write(&[domains, sso, "saml"], "PATCH", &domain, enforced("saml")),
        write(
            &[domains, "saml"],
            "PATCH",
            &domain,
            json!({ "saml_entity_id": "idp" }),
        )
        .undone_by(json!({ "saml_entity_id": null })),
        write(
            &["2fa_enforcement"],
            "PATCH",
            "",
            json!({ "enforce_2fa": true }),
        )
        .undone_by(json!({ "enforce_2fa": false })),
        write(&["organization_security_settings"], "PATCH", "", security)
            .undone_by(json!({ "members_can_write_pipelines": true })),
        make("role_based_access", "roles/"),
        write(
            &["advanced_permissions"],
            "POST",
            "invites/",
            invite.clone(),
        ),
        write(
            &["advanced_permissions"],
            "POST",
            "invites/bulk/",
            json!([invite]),
        ),
        make("managed_reverse_proxy", "proxy_records/"),
        read("audit_logs", "activity/"),
        read("audit_logs", "projects/@current/activity/"),
        read("audit_logs", "plugins/activity/"),
        read("audit_logs", "pipeline_destinations/activity/"),
        make("historical_migrations", "historical_migrations/"),
    ]
}

async fn each_feature_gates_its_own_operations_only() {
    let fixture = Fixture::new().await;
    let calls = gated(&fixture).await;
    let (operator, id) = (Actor::command_line(), fixture.made.organization_id);
    for feature in FEATURES {
        let key = [feature.key.to_owned()];
        let catalog = &fixture.catalog;
        let taken = set_features(catalog, &operator, id, &[], &key);
        taken.await.unwrap();
        let needs = |call: &Gated| call.features.contains(&feature.key);
        assert!(calls.iter().any(needs), "{} gates nothing", feature.key);
        for call in &calls {
            if call.undo.is_object() {
                fixture.call(call.method, &call.path, &call.undo).await;
            }
            let answer = fixture.call(call.method, &call.path, &call.body).await;
            let is_closed = answer.error() == (403, "payment_required", None);
            let case = format!("{}: {} {}", feature.key, call.method, call.path);
            assert_eq!(is_closed, needs(call), "{case}: {answer:?}");
        }
        let given = set_features(catalog, &operator, id, &key, &[]);
        given.await.unwrap();
    }
}

/// Creates a domain whose logins must use an identity provider; returns its path.
async fn enforced(fixture: &Fixture) -> String {
    let claim = json!({ "domain": "acme.example", "saml_entity_id": "idp" });
    let all = format!("{BELOW}domains/");
    let made = fixture.call("POST", &all, &claim).await.body;
    let id = made["id"].as_str().unwrap();
    let (operator, organization) = (Actor::command_line(), fixture.made.organization_id);
    let uuid = id.parse().unwrap();
    let catalog = &fixture.catalog;
    let proved = Domains::new(catalog).verify(&operator, organization, uuid, "acme.example");
    proved.await.unwrap();
    let path = format!("{all}{id}/");
    let saml = json!({ "sso_enforcement": "saml" });
    assert_eq!(fixture.call("PATCH", &path, &saml).await.status, 200);
    path
}

/// Clients send resources back whole, with unchanged fields.
async fn unchanged_fields_need_no_feature() {
    let fixture = Fixture::new().await;
    let domain = enforced(&fixture).await;
    let strict = json!({ "enforce_2fa": true, "members_can_write_pipelines": false });
    assert_eq!(fixture.call("PATCH", BELOW, &strict).await.status, 200);
    let off = [
        "2fa_enforcement",
        "organization_security_settings",
        "saml",
        "social_sso",
        "sso_enforcement",
    ];
    let off = off.map(str::to_owned);
    let (operator, id) = (Actor::command_line(), fixture.made.organization_id);
    let taken = set_features(&fixture.catalog, &operator, id, &[], &off);
    taken.await.unwrap();
    for path in [BELOW, domain.as_str()] {
        let whole = fixture.get(path).await.body;
        let again = fixture.call("PUT", path, &whole).await;
        assert_eq!((again.status, &again.body), (200, &whole), "{path}");
    }
    for (path, body, refused) in [
        (&*domain, json!({ "saml_entity_id": "other" }), true),
        (&*domain, json!({ "sso_enforcement": "github" }), true),
        (&*domain, json!({ "sso_enforcement": "" }), false),
        (&*domain, json!({ "sso_enforcement": "saml" }), true),
        (&*domain, json!({ "saml_entity_id": null }), false),
        (&*domain, json!({ "saml_entity_id": "idp" }), true),
        (BELOW, json!({ "enforce_2fa": null }), false),
        (BELOW, json!({ "enforce_2fa": true }), true),
        (BELOW, json!({ "members_can_write_pipelines": true }), false),
        (BELOW, json!({ "members_can_write_pipelines": false }), true),
    ] {
        let answer = fixture.call("PATCH", path, &body).await;
        let expected = (403, "payment_required", None);
        assert_eq!(answer.error() == expected, refused, "{body}: {answer:?}");
        assert_eq!(answer.status == 200, !refused, "{body}: {answer:?}");
    }
}

/// Lists resources with their paths and bodies, and the requests that end them.
fn things() -> [(&'static str, Value, &'static str, Value); 6] {
    let export = json!({
        "name": "A", "interval": "hour", "destination": { "type": "NoOp" }, "paused": true,
    });
    let migration = json!({
        "source": "Amplitude", "method": "export", "total_events": 30, "events_per_minute": 10,
    });
    let end = json!({ "state": "finished" });
    [
        ("batch_exports/", export, "DELETE", json!({})),
        ("pipeline_destinations/", json!({}), "DELETE", json!({})),
        (
            "domains/",
            json!({ "domain": "acme.example" }),
            "DELETE",
            json!({}),
        ),
        ("roles/", json!({ "name": "A" }), "DELETE", json!({})),
        (
            "proxy_records/",
            json!({ "domain": "e.example.com" }),
            "DELETE",
            json!({}),
        ),
        ("historical_migrations/", migration, "PATCH", end),
    ]
}

async fn existing_resources_are_read_and_ended_without_their_feature() {
    let fixture = Fixture::new().await;
    let mut made = Vec::new();
    for (rest, new, ..) in things() {
        let all = format!("{BELOW}{rest}");
        let answer = fixture.call("POST", &all, &new).await;
        assert_eq!(answer.status, 201, "{rest}: {answer:?}");
        let id = &answer.body["id"];
        let id = id.as_str().map_or_else(|| id.to_string(), str::to_owned);
        made.push((format!("{all}{id}/"), answer.body));
    }
    let off = FEATURES.map(|feature| feature.key.to_owned());
    let (operator, id) = (Actor::command_line(), fixture.made.organization_id);
    let taken = set_features(&fixture.catalog, &operator, id, &[], &off);
    taken.await.unwrap();
    for ((rest, new, end, body), (path, thing)) in things().into_iter().zip(made) {
        let all = format!("{BELOW}{rest}");
        let listed = fixture.get(&all).await;
        assert_eq!(listed.body["count"], 1, "{rest}: {listed:?}");
        assert_eq!(fixture.get(&path).await.body, thing, "{rest}");
        let another = fixture.call("POST", &all, &new).await;
        assert_eq!(another.error(), (403, "payment_required", None), "{rest}");
        let ended = fixture.call(end, &path, &body).await;
        assert!([200, 204].contains(&ended.status), "{rest}: {ended:?}");
    }
}
