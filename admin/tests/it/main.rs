//! The admin API over a real catalog.
//!
//! Rules: requests go through the routes without a socket, except in `server`; one catalog per
//! test.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs,
    reason = "tests"
)]

mod dns;
mod mail;
mod organizations;
mod proxy_check;
mod server;
mod servers;
mod signup_page;

use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{Actor, Bootstrap, BootstrapOptions, Catalog, NewPersonalKey, Scopes};
use serde_json::Value;

/// A catalog after its first start.
pub struct Fixture {
    pub catalog: Catalog,
    pub made: Bootstrap,
    _database: TestDatabase,
}

/// What was answered.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: http::HeaderMap,
    pub body: Value,
}

impl Fixture {
    pub async fn new() -> Self {
        let database = TestDatabase::sqlite();
        let catalog = Catalog::open(database.url()).await.unwrap();
        let made = catalog
            .bootstrap(BootstrapOptions::default())
            .await
            .unwrap()
            .unwrap();
        Self {
            catalog,
            made,
            _database: database,
        }
    }

    pub async fn key(&self, scopes: &[&str]) -> String {
        let new = NewPersonalKey {
            email: self.made.owner_email.clone(),
            label: "Test".to_owned(),
            scopes: Scopes::parse(scopes).unwrap(),
            expires_at: None,
            scoped_organizations: None,
        };
        let key = self
            .catalog
            .create_personal_key(&Actor::system(), new)
            .await
            .unwrap();
        key.value.expose().to_owned()
    }

    pub async fn send(&self, method: &str, path: &str, key: Option<&str>) -> Answer {
        let mut request = warp::test::request()
            .method(method)
            .path(path)
            .header("host", "admin.example:8010");
        if let Some(key) = key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let services = millrace_admin::Services::new(self.catalog.clone());
        let response = request
            .reply(&millrace_admin::routes(services).unwrap())
            .await;
        Answer {
            status: response.status().as_u16(),
            headers: response.headers().clone(),
            body: serde_json::from_slice(response.body()).unwrap_or_default(),
        }
    }

    /// With the owner's key.
    pub async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, Some(self.made.personal_api_key.expose()))
            .await
    }
}
