//! Records of each kind that a tenant has, so that each path of the API has one to name.

use super::{Tenant, text};
use crate::runtime::current_thread_runtime;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

/// Families of plugins. What is created in one has the capabilities of that family: below another
/// family's path its id would be unknown to its owner, too.
const FAMILIES: [&str; 5] = [
    "plugins",
    "pipeline_destinations",
    "pipeline_frontend_apps",
    "pipeline_import_apps",
    "pipeline_transformations",
];

impl Tenant {
    /// Creates one record of each kind, below this domain.
    pub(super) fn create_records(&self, domain: &str) -> Result<()> {
        for (path, body) in records(domain) {
            self.create(path, &body)?;
        }
        for family in FAMILIES {
            let made = self.create(&format!("{family}/"), &plugin(family))?;
            self.must_be_in(family, &made)?;
        }
        let role = self.create("roles/", &json!({"name": "Readers"}))?;
        let role = text(&role, "/id").context("a role's id")?;
        let listed = self.ask("GET", "members/", &Value::Null);
        let listed = current_thread_runtime()?.block_on(listed);
        let member = text(&listed.json(), "/results/0/user/uuid").context("a member")?;
        let path = format!("roles/{role}/role_memberships/");
        self.create(&path, &json!({"user_uuid": member}))?;
        Ok(())
    }

    /// Checks that a plugin is found by the path of its family.
    fn must_be_in(&self, family: &str, made: &Value) -> Result<()> {
        let id = made.pointer("/id").and_then(Value::as_i64);
        let path = format!("{family}/{}/", id.context("a plugin's id")?);
        let read = current_thread_runtime()?.block_on(self.ask("GET", &path, &Value::Null));
        ensure!(read.status() == 200, "{path}: {read:?}");
        Ok(())
    }

    /// Creates a record and returns it.
    fn create(&self, path: &str, body: &Value) -> Result<Value> {
        let made = current_thread_runtime()?.block_on(self.ask("POST", path, body));
        ensure!(made.status() == 201, "{path}: {made:?}");
        Ok(made.json())
    }
}

/// Paths of lists, and a record for each.
fn records(domain: &str) -> [(&'static str, Value); 4] {
    [
        (
            "invites/",
            json!({"target_email": format!("invited@{domain}"), "send_email": false}),
        ),
        ("domains/", json!({"domain": domain})),
        (
            "proxy_records/",
            json!({"domain": format!("proxy.{domain}")}),
        ),
        (
            "historical_migrations/",
            json!({"source": "s", "method": "m", "total_events": 1, "events_per_minute": 1}),
        ),
    ]
}

fn plugin(family: &str) -> Value {
    json!({"plugin_type": "source", "name": format!("Plugin of {family}")})
}
