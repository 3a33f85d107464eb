//! Tests of Snowflake's SQL API.

use super::keys::{self, opened};
use super::server::{self, Fake, Fault, Reply, deps, refusal};
use super::sql::Tables;
use crate::rows::{delivered, fat_row, lines, row, run, written};
use crate::wire::Request;
use millrace_catalog::DestinationType;
use millrace_exports::ExportErrorKind;
use millrace_exports::destination::warehouse::Warehouse;
use millrace_exports::destination::{Destination, TestStep};
use millrace_rows::{Micros, TestClock};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

const NOW_SECONDS: i64 = 1_795_132_800;

#[derive(Default)]
struct FakeSnowflake {
    tables: Tables,
    /// Requests by id, which are carried out once.
    known: BTreeMap<String, Option<String>>,
    /// True if statements are still running in their first answer.
    slow: bool,
    answers: BTreeMap<String, Option<String>>,
    kinds: BTreeSet<String>,
}

impl FakeSnowflake {
    fn answer(&mut self, request: &Request) -> Reply {
        self.authorize(request);
        if let Some(handle) = request.target.strip_prefix("/api/v2/statements/") {
            assert_eq!(request.method, "GET");
            return done(&self.answers[handle]);
        }
        let (path, query) = request.target.split_once('?').unwrap();
        assert_eq!(
            (request.method.as_str(), path),
            ("POST", "/api/v2/statements")
        );
        let id = query.strip_prefix("requestId=").unwrap();
        let again = id.strip_suffix("&retry=true");
        assert!(
            again.is_some() || !self.known.contains_key(id),
            "said to be new"
        );
        let id = again.unwrap_or(id);
        let body = request.json();
        for (name, expected) in [
            ("database", "D\"b"),
            ("schema", "Public"),
            ("warehouse", "W"),
            ("role", "R"),
        ] {
            assert_eq!(body[name], expected);
        }
        let tables = &mut self.tables;
        let first = self.known.entry(id.to_owned()).or_insert_with(|| {
            let rows = body
                .pointer("/bindings/1/value")
                .map(|rows| rows.as_str().unwrap());
            tables.run(body["statement"].as_str().unwrap(), rows)
        });
        if !self.slow {
            return done(first);
        }
        let handle = format!("01-{}", self.answers.len());
        self.answers.insert(handle.clone(), first.clone());
        Reply::json(202, json!({"code": "333334", "statementHandle": handle}))
    }

    fn authorize(&mut self, request: &Request) {
        let token = request.headers["authorization"]
            .strip_prefix("Bearer ")
            .unwrap();
        let kind = &request.headers["x-snowflake-authorization-token-type"];
        self.kinds.insert(kind.clone());
        if kind == "PROGRAMMATIC_ACCESS_TOKEN" {
            assert_eq!(token, "canary-secret");
            return;
        }
        let (header, claims) = opened(token);
        assert_eq!(header["alg"], "RS256");
        let fingerprint = keys::FINGERPRINT.trim();
        assert_eq!(
            claims["iss"],
            format!("MY-ACCOUNT.CANARY-USER.SHA256:{fingerprint}")
        );
        assert_eq!(claims["sub"], "MY-ACCOUNT.CANARY-USER");
        assert_eq!(claims["iat"], NOW_SECONDS);
        assert!(claims["exp"].as_i64().unwrap() <= NOW_SECONDS + 3_600);
    }
}

fn done(first: &Option<String>) -> Reply {
    let data = first.iter().map(|first| json!([first])).collect::<Vec<_>>();
    Reply::json(
        200,
        json!({"code": "090001", "data": data, "resultSetMetaData": {}}),
    )
}

async fn started(service: &Arc<Mutex<FakeSnowflake>>) -> Fake {
    let service = Arc::clone(service);
    Fake::start(move |request| service.lock().unwrap().answer(request)).await
}

fn opened_with(fake: &Fake, secrets: &[(&str, &str)], kind: &str) -> Warehouse {
    let config = json!({"account": "my-account.eu-west-1", "database": "D\"b", "schema": "Public",
        "warehouse": "W", "role": "R", "authentication_type": kind});
    let secrets = [&[("user", "canary-user")], secrets].concat();
    let clock = TestClock::at(Micros(NOW_SECONDS * 1_000_000));
    server::opened(fake, DestinationType::Snowflake, &config, &secrets, clock)
}

fn opened_by_token(fake: &Fake) -> Warehouse {
    opened_with(fake, &[("password", "canary-secret")], "password")
}

#[tokio::test]
async fn rows_arrive_once_with_any_credentials_and_however_often_they_are_sent() {
    let ways: [(&str, &[(&str, &str)]); 5] = [
        ("password", &[("password", "canary-secret")]),
        ("keypair", &[("private_key", keys::PLAIN)]),
        ("keypair", &[("private_key", keys::PKCS1)]),
        (
            "keypair",
            &[
                ("private_key", keys::AES),
                ("private_key_passphrase", keys::PASSPHRASE),
            ],
        ),
        (
            "keypair",
            &[
                ("private_key", keys::DES3),
                ("private_key_passphrase", keys::PASSPHRASE),
            ],
        ),
    ];
    for (kind, secrets) in ways {
        let service = Arc::new(Mutex::new(FakeSnowflake::default()));
        let fake = started(&service).await;
        let snowflake = opened_with(&fake, secrets, kind);
        for _ in 0..2 {
            let outcome = delivered(&snowflake, &run(0), &lines((0..9).map(row)))
                .await
                .unwrap();
            assert_eq!(outcome.rows, Some(9));
        }
        let service = service.lock().unwrap();
        let stored: Vec<Value> = service.tables.events.values().cloned().collect();
        assert_eq!(stored, (0..9).map(row).collect::<Vec<_>>());
        assert!(service.tables.stages.is_empty());
        assert_eq!(service.kinds.len(), 1);
    }
}

#[tokio::test]
async fn rows_arrive_once_whichever_answer_is_lost() {
    for fault in [Fault::Lost, Fault::Busy, Fault::Broken] {
        for (number, slow) in (0..20).flat_map(|number| [(number, false), (number, true)]) {
            let service = Arc::new(Mutex::new(FakeSnowflake::default()));
            service.lock().unwrap().slow = slow;
            let fake = started(&service).await;
            fake.inject(number, fault);
            let snowflake = opened_by_token(&fake);
            // Three statements of rows.
            let lines = lines((0..5).map(fat_row));
            let outcome = delivered(&snowflake, &run(0), &lines).await.unwrap();
            assert_eq!(outcome.rows, Some(5), "{fault:?} {number}");
            assert_eq!(service.lock().unwrap().tables.events.len(), 5);
            if fake.is_pending() {
                break;
            }
        }
    }
}

#[tokio::test]
async fn refusals_have_no_secret_in_them() {
    use ExportErrorKind::{Permanent, Retryable};
    let table = [
        (401, json!({}), Permanent, "programmatic access token"),
        (403, json!({}), Permanent, "rights"),
        (
            422,
            json!({"code": "002003", "message": "canary-user"}),
            Permanent,
            "002003",
        ),
        (422, json!({"code": "000606"}), Permanent, "warehouse"),
        (
            422,
            json!({"code": "000606", "sqlState": "57P03"}),
            Permanent,
            "warehouse",
        ),
        (
            422,
            json!({"code": "001003", "sqlState": "42000"}),
            Permanent,
            "001003",
        ),
        (
            422,
            json!({"code": "000625", "sqlState": "57014", "message": "canary-user"}),
            Retryable,
            "000625",
        ),
        (
            422,
            json!({"code": "000630", "sqlState": "57014"}),
            Retryable,
            "000630",
        ),
        (422, json!({"code": "000604"}), Retryable, "cancelled"),
        (
            422,
            json!({"code": "200001", "sqlState": "40001"}),
            Retryable,
            "200001",
        ),
        (408, json!({}), Retryable, "408"),
        (429, json!({}), Retryable, "429"),
        (503, json!({}), Retryable, "503"),
        (
            202,
            json!({"statementHandle": "../x"}),
            Retryable,
            "cannot be read",
        ),
    ];
    for (status, body, kind, sentence) in table {
        let fake = Fake::start(move |_| Reply::json(status, body.clone())).await;
        let (found, message) = refusal(delivered(&opened_by_token(&fake), &run(0), "").await);
        assert_eq!(found, kind, "{status}");
        assert!(message.contains(sentence), "{status}: {message}");
    }
}

#[tokio::test]
async fn rows_that_did_not_arrive_fail_the_run() {
    let service = Arc::new(Mutex::new(FakeSnowflake::default()));
    let fake = started(&service).await;
    let delivery = written(&opened_by_token(&fake), &run(0), &lines([row(1)]))
        .await
        .unwrap();
    service
        .lock()
        .unwrap()
        .tables
        .stages
        .values_mut()
        .for_each(Vec::clear);
    let delivery = delivery.publish().await;
    // `publish` sends the row, so it is there.
    assert!(delivery.is_ok());
    let fake = Fake::start(|request| {
        let body = request.json();
        let counts = body["statement"]
            .as_str()
            .unwrap()
            .starts_with("SELECT COUNT");
        done(&counts.then(|| "0".to_owned()))
    });
    let fake = fake.await;
    let (kind, _) = refusal(delivered(&opened_by_token(&fake), &run(0), &lines([row(1)])).await);
    assert_eq!(kind, ExportErrorKind::Retryable);
}

#[tokio::test]
async fn a_staging_table_that_was_dropped_meanwhile_is_made_again_by_another_try() {
    use ExportErrorKind::{Permanent, Retryable};
    for (is_dropped, kind) in [(true, Retryable), (false, Permanent)] {
        let fake = Fake::start(move |request| {
            let body = request.json();
            let statement = body["statement"].as_str().unwrap();
            let is_insert = statement.starts_with("INSERT");
            let is_count = statement.starts_with("SELECT COUNT");
            if is_insert || (is_dropped && is_count) {
                return Reply::json(422, json!({"code": "002003"}));
            }
            done(&is_count.then(|| "0".to_owned()))
        });
        let fake = fake.await;
        let outcome = delivered(&opened_by_token(&fake), &run(0), &lines([row(1)])).await;
        let (found, message) = refusal(outcome);
        assert_eq!(found, kind, "{message}");
    }
}

#[tokio::test]
async fn a_statement_that_fails_leaves_no_staging_table() {
    use ExportErrorKind::{Permanent, Retryable};
    for (statement, state, expected) in [
        ("MERGE", "42501", Permanent),
        ("MERGE", "40001", Retryable),
        ("INSERT", "42501", Permanent),
        ("SELECT COUNT", "42501", Retryable),
    ] {
        let service = Arc::new(Mutex::new(FakeSnowflake::default()));
        let shared = Arc::clone(&service);
        let fake = Fake::start(move |request| {
            let body = request.json();
            if body["statement"].as_str().unwrap().starts_with(statement) {
                return Reply::json(422, json!({"code": "003001", "sqlState": state}));
            }
            shared.lock().unwrap().answer(request)
        });
        let fake = fake.await;
        let outcome = delivered(&opened_by_token(&fake), &run(0), &lines([row(1)])).await;
        let (kind, message) = refusal(outcome);
        assert_eq!(kind, expected, "{statement} {state}: {message}");
        let service = service.lock().unwrap();
        let tables = &service.tables;
        assert!(tables.events.is_empty(), "{statement} {state}");
        let creates = |sql: &String| sql.starts_with("CREATE OR REPLACE");
        assert!(tables.statements.iter().any(creates), "{statement} {state}");
        assert!(tables.stages.is_empty(), "{statement} {state}");
    }
}

#[tokio::test]
async fn the_steps_of_a_test_succeed_and_leave_nothing() {
    let service = Arc::new(Mutex::new(FakeSnowflake::default()));
    let fake = started(&service).await;
    let snowflake = opened_by_token(&fake);
    for step in snowflake.test_steps() {
        snowflake.test(*step).await.unwrap();
    }
    let service = service.lock().unwrap();
    assert!(service.tables.stages.is_empty());
    let find = r#"SELECT 1 FROM "D""b".INFORMATION_SCHEMA.SCHEMATA WHERE SCHEMA_NAME = 'Public'"#;
    assert!(
        service
            .tables
            .statements
            .iter()
            .any(|statement| statement == find)
    );
}

#[tokio::test]
async fn statements_are_those_of_snowflakes_documentation() {
    let service = Arc::new(Mutex::new(FakeSnowflake::default()));
    let fake = started(&service).await;
    delivered(&opened_by_token(&fake), &run(0), &lines([row(1)]))
        .await
        .unwrap();
    let statements = service.lock().unwrap().tables.statements.clone();
    assert!(statements[0].starts_with(
        r#"CREATE TABLE IF NOT EXISTS "D""b"."Public"."events" ("uuid" VARCHAR, "event" VARCHAR, "properties" VARIANT, "elements" VARIANT, "people_set" VARIANT, "people_set_once" VARIANT,"#
    ));
    assert!(
        statements[1]
            .starts_with(r#"CREATE OR REPLACE TRANSIENT TABLE "D""b"."Public"."events_millrace_"#)
    );
    assert!(statements[2].contains(r#"line.value:"uuid"::VARCHAR"#));
    assert!(statements[2].contains(r#"STRIP_NULL_VALUE(line.value:"set_once")"#));
    assert!(statements[2].ends_with("FROM TABLE(FLATTEN(INPUT => PARSE_JSON(?))) line"));
    assert!(statements[4].starts_with(r#"MERGE INTO "D""b"."Public"."events" AS kept USING"#));
    assert!(statements[4].contains(r#"WHEN NOT MATCHED THEN INSERT ("uuid", "event","#));
    assert!(statements[5].starts_with("DROP TABLE IF EXISTS"));
}

#[test]
fn unreadable_keys_are_refused_without_repeating_them() {
    let config = json!({"account": "a", "database": "d", "schema": "s", "warehouse": "w",
        "authentication_type": "keypair"});
    let table: [(&str, Option<&str>); 4] = [
        ("canary-secret", None),
        (keys::AES, None),
        (keys::AES, Some("canary-wrong")),
        (
            "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----",
            None,
        ),
    ];
    for (key, passphrase) in table {
        let mut secrets = server::named(&[("user", "u"), ("private_key", key)]);
        let passphrase = passphrase.map(|passphrase| ("private_key_passphrase", passphrase));
        secrets.extend(server::named(passphrase.as_slice()));
        let deps = deps(TestClock::default());
        let opened = Warehouse::open(
            server::of_events(DestinationType::Snowflake, &config, &secrets),
            deps,
        );
        let (kind, message) = refusal(opened.map(drop));
        assert_eq!(kind, ExportErrorKind::Permanent);
        assert!(message.contains("cannot be read"), "{message}");
    }
}

#[tokio::test]
async fn a_token_that_no_header_can_have_is_refused() {
    let service = Arc::new(Mutex::new(FakeSnowflake::default()));
    let fake = started(&service).await;
    let snowflake = opened_with(&fake, &[("password", "canary-secret\n")], "password");
    let outcome = snowflake.test(TestStep::Authenticate).await;
    let (kind, message) = refusal(outcome);
    assert_eq!(kind, ExportErrorKind::Permanent);
    assert!(message.contains("characters"), "{message}");
    assert!(service.lock().unwrap().tables.statements.is_empty());
}
