//! What an operator may take away, feature by feature.

use crate::Fixture;
use millrace_catalog::{Actor, FEATURES};
use serde_json::{Value, json};

on_both!(each_feature_opens_what_it_is_for_and_nothing_else);

const BELOW: &str = "/api/organizations/@current/";

/// A call that takes features.
struct Gated {
    features: Vec<&'static str>,
    method: &'static str,
    path: String,
    body: Value,
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
    }
}

/// At least one call for each feature.
async fn gated(fixture: &Fixture) -> Vec<Gated> {
    let claim = json!({ "domain": "acme.example" });
    let domains = format!("{BELOW}domains/");
    let domain = fixture.call("POST", &domains, &claim).await.body;
    let domain = format!("domains/{}/", domain["id"].as_str().unwrap());
    let access = json!([{ "id": fixture.made.team_id.0, "level": 1 }]);
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
        read("data_pipelines", "batch_exports/"),
        read("data_pipelines", "pipeline_destinations/"),
        read("data_pipelines", "pipeline_transformations/"),
        read(domains, "domains/"),
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
        ),
        write(
            &["2fa_enforcement"],
            "PATCH",
            "",
            json!({ "enforce_2fa": true }),
        ),
        write(&["organization_security_settings"], "PATCH", "", security),
        read("role_based_access", "roles/"),
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
        read("managed_reverse_proxy", "proxy_records/"),
        read("audit_logs", "activity/"),
        read("audit_logs", "projects/@current/activity/"),
        read("audit_logs", "plugins/activity/"),
        read("audit_logs", "pipeline_destinations/activity/"),
        read("historical_migrations", "historical_migrations/"),
    ]
}

async fn each_feature_opens_what_it_is_for_and_nothing_else() {
    let fixture = Fixture::new().await;
    let calls = gated(&fixture).await;
    let (operator, id) = (Actor::command_line(), fixture.made.organization_id);
    for feature in FEATURES {
        let key = [feature.key.to_owned()];
        let catalog = &fixture.catalog;
        let taken = catalog.set_organization_features(&operator, id, &[], &key);
        taken.await.unwrap();
        let needs = |call: &Gated| call.features.contains(&feature.key);
        assert!(calls.iter().any(needs), "{} closes nothing", feature.key);
        for call in &calls {
            let answer = fixture.call(call.method, &call.path, &call.body).await;
            let is_closed = answer.error() == (403, "payment_required", None);
            let case = format!("{}: {} {}", feature.key, call.method, call.path);
            assert_eq!(is_closed, needs(call), "{case}: {answer:?}");
        }
        let given = catalog.set_organization_features(&operator, id, &key, &[]);
        given.await.unwrap();
    }
}
