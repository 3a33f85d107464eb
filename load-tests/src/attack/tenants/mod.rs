//! Tenants of the server: one that works normally, and one that attacks with all that a tenant has.
//!
//! - [`records`]: records of each kind that a tenant has.
//! - [`long_query`]: queries that others may try to stop.

mod long_query;
mod records;

pub(super) use long_query::{LongQuery, SQL as LONG_QUERY, TimeSpan};

use super::http::{Client, Outcome};
use super::subject::Subject;
use crate::runtime::current_thread_runtime;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::io;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::net::TcpStream;

/// Source address of the good tenant.
pub(super) const GOOD: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 1);
/// Source addresses of the hostile tenant: without a key, with its project's key, with its API
/// keys, as the analyst, with made-up keys, which have a limit by address that holds for tokens of
/// the API's paths, too, and at the health listener.
pub(super) const STRANGER: Ipv4Addr = Ipv4Addr::new(127, 6, 6, 1);
pub(super) const SENDER: Ipv4Addr = Ipv4Addr::new(127, 6, 6, 2);
pub(super) const MEMBER: Ipv4Addr = Ipv4Addr::new(127, 6, 6, 3);
pub(super) const ANALYST: Ipv4Addr = Ipv4Addr::new(127, 6, 6, 4);
pub(super) const GUESSER: Ipv4Addr = Ipv4Addr::new(127, 6, 6, 5);
pub(super) const SCRAPER: Ipv4Addr = Ipv4Addr::new(127, 6, 6, 6);
/// API keys of each user. Each key has a limit of requests, and a user may have a hundred keys.
const KEYS: usize = 12;
/// Further organizations of the hostile owner.
const FURTHER: usize = 3;

/// A tenant with its organization, project and keys.
pub(super) struct Tenant {
    /// Id of the organization.
    pub(super) organization: String,
    /// Name of the organization.
    pub(super) name: String,
    /// Id and key of the project.
    pub(super) project_id: u64,
    pub(super) project_key: String,
    /// Query that runs now, if one does.
    pub(super) long_query: LongQuery,
    keys: Vec<String>,
    next_key: AtomicUsize,
    api: Client,
}

impl Tenant {
    /// A tenant with a first API key, which creates the others.
    fn new(api: Client, first_key: &str) -> Result<Self> {
        let runtime = current_thread_runtime()?;
        let mut keys = Vec::new();
        for number in 0..KEYS {
            let body = json!({"label": format!("Key {number}"), "scopes": ["*"]});
            let asked = api.call("POST", "/api/personal_api_keys/", first_key, &body);
            let made = runtime.block_on(asked);
            keys.push(text(&made.json(), "/value").with_context(|| format!("a key: {made:?}"))?);
        }
        Self::of(api, keys, "@current")
    }

    /// A tenant with these keys, in an organization with one project.
    fn of(api: Client, keys: Vec<String>, organization: &str) -> Result<Self> {
        let key = keys.first().context("a key")?;
        let runtime = current_thread_runtime()?;
        let get = |below: &str| {
            let path = format!("/api/organizations/{organization}/{below}");
            let asked = runtime.block_on(api.call("GET", &path, key, &Value::Null));
            ensure!(asked.status() == 200, "{path}: {asked:?}");
            Ok(asked.json())
        };
        let (organization, projects) = (get("")?, get("projects/")?);
        ensure!(
            projects.get("count") == Some(&json!(1)),
            "more projects than one: {projects}"
        );
        let project_id = projects.pointer("/results/0/id").and_then(Value::as_u64);
        Ok(Self {
            organization: text(&organization, "/id").context("an organization")?,
            name: text(&organization, "/name").context("an organization")?,
            project_id: project_id.context("a project")?,
            project_key: text(&projects, "/results/0/api_token").context("a project's key")?,
            long_query: LongQuery::default(),
            keys,
            next_key: AtomicUsize::new(0),
            api,
        })
    }

    /// Creates another organization of the same owner.
    fn another(&self, name: &str) -> Result<Self> {
        let body = json!({"name": name});
        let asked = self.ask_at("POST", "/api/organizations/", &body);
        let made = current_thread_runtime()?.block_on(asked);
        ensure!(made.status() == 201, "an organization: {made:?}");
        let id = text(&made.json(), "/id").context("an organization's id")?;
        Self::of(self.api.clone(), self.keys.clone(), &id)
    }

    /// The next API key, in turn.
    pub(super) fn key(&self) -> &str {
        let at = self.next_key.fetch_add(1, Ordering::Relaxed) % self.keys.len().max(1);
        self.keys.get(at).map_or("", String::as_str)
    }

    /// Sends a request to a path below the organization's.
    pub(super) async fn ask(&self, method: &str, path: &str, body: &Value) -> Outcome {
        let path = format!("/api/organizations/{}/{path}", self.organization);
        self.ask_at(method, &path, body).await
    }

    /// Opens a connection to the API.
    pub(super) async fn connect(&self) -> io::Result<TcpStream> {
        self.api.connect().await
    }

    /// Sends a request to a path of the API.
    pub(super) async fn ask_at(&self, method: &str, path: &str, body: &Value) -> Outcome {
        self.api.call(method, path, self.key(), body).await
    }
}

/// The good tenant and the hostile one, with further organizations of the hostile owner.
pub(super) struct Tenants {
    pub(super) good: Tenant,
    pub(super) hostile: Tenant,
    pub(super) further: Vec<Tenant>,
}

impl Tenants {
    /// Takes the organization of the first start, and creates another with its own owner.
    pub(super) fn make(subject: &Subject) -> Result<Self> {
        let credentials = &subject.credentials;
        let good = Tenant::new(
            Client::new(&credentials.admin_url, GOOD)?,
            &credentials.personal_api_key,
        )?;
        let made = subject.output_of(&["organizations", "create", "--name", "Hostile"])?;
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
        let link = subject.output_of(&invite)?;
        let (_, token) = link.split_once("/signup/").context("a link")?;
        let token = token.split_whitespace().next().context("a link")?;
        let api = Client::new(&credentials.admin_url, MEMBER)?;
        let names = json!({"first_name": "Hostile", "last_name": "Owner"});
        let path = format!("/api/signup/{token}/");
        let joined = current_thread_runtime()?.block_on(api.call("POST", &path, "", &names));
        let key = text(&joined.json(), "/personal_api_key");
        let key = key.with_context(|| format!("the invitation was not accepted: {joined:?}"))?;
        let hostile = Tenant::new(api, &key)?;
        good.create_records("good.example.com")?;
        hostile.create_records("hostile.example.com")?;
        let further = (1..=FURTHER).map(|number| hostile.another(&format!("Hostile {number}")));
        let further = further.collect::<Result<_>>()?;
        Ok(Self {
            good,
            hostile,
            further,
        })
    }

    /// Project key of the hostile owner's organizations, in turn.
    pub(super) fn hostile_key(&self, turn: usize) -> &str {
        let mut all = std::iter::once(&self.hostile).chain(&self.further);
        let tenant = all.nth(turn % (self.further.len() + 1));
        &tenant.unwrap_or(&self.hostile).project_key
    }

    /// Returns true if it is the turn of the hostile owner's first organization.
    pub(super) const fn is_first(&self, turn: usize) -> bool {
        turn.is_multiple_of(self.further.len() + 1)
    }
}

/// A text in a JSON body, by pointer.
pub(super) fn text(answer: &Value, pointer: &str) -> Option<String> {
    answer.pointer(pointer)?.as_str().map(str::to_owned)
}
