//! A server with two projects, each of which has rows in all tables.

use crate::server::{Server, ask};
use serde_json::{Value, json};
use std::time::Duration;
use tempfile::TempDir;

/// Text in each row of the second project that the first one may not see.
pub const CANARY: &str = "CANARY2";
/// Tables and views of a project.
pub const TABLES: [&str; 7] = [
    "events",
    "persons",
    "person_distinct_ids",
    "groups",
    "rejected_events",
    "persons_current",
    "events_with_persons",
];
/// Rows of both projects, in the same parts. `PROJECT` and `TEXT` are of one of them.
const ROWS: [&str; 5] = [
    "events (uuid, event, timestamp, team_id, distinct_id, properties) \
     SELECT generateUUIDv4(), TEXT, toDateTime64('2026-11-01 00:00:00', 6), PROJECT, TEXT, TEXT",
    "persons (team_id, id, properties, version) SELECT PROJECT, generateUUIDv4(), TEXT, 1",
    "person_distinct_ids (team_id, distinct_id, person_id, version) \
     SELECT PROJECT, concat(TEXT, toString(number)), generateUUIDv4(), 1",
    "groups (team_id, group_type, group_key, properties, version) \
     SELECT PROJECT, TEXT, toString(number), TEXT, 1",
    "rejected_events (team_id, received_at, request_id, `index`, code, raw) \
     SELECT PROJECT, toDateTime64('2026-11-01 00:00:00', 6), TEXT, 1, TEXT, TEXT",
];

/// Running server with the ids of its projects.
pub struct Tenants {
    pub server: Server,
    pub dir: TempDir,
    pub first: i64,
    pub second: i64,
}

/// Answer of a query.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn header(&self, name: &str) -> String {
        let found = self.headers.iter().find(|(had, _)| had == name);
        found.map(|(_, value)| value.clone()).unwrap_or_default()
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

impl Tenants {
    /// Starts a server without rate limits.
    pub fn start() -> Self {
        let dir = TempDir::new().unwrap();
        let unthrottled = [
            "--admin-requests-per-minute-max",
            "0",
            "--admin-requests-per-hour-max",
            "0",
        ];
        let server = Server::start_with(dir.path(), &unthrottled);
        server.wait_for_tables();
        let projects = "/api/organizations/@current/projects/";
        let (status, made) = ask(&server, "POST", projects, &json!({ "name": "Second" }));
        assert_eq!(status, 201, "{made}");
        let tenants = Self {
            server,
            dir,
            first: 1,
            second: made["id"].as_i64().unwrap(),
        };
        for rows in ROWS {
            let is_first = "number % 2 = 0";
            let project = format!("if({is_first}, {}, {})", tenants.first, tenants.second);
            let rows = rows.replace("PROJECT", &project);
            let rows = rows.replace("TEXT", &format!("if({is_first}, 'mine', '{CANARY}')"));
            tenants.own(&format!("INSERT INTO millrace.{rows} FROM numbers(100)"));
        }
        tenants
    }

    /// Runs a statement as the server's own user.
    pub fn own(&self, sql: &str) -> String {
        self.server.query(sql)
    }

    /// Runs a query through the API.
    pub fn query(&self, project_id: i64, accept: &str, sql: &str) -> Answer {
        let body = json!({ "query": sql });
        self.begin(project_id, accept, &body, Duration::from_secs(120))
            .unwrap()
    }

    /// Runs a query through the API for as long as a client waits.
    pub fn begin(
        &self,
        project_id: i64,
        accept: &str,
        body: &Value,
        timeout: Duration,
    ) -> Result<Answer, ureq::Error> {
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(timeout))
            .build()
            .into();
        let url = self.server.credential("admin_url");
        let key = self.server.credential("personal_api_key");
        let request = ureq::http::Request::builder()
            .method("POST")
            .uri(format!("{url}/api/projects/{project_id}/query/"))
            .header("content-type", "application/json")
            .header("accept", accept)
            .header("authorization", format!("Bearer {key}"))
            .body(body.to_string())
            .unwrap();
        let mut answer = agent.run(request)?;
        let headers = answer.headers().iter().map(|(name, value)| {
            let value = value.to_str().unwrap_or_default();
            (name.as_str().to_owned(), value.to_owned())
        });
        Ok(Answer {
            status: answer.status().as_u16(),
            headers: headers.collect(),
            body: answer
                .body_mut()
                .with_config()
                .limit(1 << 30)
                .read_to_vec()?,
        })
    }

    /// Queries of projects that run in ClickHouse.
    pub fn running(&self) -> String {
        self.own("SELECT count() FROM system.processes WHERE startsWith(query_id, 'project_')")
    }
}
