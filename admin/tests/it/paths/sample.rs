//! An organization with one resource of each kind, for ids in paths and bodies.

use crate::Fixture;
use crate::fake_queries::running_query;
use crate::fake_rejected_events::rejected_event;
use millrace_catalog::{Actor, Level, LogLevel, User, UtcTime};
use millrace_exports::{ExportLogs, ExportRuns, NewExportLog, NewRun};
use millrace_organizations::{Invites, NewInvite, PluginFamily, Sessions};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use uuid::Uuid;

/// Ids of an organization's resources, by the segment of a path that they follow.
#[derive(Clone, Debug)]
pub struct SampleData {
    /// Key of the owner, for everything.
    pub key: String,
    /// Levels and addresses of an owner, an administrator and a member.
    pub people: [(i16, String); 3],
    ids: BTreeMap<String, String>,
}

impl SampleData {
    /// Creates the resources of an organization; `name` makes their names unique.
    pub async fn fill(fixture: &Fixture, name: &str, organization: Uuid, owner: &User) -> Self {
        let key = fixture.key_of(&owner.email, &["*"]).await;
        let mut data = Self {
            key,
            people: [
                (15, owner.email.clone()),
                (8, format!("ada@{name}.example")),
                (1, format!("mia@{name}.example")),
            ],
            ids: BTreeMap::new(),
        };
        data.set("organizations", &organization);
        data.set("owner", &owner.uuid);
        for (level, email) in data.people.iter().skip(1) {
            let level = Level::of(i64::from(*level)).unwrap();
            fixture.member_of(organization, email, level).await;
        }
        let email = format!("tim@{name}.example");
        let member = fixture.member_of(organization, &email, Level::Member).await;
        data.set("members", &member.uuid);
        data.make_resources(fixture, name).await;
        let invite = NewInvite::to(&format!("link@{name}.example"));
        let system = Actor::system();
        let invite = Invites::new(&fixture.catalog).create(&system, organization, invite);
        data.set("signup", &invite.await.unwrap().token.expose());
        data.make_session(fixture, &owner.email).await;
        data
    }

    /// Signs the owner in, and makes another link.
    async fn make_session(&mut self, fixture: &Fixture, email: &str) {
        let sessions = Sessions::new(&fixture.catalog);
        let system = Actor::system();
        let link = sessions.create_link(&system, email).await.unwrap();
        let opened = sessions.sign_in(link.token.expose(), "Browser").await;
        self.set("sessions", &opened.unwrap().record.id);
        let link = sessions.create_link(&system, email).await.unwrap();
        self.set("sign_in", &link.token.expose());
    }

    async fn make_resources(&mut self, fixture: &Fixture, name: &str) {
        let domain = format!("events.{name}.example");
        self.set("proxy_domain", &domain);
        let migration = json!({
            "source": "Other", "method": "export", "total_events": 1, "events_per_minute": 1,
        });
        let role = json!({ "user_uuid": ":members" });
        let things = [
            ("projects", json!({ "name": "Second" })),
            ("domains", json!({ "domain": format!("{name}.example") })),
            (
                "invites",
                json!({ "target_email": format!("bob@{name}.example") }),
            ),
            ("proxy_records", json!({ "domain": domain })),
            ("roles", json!({ "name": "Support" })),
            ("roles/:id/role_memberships", role),
            ("historical_migrations", migration),
        ];
        for (path, body) in things {
            let path = format!("/api/organizations/:organization_id/{path}/");
            self.make(fixture, &path, &body).await;
        }
        let project_id = self.id("projects").parse().unwrap();
        self.set("query", &running_query(project_id));
        self.set("rejected_events", &rejected_event(project_id));
        for family in PluginFamily::ALL {
            let path = format!("/api/organizations/:organization_id/{}/", family.segment());
            let body = json!({ "plugin_type": "source" });
            self.make(fixture, &path, &body).await;
        }
        self.make_export(fixture).await;
        let key = json!({ "label": "Other", "scopes": ["role:read"] });
        self.make(fixture, "/api/personal_api_keys/", &key).await;
    }

    /// Creates an export of the second project, so that it is found below both paths of exports; it
    /// has a run with a log line.
    async fn make_export(&mut self, fixture: &Fixture) {
        let all = "/api/projects/:project_id/batch_exports/";
        let destination = json!({ "type": "NoOp" });
        let export = json!({ "name": "Hourly", "interval": "hour", "destination": destination });
        self.make(fixture, all, &export).await;
        self.make(fixture, &format!("{all}:id/backfills/"), &json!({}))
            .await;
        let id = self.id("batch_exports").parse().unwrap();
        let window = NewRun {
            backfill_id: None,
            data_interval_start: None,
            data_interval_end: UtcTime(0),
        };
        let run = ExportRuns::new(&fixture.catalog)
            .begin(id, window)
            .await
            .unwrap();
        self.set("runs", &run.id);
        let line = NewExportLog {
            level: LogLevel::Info,
            message: "Begun".to_owned(),
        };
        let written = ExportLogs::new(&fixture.catalog).write(id, run.id, vec![line]);
        written.await.unwrap();
    }

    async fn make(&mut self, fixture: &Fixture, path: &str, body: &Value) {
        let (at, body) = (self.path(path), self.body(body));
        let made = fixture.call_with(&self.key, "POST", &at, &body).await;
        assert_eq!(made.status, 201, "{at}: {made:?}");
        let segment = path.trim_end_matches('/').rsplit('/').next().unwrap();
        let id = &made.body["id"];
        let id = id.as_str().map_or_else(|| id.to_string(), str::to_owned);
        self.set(segment, &id);
    }

    fn set(&mut self, name: &str, id: &impl ToString) {
        self.ids.insert(name.to_owned(), id.to_string());
    }

    /// Id that follows a segment of a path, or that a body names.
    pub fn id(&self, name: &str) -> &str {
        let id = self.ids.get(name);
        id.unwrap_or_else(|| panic!("the sample data has no {name}"))
    }

    /// Fills the ids of a path.
    pub fn path(&self, template: &str) -> String {
        path_of(template, |_, segment| self.id(segment).to_owned())
    }

    /// Fills the ids of a body.
    pub fn body(&self, template: &Value) -> Value {
        match template {
            Value::String(text) => match text.strip_prefix(':') {
                Some(name) => json!(self.id(name)),
                None => template.clone(),
            },
            Value::Array(items) => items.iter().map(|item| self.body(item)).collect(),
            Value::Object(fields) => {
                let fields = fields.iter();
                let fields = fields.map(|(name, value)| (name.clone(), self.body(value)));
                Value::Object(fields.collect())
            }
            other => other.clone(),
        }
    }
}

/// Fills the ids of a path by a function of their number and of the segment before them.
pub fn path_of(template: &str, mut id: impl FnMut(usize, &str) -> String) -> String {
    let (mut path, mut before, mut number) = (Vec::new(), "", 0);
    for part in template.split('/') {
        if part.starts_with([':', '{']) {
            path.push(id(number, before));
            number += 1;
        } else {
            path.push(part.to_owned());
        }
        before = part;
    }
    path.join("/")
}
