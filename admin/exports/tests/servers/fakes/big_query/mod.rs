//! Tests of BigQuery: resumable uploads, load jobs, query jobs.

mod failures;

use super::keys::{self, opened};
use super::merge::Merge;
use super::server::{self, Fake, Fault, Reply, refusal};
use crate::rows::{delivered, fat_row, lines, row, run, written};
use crate::wire::Request;
use millrace_catalog::DestinationType;
use millrace_catalog::testing::nested_markers;
use millrace_exports::ExportErrorKind;
use millrace_exports::destination::warehouse::{Warehouse, WarehouseDeps};
use millrace_exports::destination::{Destination, TestStep};
use millrace_rows::{Micros, TestClock};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

const NOW_SECONDS: i64 = 1_795_132_800;
const API: &str = "/bigquery/v2/projects/my-project";

#[derive(Default)]
struct FakeBigQuery {
    base: String,
    /// Job and bytes of each upload.
    uploads: Vec<(Value, Vec<u8>)>,
    jobs: BTreeMap<String, Value>,
    tables: BTreeMap<String, Vec<Value>>,
    /// Columns of each table that was ever created.
    columns: BTreeMap<String, Vec<String>>,
    events: BTreeMap<String, Value>,
    merges: Vec<String>,
    /// Bytes of each piece that are taken at most.
    taken_max: Option<usize>,
    /// True if load jobs end only after a table was dropped.
    is_slow: bool,
    /// Table and rows of each load job that runs.
    running: BTreeMap<String, (String, Vec<Value>)>,
}

impl FakeBigQuery {
    fn answer(&mut self, request: &Request) -> Reply {
        if request.target == "/token" {
            return token(request, &self.base);
        }
        assert_eq!(request.headers["authorization"], "Bearer token");
        let target = request.target.split('?').next().unwrap();
        match (request.method.as_str(), target) {
            ("POST", "/upload/bigquery/v2/projects/my-project/jobs") => self.begin(request),
            ("PUT", upload) => self.take(upload.strip_prefix("/session/").unwrap(), request),
            ("POST", path) if path == format!("{API}/jobs") => self.query(request),
            ("POST", path) if path == format!("{API}/datasets/my_data/tables") => {
                self.create(request)
            }
            ("POST", path) if path.ends_with("/cancel") => self.cancel(request),
            ("GET", path) if path.starts_with(&format!("{API}/jobs/")) => {
                assert!(request.target.ends_with("?location=europe-west3"));
                let id = path.rsplit('/').next().unwrap();
                match self.jobs.get(id) {
                    Some(job) => Reply::json(200, job.clone()),
                    None => Reply::json(404, Value::Null),
                }
            }
            ("GET", path) if path == format!("{API}/datasets/my_data") => {
                Reply::json(200, json!({"location": "europe-west3"}))
            }
            ("GET", path) if path.starts_with(&format!("{API}/datasets/my_data/tables/")) => {
                match self.tables.get(path.rsplit('/').next().unwrap()) {
                    Some(rows) => Reply::json(200, json!({"numRows": rows.len().to_string()})),
                    None => Reply::json(404, Value::Null),
                }
            }
            ("DELETE", path) => {
                let gone = self.tables.remove(path.rsplit('/').next().unwrap());
                self.tables
                    .extend(std::mem::take(&mut self.running).into_values());
                Reply::json(if gone.is_some() { 204 } else { 404 }, Value::Null)
            }
            other => panic!("{other:?}"),
        }
    }

    fn begin(&mut self, request: &Request) -> Reply {
        assert!(request.target.ends_with("?uploadType=resumable"));
        self.uploads.push((request.json(), Vec::new()));
        let location = format!("{}session/{}", self.base, self.uploads.len() - 1);
        Reply {
            headers: vec![("location", location)],
            ..Reply::json(200, Value::Null)
        }
    }

    fn take(&mut self, upload: &str, request: &Request) -> Reply {
        let (job, has) = &mut self.uploads[upload.parse::<usize>().unwrap()];
        let range = request.headers["content-range"]
            .strip_prefix("bytes ")
            .unwrap();
        let (range, total) = range.split_once('/').unwrap();
        if total == "*" {
            assert_eq!(request.body.len() % (256 << 10), 0, "a multiple of 256 KiB");
        }
        if let Some((first, last)) = range.split_once('-') {
            let (first, last): (usize, usize) = (first.parse().unwrap(), last.parse().unwrap());
            assert_eq!(last - first + 1, request.body.len());
            assert_eq!(first, has.len(), "neither a gap nor what is there already");
            let new = &request.body;
            let new = &new[..new.len().min(self.taken_max.unwrap_or(usize::MAX))];
            has.extend_from_slice(new);
        }
        if total.parse() != Ok(has.len()) {
            let last = has.len().checked_sub(1);
            let range = last.map(|last| ("range", format!("bytes=0-{last}")));
            return Reply {
                headers: range.into_iter().collect(),
                ..Reply::json(308, Value::Null)
            };
        }
        let load = &job["configuration"]["load"];
        assert_eq!(load["sourceFormat"], "NEWLINE_DELIMITED_JSON");
        assert_eq!(load["writeDisposition"], "WRITE_TRUNCATE");
        let table = load["destinationTable"]["tableId"]
            .as_str()
            .unwrap()
            .to_owned();
        let text = std::str::from_utf8(has).unwrap();
        let rows: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let mut done = job.clone();
        done["status"] = json!({"state": "DONE"});
        done["statistics"] = json!({"load": {"outputRows": rows.len().to_string()}});
        self.columns.insert(table.clone(), columns(&load["schema"]));
        let id = job["jobReference"]["jobId"].as_str().unwrap().to_owned();
        if self.is_slow {
            done["status"] = json!({"state": "RUNNING"});
            self.running.insert(id.clone(), (table, rows));
        } else {
            self.tables.insert(table, rows);
        }
        self.jobs.insert(id, done.clone());
        Reply::json(200, done)
    }

    fn cancel(&mut self, request: &Request) -> Reply {
        assert_eq!(request.headers["content-length"], "0");
        let (path, query) = request.target.split_once('?').unwrap();
        assert_eq!(query, "location=europe-west3");
        let job = path.strip_suffix("/cancel").unwrap();
        let id = job.strip_prefix(&format!("{API}/jobs/")).unwrap();
        let Some(job) = self.jobs.get_mut(id) else {
            return Reply::json(404, Value::Null);
        };
        if self.running.remove(id).is_some() {
            job["status"] = json!({"state": "DONE", "errorResult": {"reason": "stopped"}});
        }
        Reply::json(200, json!({"job": job.clone()}))
    }

    fn query(&mut self, request: &Request) -> Reply {
        let mut job = request.json();
        assert_eq!(job["jobReference"]["location"], "europe-west3");
        let id = job["jobReference"]["jobId"].as_str().unwrap().to_owned();
        if self.jobs.contains_key(&id) {
            return Reply::json(409, Value::Null);
        }
        let sql = job["configuration"]["query"]["query"]
            .as_str()
            .unwrap()
            .to_owned();
        let merge = Merge::parsed(&sql);
        assert_eq!(merge.target, "my-project.my_data.events");
        let stage = merge.stage.strip_prefix("my-project.my_data.").unwrap();
        merge.check(&self.columns["events"], &self.columns[stage]);
        for row in &self.tables[stage] {
            let uuid = row["uuid"].as_str().unwrap().to_owned();
            self.events.insert(uuid, row.clone());
        }
        self.merges.push(sql);
        job["status"] = json!({"state": "DONE"});
        self.jobs.insert(id, job.clone());
        Reply::json(200, job)
    }

    fn create(&mut self, request: &Request) -> Reply {
        let made = request.json();
        let table = made["tableReference"]["tableId"]
            .as_str()
            .unwrap()
            .to_owned();
        if self.tables.contains_key(&table) {
            return Reply::json(409, Value::Null);
        }
        self.columns.insert(table.clone(), columns(&made["schema"]));
        self.tables.insert(table, Vec::new());
        Reply::json(200, json!({}))
    }
}

fn columns(schema: &Value) -> Vec<String> {
    let fields = schema["fields"].as_array().unwrap().iter();
    let names = fields.map(|field| field["name"].as_str().unwrap().to_owned());
    names.collect()
}

fn token(request: &Request, base: &str) -> Reply {
    let body = url::form_urlencoded::parse(&request.body).into_owned();
    let body: BTreeMap<String, String> = body.collect();
    assert_eq!(
        body["grant_type"],
        "urn:ietf:params:oauth:grant-type:jwt-bearer"
    );
    let (header, claims) = opened(&body["assertion"]);
    assert_eq!(header["kid"], "key-1");
    assert_eq!(claims["iss"], "canary-user@example.com");
    assert_eq!(claims["aud"], format!("{base}token"));
    assert_eq!(
        (claims["iat"].clone(), claims["exp"].clone()),
        (json!(NOW_SECONDS), json!(NOW_SECONDS + 3_600))
    );
    Reply::json(200, json!({"access_token": "token", "expires_in": 3599}))
}

async fn started(service: &Arc<Mutex<FakeBigQuery>>) -> Fake {
    started_with(service, |_| None).await
}

/// Starts a fake with faults: requests that they answer are not carried out.
async fn started_with(
    service: &Arc<Mutex<FakeBigQuery>>,
    mut fault: impl FnMut(&Request) -> Option<Reply> + Send + 'static,
) -> Fake {
    let shared = Arc::clone(service);
    let answer = move |request: &Request| match fault(request) {
        Some(reply) => reply,
        None => shared.lock().unwrap().answer(request),
    };
    let fake = Fake::start(answer).await;
    service.lock().unwrap().base = fake.url.to_string();
    fake
}

fn big_query(fake: &Fake) -> Warehouse {
    big_query_by(fake, server::deps)
}

/// Opens BigQuery with the limits of its dependencies.
fn big_query_by(fake: &Fake, deps: fn(TestClock) -> WarehouseDeps) -> Warehouse {
    let config = json!({"project_id": "my-project", "dataset_id": "my_data"});
    // The key as it is in Google's JSON.
    let key = keys::PLAIN.replace('\n', "\\n");
    let token_uri = fake.url.join("token").unwrap();
    let secrets = [
        ("private_key", key.as_str()),
        ("private_key_id", "key-1"),
        ("token_uri", token_uri.as_str()),
        ("client_email", "canary-user@example.com"),
    ];
    let clock = TestClock::at(Micros(NOW_SECONDS * 1_000_000));
    server::opened_by(
        fake,
        DestinationType::BigQuery,
        &config,
        &secrets,
        deps(clock),
    )
}

fn check(service: &FakeBigQuery, rows: usize) {
    assert_eq!(service.events.len(), rows);
    let stored = service.events.values().nth(1).unwrap();
    assert_eq!(stored["event"], row(1)["event"]);
    let properties: Value = serde_json::from_str(stored["properties"].as_str().unwrap()).unwrap();
    assert_eq!(properties, row(1)["properties"]);
    assert!(
        service.tables.keys().all(|table| table == "events"),
        "nothing is left"
    );
}

#[tokio::test]
async fn rows_arrive_once_whichever_answer_is_lost() {
    for fault in [Fault::Lost, Fault::Busy, Fault::Broken, Fault::Limited] {
        for number in 0..20 {
            let service = Arc::new(Mutex::new(FakeBigQuery::default()));
            let fake = started(&service).await;
            fake.inject(number, fault);
            // Three pieces.
            let lines = lines((0..10).map(fat_row));
            let outcome = delivered(&big_query(&fake), &run(0), &lines).await.unwrap();
            assert_eq!(outcome.rows, Some(10), "{fault:?} {number}");
            check(&service.lock().unwrap(), 10);
            assert_eq!(service.lock().unwrap().merges.len(), 1);
            if fake.is_pending() {
                break;
            }
        }
    }
}

#[tokio::test]
async fn the_rest_of_a_partly_taken_piece_is_sent() {
    let service = Arc::new(Mutex::new(FakeBigQuery::default()));
    service.lock().unwrap().taken_max = Some(3 << 20);
    let fake = started(&service).await;
    delivered(&big_query(&fake), &run(0), &lines((0..10).map(fat_row)))
        .await
        .unwrap();
    check(&service.lock().unwrap(), 10);
}

#[tokio::test]
async fn empty_windows_and_windows_exported_again_succeed() {
    let service = Arc::new(Mutex::new(FakeBigQuery::default()));
    let fake = started(&service).await;
    let big_query = big_query(&fake);
    assert_eq!(
        delivered(&big_query, &run(0), "").await.unwrap().rows,
        Some(0)
    );
    for _ in 0..2 {
        delivered(&big_query, &run(0), &lines((0..3).map(row)))
            .await
            .unwrap();
    }
    check(&service.lock().unwrap(), 3);
    written(&big_query, &run(0), &lines([row(9)]))
        .await
        .unwrap()
        .abort()
        .await;
    check(&service.lock().unwrap(), 3);
}

#[tokio::test]
async fn a_token_that_overflows_the_stack_of_other_readers_fails_the_run() {
    let marker = "$serde_json::private::RawValue";
    let answer = json!({"access_token": {marker: nested_markers(200, 120)}});
    let fake = Fake::start(move |_| Reply::json(200, answer.clone())).await;
    let (kind, message) = refusal(delivered(&big_query(&fake), &run(0), "").await);
    assert_eq!(kind, ExportErrorKind::Retryable);
    assert!(message.contains("cannot be read"), "{message}");
}

#[tokio::test]
async fn the_steps_of_a_test_succeed_and_leave_nothing() {
    let service = Arc::new(Mutex::new(FakeBigQuery::default()));
    let fake = started(&service).await;
    let big_query = big_query(&fake);
    for step in big_query.test_steps() {
        big_query.test(*step).await.unwrap();
        let tables = service.lock().unwrap().tables.clone();
        let has_row = [TestStep::Write, TestStep::Read].contains(step);
        let rows: Vec<_> = tables.values().flatten().collect();
        assert_eq!(rows.len(), usize::from(has_row), "{step:?}");
        assert!(
            rows.iter().all(|row| row["distinct_id"] == "test"),
            "{rows:?}"
        );
    }
    assert!(service.lock().unwrap().tables.is_empty());
    refusal(big_query.test(TestStep::Read).await);
    big_query.test(TestStep::Write).await.unwrap();
    service
        .lock()
        .unwrap()
        .tables
        .values_mut()
        .for_each(Vec::clear);
    let (kind, message) = refusal(big_query.test(TestStep::Read).await);
    assert_eq!(kind, ExportErrorKind::Permanent);
    assert!(message.contains("read back"), "{message}");
}

#[tokio::test]
async fn a_test_drops_neither_a_table_of_the_customer_nor_that_of_another_test() {
    let service = Arc::new(Mutex::new(FakeBigQuery::default()));
    let fake = started(&service).await;
    let own = ("events_millrace_test".to_owned(), Vec::new());
    service.lock().unwrap().tables.extend([own]);
    let tests = [big_query(&fake), big_query(&fake)];
    for (step, tables) in [(TestStep::Write, 3), (TestStep::Delete, 1)] {
        for test in &tests {
            test.test(step).await.unwrap();
        }
        let left = service.lock().unwrap().tables.len();
        assert_eq!(left, tables, "{step:?}");
    }
}
