//! Fixture: the API over a catalog after its first start.

use crate::fake_live::FakeLive;
use crate::fake_queries::FakeQueries;
use crate::fake_rejected_events::FakeRejectedEvents;
use crate::fake_stats::FakeStats;
use millrace_admin::{ApiConfig, Services};
use millrace_catalog::testing::{DatabaseKind, TestDatabase};
use millrace_catalog::{Actor, Catalog, Level, Scopes, User};
use millrace_exports::SecretKey;
use millrace_organizations::testing::SourcesInProcess;
use millrace_organizations::{
    Bootstrap, BootstrapOptions, NewPersonalKey, NewUser, Organizations, PersonalKeys, Users,
    bootstrap,
};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::sync::Mutex;
use uuid::Uuid;
use warp::filters::BoxedFilter;
use warp::reply::Response;
use warp::{Filter, Reply};

tokio::task_local! {
    /// Kind of database of this test's fixtures.
    static DATABASE: DatabaseKind;
}

/// Runs a test whose fixtures use a kind of database.
pub async fn on<F: Future<Output = ()>>(kind: DatabaseKind, test: impl FnOnce() -> F) {
    DATABASE.scope(kind, test()).await;
}

pub struct Fixture {
    pub catalog: Catalog,
    pub made: Bootstrap,
    keys: Mutex<BTreeMap<(String, Vec<String>), String>>,
    api: BoxedFilter<(Response,)>,
    database: TestDatabase,
}

/// Database of a fixture at its end.
pub struct Snapshot {
    database: TestDatabase,
    made: Bootstrap,
}

impl Snapshot {
    /// Opens a fixture on a copy of the database; `set` changes its services.
    pub async fn open(&self, set: impl FnOnce(&mut Services)) -> Fixture {
        let database = self.database.copy().await.unwrap();
        let catalog = Catalog::open(database.url()).await.unwrap();
        Fixture::over(database, catalog, self.made.clone(), set)
    }
}

/// Response of the API.
#[derive(Debug)]
pub struct TestResponse {
    pub status: u16,
    pub headers: http::HeaderMap,
    pub body: Value,
}

impl TestResponse {
    /// Value of a header as text; empty if it is missing.
    pub fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        value.map_or("", |value| value.to_str().unwrap())
    }

    /// Status, code and field of an error.
    pub fn error(&self) -> (u16, &str, Option<&str>) {
        let code = self.body["code"].as_str().unwrap_or_default();
        (self.status, code, self.body["attr"].as_str())
    }
}

impl Fixture {
    pub async fn new() -> Self {
        Self::with_services(|_| ()).await
    }

    pub async fn with(config: ApiConfig) -> Self {
        Self::with_services(|services| services.config = config).await
    }

    /// Creates a fixture; `set` changes its services.
    pub async fn with_services(set: impl FnOnce(&mut Services)) -> Self {
        let kind = DATABASE.try_with(|kind| *kind);
        let kind = kind.expect("tests with a fixture are named in `on_both!`");
        let database = TestDatabase::of(kind).await;
        let catalog = Catalog::open(database.url()).await.unwrap();
        let made = bootstrap(&catalog, BootstrapOptions::default()).await;
        Self::over(database, catalog, made.unwrap().unwrap(), set)
    }

    /// Ends this fixture; others can be opened on its database.
    pub async fn snapshot(self) -> Snapshot {
        self.catalog.close().await.unwrap();
        Snapshot {
            database: self.database,
            made: self.made,
        }
    }

    fn over(
        database: TestDatabase,
        catalog: Catalog,
        made: Bootstrap,
        set: impl FnOnce(&mut Services),
    ) -> Self {
        let mut services = Services::new(catalog.clone(), SecretKey::generate().unwrap());
        services.source_parser = Some(Arc::new(SourcesInProcess));
        services.project_queries = Some(Arc::new(FakeQueries));
        services.live = Some(Arc::new(FakeLive::default()));
        services.rejected_events = Some(Arc::new(FakeRejectedEvents::default()));
        services.project_stats = Some(Arc::new(FakeStats::default()));
        services.config = Self::unthrottled();
        set(&mut services);
        let api = millrace_admin::routes(services).unwrap();
        Self {
            catalog,
            made,
            keys: Mutex::default(),
            api: api.map(Reply::into_response).boxed(),
            database,
        }
    }

    /// Configuration without rate limits; tests of the limits set their own.
    pub fn unthrottled() -> ApiConfig {
        ApiConfig {
            requests_per_minute_max: 0,
            requests_per_hour_max: 0,
            ..ApiConfig::default()
        }
    }

    /// Creates a key of the owner.
    pub async fn key(&self, scopes: &[&str]) -> String {
        self.key_of(&self.made.owner_email, scopes).await
    }

    pub async fn key_of(&self, email: &str, scopes: &[impl AsRef<str>]) -> String {
        let new = NewPersonalKey {
            email: email.to_owned(),
            label: "Test".to_owned(),
            scopes: Scopes::parse(scopes).unwrap(),
            expires_at: None,
            scoped_organizations: None,
        };
        let key = PersonalKeys::new(&self.catalog)
            .create(&Actor::system(), new)
            .await;
        key.unwrap().value.expose().to_owned()
    }

    /// Returns a key of a user with these scopes; reuses one, as the number of keys is limited.
    pub async fn cached_key_of(&self, email: &str, scopes: &[String]) -> String {
        let mut keys = self.keys.lock().await;
        let wanted = (email.to_owned(), scopes.to_vec());
        if let Some(key) = keys.get(&wanted) {
            return key.clone();
        }
        let key = self.key_of(email, scopes).await;
        keys.insert(wanted, key.clone());
        key
    }

    /// Creates a member of the first organization; returns a key of theirs for everything.
    pub async fn member(&self, email: &str, level: Level) -> String {
        self.member_of(self.made.organization_id, email, level)
            .await;
        self.key_of(email, &["*"]).await
    }

    /// Creates a member of an organization, without a key.
    pub async fn member_of(&self, organization: Uuid, email: &str, level: Level) -> User {
        let new = NewUser {
            email: email.to_owned(),
            ..NewUser::default()
        };
        let user = Users::new(&self.catalog).create(new).await.unwrap();
        let added = self.catalog.add_member(organization, user.id, level);
        added.await.unwrap();
        user
    }

    /// Contents of the database, without the times of the keys' last use.
    pub async fn contents(&self) -> BTreeSet<String> {
        self.execute("UPDATE personal_api_keys SET last_used_at = NULL")
            .await;
        let contents = self.database.contents().await.unwrap();
        contents.into_iter().collect()
    }

    /// Fails if the contents of the database differ from `before`.
    pub async fn assert_unchanged(&self, before: &BTreeSet<String>, case: &str) {
        let after = self.contents().await;
        let changed: Vec<_> = after.symmetric_difference(before).collect();
        assert!(changed.is_empty(), "{case}: {changed:#?}");
    }

    /// Opens a second instance, as another process would: it shares only the database.
    pub async fn another_process(&self) -> Self {
        let catalog = Catalog::open(self.database.url()).await.unwrap();
        let made = self.made.clone();
        Self::over(self.database.again(), catalog, made, |_| ())
    }

    /// Database of the fixture, for statements that differ by kind.
    pub fn database(&self) -> &TestDatabase {
        &self.database
    }

    /// Runs an SQL statement, for changes that no request can make.
    pub async fn execute(&self, sql: &str) {
        self.database.execute(sql).await.unwrap();
    }

    /// Creates an organization without members, with its project.
    pub async fn foreign_organization(&self) -> Uuid {
        let system = Actor::system();
        let made = Organizations::new(&self.catalog).create(&system, "Theirs", None);
        made.await.unwrap().id
    }

    /// Creates a user without a membership; returns the id.
    pub async fn user(&self, email: &str) -> i64 {
        let new = NewUser {
            email: email.to_owned(),
            ..NewUser::default()
        };
        Users::new(&self.catalog).create(new).await.unwrap().id
    }

    /// Key of the owner for everything, created at the first start.
    pub fn owner_key(&self) -> &str {
        self.made.personal_api_key.expose()
    }

    pub async fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> TestResponse {
        let mut request = warp::test::request().method(method).path(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if !headers.iter().any(|(name, _)| *name == "host") {
            request = request.header("host", "admin.example:8010");
        }
        if !body.is_empty() {
            request = request.body(body);
        }
        let response = request.reply(&self.api).await;
        TestResponse {
            status: response.status().as_u16(),
            headers: response.headers().clone(),
            body: body_of(&response),
        }
    }

    pub async fn send(&self, method: &str, path: &str, key: Option<&str>) -> TestResponse {
        let bearer = key.map(|key| format!("Bearer {key}"));
        let headers: Vec<_> = bearer
            .iter()
            .map(|it| ("authorization", it.as_str()))
            .collect();
        self.request(method, path, &headers, b"").await
    }

    /// Requests an HTML page, without a key.
    pub async fn page(&self, path: &str) -> String {
        let response = warp::test::request().path(path).reply(&self.api).await;
        String::from_utf8(response.body().to_vec()).unwrap()
    }

    /// Sends a `GET` with the owner's key; returns the body as text.
    pub async fn text(&self, path: &str) -> String {
        let bearer = format!("Bearer {}", self.owner_key());
        let request = warp::test::request()
            .path(path)
            .header("host", "admin.example:8010")
            .header("authorization", bearer);
        let response = request.reply(&self.api).await;
        String::from_utf8(response.body().to_vec()).unwrap()
    }

    /// Sends a `GET` with the owner's key.
    pub async fn get(&self, path: &str) -> TestResponse {
        self.send("GET", path, Some(self.owner_key())).await
    }

    /// Sends JSON with the owner's key.
    pub async fn call(&self, method: &str, path: &str, body: &Value) -> TestResponse {
        self.call_with(self.owner_key(), method, path, body).await
    }

    /// Sends JSON with another key.
    pub async fn call_with(
        &self,
        key: &str,
        method: &str,
        path: &str,
        body: &Value,
    ) -> TestResponse {
        let bearer = format!("Bearer {key}");
        let headers = [
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
        ];
        self.request(method, path, &headers, body.to_string().as_bytes())
            .await
    }
}

/// Body as JSON: CSV as a text, and `null` for all that is no JSON.
fn body_of(response: &http::Response<bytes::Bytes>) -> Value {
    let content_type = response.headers().get("content-type");
    let is_csv = content_type.is_some_and(|it| it.as_bytes().starts_with(b"text/csv"));
    if is_csv {
        return String::from_utf8_lossy(response.body()).into();
    }
    serde_json::from_slice(response.body()).unwrap_or_default()
}
