//! Who shares the server: a tenant who works, and one who does harm with all that a tenant is given.

use super::http::{Client, Outcome};
use super::subject::Subject;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::io;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::net::TcpStream;

/// Where the good tenant sends from.
pub(super) const GOOD: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 1);
/// Where the hostile tenant sends from: nobody's key, its project's key, its keys of the API, and the analyst.
pub(super) const STRANGER: Ipv4Addr = Ipv4Addr::new(127, 6, 6, 1);
pub(super) const SENDER: Ipv4Addr = Ipv4Addr::new(127, 6, 6, 2);
pub(super) const MEMBER: Ipv4Addr = Ipv4Addr::new(127, 6, 6, 3);
pub(super) const ANALYST: Ipv4Addr = Ipv4Addr::new(127, 6, 6, 4);
/// Keys that each user makes: a key is limited in its requests, and a user may have a hundred.
const KEYS: usize = 12;

/// A tenant as it sees itself.
pub(super) struct Tenant {
    /// Its organization.
    pub(super) organization: String,
    /// The organization's name.
    pub(super) name: String,
    /// Number and key of its project.
    pub(super) team_id: u64,
    pub(super) project_key: String,
    keys: Vec<String>,
    turn: AtomicUsize,
    api: Client,
}

impl Tenant {
    /// A tenant with a first key, which makes the others.
    fn new(api: Client, first_key: &str) -> Result<Self> {
        let runtime = super::runtime()?;
        let get = |path: &str| {
            let asked = runtime.block_on(api.call("GET", path, first_key, &Value::Null));
            ensure!(asked.status() == 200, "{path}: {asked:?}");
            Ok(asked.json())
        };
        let organization = get("/api/organizations/@current/")?;
        let projects = get("/api/organizations/@current/projects/")?;
        let project = get("/api/organizations/@current/projects/@current/")?;
        ensure!(
            projects.get("count") == Some(&json!(1)),
            "more projects than one: {projects}"
        );
        let mut keys = Vec::new();
        for number in 0..KEYS {
            let body = json!({"label": format!("Key {number}"), "scopes": ["*"]});
            let asked = api.call("POST", "/api/personal_api_keys/", first_key, &body);
            let made = runtime.block_on(asked);
            keys.push(text(&made.json(), "/value").with_context(|| format!("a key: {made:?}"))?);
        }
        Ok(Self {
            organization: text(&organization, "/id").context("an organization")?,
            name: text(&organization, "/name").context("an organization")?,
            team_id: project
                .pointer("/id")
                .and_then(Value::as_u64)
                .context("a project")?,
            project_key: text(&project, "/api_token").context("a project's key")?,
            keys,
            turn: AtomicUsize::new(0),
            api,
        })
    }

    /// Makes one of each thing that an organization may have, for others to ask for.
    fn furnish(&self) -> Result<()> {
        let runtime = super::runtime()?;
        for (path, body) in [
            ("roles/", json!({"name": "Readers"})),
            (
                "invites/",
                json!({"target_email": "good@example.com", "send_email": false}),
            ),
            ("domains/", json!({"domain": "good.example.com"})),
            ("plugins/", json!({"plugin_type": "source", "name": "Good"})),
            (
                "historical_migrations/",
                json!({"source": "s", "method": "m", "total_events": 1, "events_per_minute": 1}),
            ),
        ] {
            let made = runtime.block_on(self.ask("POST", path, &body));
            ensure!(made.status() == 201, "{path}: {made:?}");
        }
        Ok(())
    }

    /// One of its keys, in turn.
    pub(super) fn key(&self) -> &str {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % self.keys.len().max(1);
        self.keys.get(turn).map_or("", String::as_str)
    }

    /// Asks a path below its organization's.
    pub(super) async fn ask(&self, method: &str, path: &str, body: &Value) -> Outcome {
        let path = format!("/api/organizations/{}/{path}", self.organization);
        self.ask_at(method, &path, body).await
    }

    /// Asks with a key that is not its own.
    pub(super) async fn ask_with(&self, key: &str, path: &str) -> Outcome {
        let path = format!("/api/organizations/{}/{path}", self.organization);
        self.api.call("GET", &path, key, &Value::Null).await
    }

    /// An open connection to the API.
    pub(super) async fn connect(&self) -> io::Result<TcpStream> {
        self.api.connect().await
    }

    /// Asks a path of the API.
    pub(super) async fn ask_at(&self, method: &str, path: &str, body: &Value) -> Outcome {
        self.api.call(method, path, self.key(), body).await
    }
}

/// Both.
pub(super) struct Tenants {
    pub(super) good: Tenant,
    pub(super) hostile: Tenant,
}

impl Tenants {
    /// The organization of the first start, and another one with an owner of its own.
    pub(super) fn make(subject: &Subject) -> Result<Self> {
        let credentials = &subject.credentials;
        let good = Tenant::new(
            Client::new(&credentials.admin_url, GOOD)?,
            &credentials.personal_api_key,
        )?;
        let made = subject.told(&["organizations", "create", "--name", "Hostile"])?;
        let (_, id) = made
            .split_once("is there: ")
            .context("an organization's id")?;
        let id = id
            .split_whitespace()
            .next()
            .context("an organization's id")?;
        let invite = [
            "invites",
            "create",
            "--organization",
            id,
            "--level",
            "owner",
        ];
        let invite = [&invite[..], &["--email", "hostile@example.com"]].concat();
        let link = subject.told(&invite)?;
        let (_, token) = link.split_once("/signup/").context("a link")?;
        let token = token.split_whitespace().next().context("a link")?;
        let api = Client::new(&credentials.admin_url, MEMBER)?;
        let names = json!({"first_name": "Hostile", "last_name": "Owner"});
        let path = format!("/api/signup/{token}/");
        let joined = super::runtime()?.block_on(api.call("POST", &path, "", &names));
        let key = text(&joined.json(), "/personal_api_key");
        let key = key.with_context(|| format!("nobody joined: {joined:?}"))?;
        good.furnish()?;
        Ok(Self {
            good,
            hostile: Tenant::new(api, &key)?,
        })
    }
}

/// A text in an answer.
pub(super) fn text(answer: &Value, pointer: &str) -> Option<String> {
    answer.pointer(pointer)?.as_str().map(str::to_owned)
}
