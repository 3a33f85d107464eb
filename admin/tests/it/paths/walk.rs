//! Requests every operation: who is refused, and what a successful request returns.
//!
//! Reads share one fixture for each walker; changes use a fresh copy of the database.

use super::examples::Recorder;
use super::sample::SampleData;
use super::table::{Access, Row, Table, pair};
use super::{two_organizations, without_servers};
use crate::Fixture;
use crate::fixture::{Snapshot, TestResponse};
use millrace_catalog::SCOPE_FAMILIES;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::task::JoinSet;

on_both!(threads: every_operation_serves_allowed_callers_and_refuses_others);

/// Number of rows that are tested concurrently.
const WALKERS: usize = 4;

/// Data that all walkers share.
struct Walk {
    table: Table,
    base: Snapshot,
    mine: SampleData,
    theirs: SampleData,
    document: Value,
    examples: Recorder,
}

async fn every_operation_serves_allowed_callers_and_refuses_others() {
    let (base, mine, theirs) = two_organizations().await;
    let document = base.get("/api/schema/").await.body;
    let walk = Arc::new(Walk {
        table: Table::read(),
        base: base.snapshot().await,
        mine,
        theirs,
        document,
        examples: Recorder::default(),
    });
    let mut walkers = JoinSet::new();
    for number in 0..WALKERS {
        let walk = walk.clone();
        walkers.spawn(async move {
            let shared = walk.base.open(without_servers).await;
            for row in walk.table.rows.iter().skip(number).step_by(WALKERS) {
                walk.refusals(row, &shared).await;
                walk.successes(row, &shared).await;
            }
        });
    }
    while let Some(ended) = walkers.join_next().await {
        ended.unwrap();
    }
    walk.examples.finish();
}

impl Walk {
    /// Checks that callers without access are refused, and that their requests change nothing.
    async fn refusals(&self, row: &Row, fixture: &Fixture) {
        if row.access == Access::Open {
            return;
        }
        let path = self.mine.path(&row.path);
        let own = self.mine.id("organizations");
        let foreign = path.replace(own, self.theirs.id("organizations"));
        let lacking = self.key_of(fixture, 15, &other_scopes(row)).await;
        let full = self.key(fixture, row, 15, None).await;
        let low = self.key(fixture, row, row.level - 1, None).await;
        let needs_scope = !row.scopes.is_empty() || row.access == Access::Operator;
        let has_level = row.access == Access::Members && row.level > 1;
        let missing = (401, "not_authenticated", None);
        let denied = (403, "permission_denied", None);
        let hidden = (404, "not_found", None);
        let before = fixture.contents().await;
        for (applies, key, path, expected) in [
            (true, None, &path, missing),
            (needs_scope, Some(&lacking), &path, denied),
            (has_level, Some(&low), &path, denied),
            (foreign != path, Some(&full), &foreign, hidden),
        ] {
            if applies {
                let answer = self.ask(fixture, row, path, key).await;
                let case = format!("{} {path}: {answer:?}", row.method);
                assert_eq!(answer.error(), expected, "{case}");
            }
        }
        let case = format!("{} {path}", row.method);
        fixture.assert_unchanged(&before, &case).await;
    }

    /// Checks that the least required access is enough, with the first and the last of the scopes,
    /// with and without the slash at the end.
    async fn successes(&self, row: &Row, shared: &Fixture) {
        let path = self.mine.path(&row.path);
        let bare = path.trim_end_matches('/').to_owned();
        let mut answers = Vec::new();
        for (path, scope) in [(path, row.scopes.first()), (bare, row.scopes.last())] {
            let copy = match row.method.as_str() {
                "GET" => None,
                _ => Some(self.base.open(without_servers).await),
            };
            let fixture = copy.as_ref().unwrap_or(shared);
            self.prepare(fixture, row).await;
            let key = self.key(fixture, row, row.level, scope).await;
            let key = (row.access != Access::Open).then_some(&key);
            let answer = self.ask(fixture, row, &path, key).await;
            self.table.check(row, &answer);
            answers.push(answer);
        }
        let id = self.check_documented(row, &answers);
        let body = row.body.as_ref().map(|body| self.mine.body(body));
        self.examples.record(id, row, body.as_ref(), &answers[0]);
        let same = kinds(&answers[0].body) == kinds(&answers[1].body);
        assert!(same, "{} {}: {answers:?}", row.method, row.path);
        if row.access == Access::Pipelines {
            self.refusals_without_pipeline_access(row).await;
        }
    }

    async fn refusals_without_pipeline_access(&self, row: &Row) {
        let fixture = self.base.open(without_servers).await;
        let off = json!({ "members_can_write_pipelines": false });
        let at = self.mine.path("/api/organizations/:id/");
        let set = fixture.call_with(&self.mine.key, "PATCH", &at, &off).await;
        assert_eq!(set.status, 200);
        self.prepare(&fixture, row).await;
        let path = self.mine.path(&row.path);
        for (level, expected) in [(1, 403), (8, row.status)] {
            let key = self.key(&fixture, row, level, None).await;
            let answer = self.ask(&fixture, row, &path, Some(&key)).await;
            assert_eq!(answer.status, expected, "{} {path}: {answer:?}", row.method);
        }
    }

    async fn prepare(&self, fixture: &Fixture, row: &Row) {
        for call in &row.after {
            let (method, path) = call.split_once(' ').unwrap();
            let scopes = ["*".to_owned(), "operator".to_owned()];
            let key = self.key_of(fixture, 15, &scopes).await;
            let path = self.mine.path(path);
            let answer = fixture.call_with(&key, method, &path, &json!({})).await;
            assert_eq!(answer.status, 200, "{call}: {answer:?}");
        }
    }

    async fn ask(
        &self,
        fixture: &Fixture,
        row: &Row,
        path: &str,
        key: Option<&String>,
    ) -> TestResponse {
        let bearer = key.map(|key| format!("Bearer {key}"));
        let mut headers = vec![("content-type", "application/json")];
        headers.extend(bearer.iter().map(|it| ("authorization", it.as_str())));
        let body = row.body.as_ref();
        let body = body.map_or_else(String::new, |body| self.mine.body(body).to_string());
        fixture
            .request(&row.method, &row.address(path), &headers, body.as_bytes())
            .await
    }

    /// Returns a key of a user with at most this level, with one scope or with all scopes.
    async fn key(
        &self,
        fixture: &Fixture,
        row: &Row,
        level: i16,
        scope: Option<&String>,
    ) -> String {
        let everything = || "*".to_owned();
        let (level, scope) = match row.access {
            Access::Operator => (15, "operator".to_owned()),
            Access::Key => (15, scope.cloned().unwrap_or_else(everything)),
            _ => (level, scope.cloned().unwrap_or_else(everything)),
        };
        self.key_of(fixture, level, &[scope]).await
    }

    async fn key_of(&self, fixture: &Fixture, level: i16, scopes: &[String]) -> String {
        let mut people = self.mine.people.iter();
        let found = people.find(|(least, _)| *least <= level.max(1));
        fixture.cached_key_of(&found.unwrap().1, scopes).await
    }

    /// Checks that the document has the status and the schema of both responses, and returns the
    /// operation's id. Each schema is compiled with the whole document.
    fn check_documented(&self, row: &Row, answers: &[TestResponse]) -> &str {
        let (named, method) = (row.pair(), row.method.to_lowercase());
        let mut paths = self.document["paths"].as_object().unwrap().iter();
        let item = paths.find(|(path, _)| pair(&method, path) == named);
        let (_, item) = item.unwrap_or_else(|| panic!("{named} is not in the document"));
        let status = answers[0].status;
        assert!(answers.iter().all(|it| it.status == status), "{answers:?}");
        let response = &item[&method]["responses"][status.to_string()];
        assert!(response.is_object(), "{named} {status}");
        let schema = &response["content"]["application/json"]["schema"];
        if schema.is_object() {
            let mut schema = schema.clone();
            schema["components"] = self.document["components"].clone();
            let options = jsonschema::options().should_validate_formats(true);
            let validator = options.build(&schema).unwrap();
            let bodies = answers.iter().map(|answer| &answer.body);
            let errors = bodies.flat_map(|body| validator.iter_errors(body));
            let errors: Vec<_> = errors.map(|error| error.to_string()).collect();
            assert!(errors.is_empty(), "{named}: {errors:?}");
        }
        item[&method]["operationId"].as_str().unwrap()
    }
}

/// Lists every scope except those of a row; for a family that the row writes, only reading.
fn other_scopes(row: &Row) -> Vec<String> {
    if row.access == Access::Operator {
        return vec!["*".to_owned()];
    }
    let scopes = SCOPE_FAMILIES.iter().filter_map(|family| {
        let mut accepted = row.scopes.iter();
        match accepted.find(|scope| scope.split(':').next() == Some(family)) {
            None => Some(format!("{family}:write")),
            Some(scope) => scope.ends_with(":write").then(|| format!("{family}:read")),
        }
    });
    scopes.collect()
}

/// Replaces the values of a body by their kinds, as generated values differ.
fn kinds(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter();
            let fields = fields.map(|(name, value)| (name.clone(), kinds(value)));
            Value::Object(fields.collect())
        }
        // One item of a list: keys that the test creates add entries to the activity log.
        Value::Array(items) => items.iter().take(1).map(kinds).collect(),
        Value::String(_) => json!("text"),
        Value::Number(_) => json!(0),
        other => other.clone(),
    }
}
