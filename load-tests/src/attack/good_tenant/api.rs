//! Requests to the organization API with known responses, as its front ends send them.

use super::tenant::GoodTenant;
use crate::attack::tenants::text;
use anyhow::Result;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::sleep;

/// Pause between two requests.
const PAUSE: Duration = Duration::from_millis(250);

/// Sends rounds of requests until the run is over.
pub(super) async fn ask_all(good: &GoodTenant<'_>) -> Result<()> {
    let mut number = 0;
    while !good.current_phase.is_over() {
        number += 1;
        organization(good).await;
        projects(good).await;
        members(good).await;
        role(good, number).await;
        others(good).await;
    }
    Ok(())
}

/// Sends a request and returns the response body if it has the expected status.
async fn ask(
    good: &GoodTenant<'_>,
    method: &str,
    path: &str,
    body: &Value,
    status: u16,
) -> Option<Value> {
    sleep(PAUSE).await;
    let began = good.began();
    let outcome = good.tenants.good.ask(method, path, body).await;
    let is_right = good.right(&good.answers, &format!("API {method}"), &outcome, status);
    if is_right {
        good.ended(&good.answers, began);
    }
    is_right.then(|| outcome.json())
}

fn check(good: &GoodTenant<'_>, what: &str, is_right: bool, answer: &Value) {
    if !is_right {
        let answer: String = answer.to_string().chars().take(300).collect();
        good.findings
            .wrong(format!("good tenant: {what}: {answer}"));
    }
}

async fn organization(good: &GoodTenant<'_>) {
    if let Some(seen) = ask(good, "GET", "", &Value::Null, 200).await {
        let tenant = &good.tenants.good;
        let (id, name) = (text(&seen, "/id"), text(&seen, "/name"));
        let is_right =
            id.as_ref() == Some(&tenant.organization) && name.as_ref() == Some(&tenant.name);
        check(good, "another organization", is_right, &seen);
    }
}

async fn projects(good: &GoodTenant<'_>) {
    if let Some(seen) = ask(good, "GET", "projects/", &Value::Null, 200).await {
        let is_right = seen.pointer("/count") == Some(&json!(1))
            && seen.pointer("/results/0/id") == Some(&json!(good.tenants.good.project_id));
        check(good, "other projects", is_right, &seen);
    }
}

async fn members(good: &GoodTenant<'_>) {
    if let Some(seen) = ask(good, "GET", "members/", &Value::Null, 200).await {
        check(
            good,
            "other members",
            seen.pointer("/count") == Some(&json!(1)),
            &seen,
        );
    }
}

/// Creates, reads, changes and deletes a role.
async fn role(good: &GoodTenant<'_>, number: u64) {
    let name = json!(format!("Role {number}"));
    let Some(made) = ask(good, "POST", "roles/", &json!({"name": name}), 201).await else {
        return;
    };
    let id = text(&made, "/id").unwrap_or_default();
    let path = format!("roles/{id}/");
    if let Some(seen) = ask(good, "GET", &path, &Value::Null, 200).await {
        check(
            good,
            "another role",
            seen.pointer("/name") == Some(&name),
            &seen,
        );
    }
    let changed = json!({"name": format!("Role {number} changed")});
    if let Some(seen) = ask(good, "PATCH", &path, &changed, 200).await {
        let is_right = seen.pointer("/name") == changed.pointer("/name");
        check(good, "a change that was not made", is_right, &seen);
    }
    // A role that was not deleted, as the server had no time, does no harm.
    ask(good, "DELETE", &path, &Value::Null, 204).await;
}

/// Checks that the other organization is invisible.
async fn others(good: &GoodTenant<'_>) {
    let path = format!("/api/organizations/{}/", good.tenants.hostile.organization);
    let outcome = good.tenants.good.ask_at("GET", &path, &Value::Null).await;
    good.right(&good.answers, "another organization", &outcome, 404);
}
