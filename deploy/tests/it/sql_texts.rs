//! Texts of customers that are SQL: names in the API, ids and properties of events, keys. Each is
//! kept unchanged, and nothing else changes.

use crate::server::{Server, ask, eventually};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use tempfile::TempDir;

/// Texts that would end a literal, or begin one, in SQLite, PostgreSQL or ClickHouse, or that are
/// placeholders of parameters there.
const TEXTS: [&str; 10] = [
    "x' OR '1'='1",
    "'; DROP TABLE projects; --",
    "\"; DELETE FROM users; --",
    "`); DELETE FROM organizations; --",
    "\\'; DROP TABLE millrace.events; --",
    "' UNION SELECT key FROM projects --",
    "$1 ?1 :name @name %s {x:String} ${x}",
    "$$; DROP TABLE projects; $$",
    "/* */ /*",
    "%_%\\",
];

fn texts() -> BTreeSet<String> {
    TEXTS.iter().map(|text| (*text).to_owned()).collect()
}

/// Rows of a query's result.
fn rows(server: &Server, sql: &str) -> Vec<Value> {
    let answer = server.query(&format!("{sql} FORMAT JSONEachRow"));
    let rows = answer.lines().map(serde_json::from_str);
    rows.collect::<Result<_, _>>().unwrap()
}

#[test]
fn names_that_are_sql_are_names() {
    let dir = TempDir::new().unwrap();
    let server = Server::start_mode("admin", dir.path(), &[]);
    let root = "/api/organizations/@current";
    let (_, before) = ask(&server, "GET", &format!("{root}/projects/"), &Value::Null);
    for text in TEXTS {
        let name = json!({"name": text});
        for (method, path, expected) in [
            ("PATCH", format!("{root}/"), 200),
            ("POST", format!("{root}/projects/"), 201),
            ("POST", format!("{root}/roles/"), 201),
        ] {
            let (status, answer) = ask(&server, method, &path, &name);
            assert_eq!(
                (status, &answer["name"]),
                (expected, &name["name"]),
                "{answer}"
            );
        }
        let invite = json!({"target_email": "a@example.com", "message": text});
        let (status, answer) = ask(&server, "POST", &format!("{root}/invites/"), &invite);
        assert_eq!(
            (status, &answer["message"]),
            (201, &invite["message"]),
            "{answer}"
        );
    }
    for (list, others) in [("projects", before["count"].as_u64()), ("roles", Some(0))] {
        let (_, answer) = ask(&server, "GET", &format!("{root}/{list}/"), &Value::Null);
        let listed = answer["results"].as_array().unwrap();
        let names = listed
            .iter()
            .map(|it| it["name"].as_str().unwrap().to_owned());
        let names: BTreeSet<String> = names.collect();
        assert!(names.is_superset(&texts()), "{list}: {names:?}");
        assert_eq!(answer["count"].as_u64(), others.map(|it| it + 10), "{list}");
    }
    for path in [
        "projects/1'%20OR%20'1'='1/",
        "roles/x'%20OR%20'1'='1/",
        "projects/1%3BDROP%20TABLE%20projects/",
    ] {
        let (status, answer) = ask(&server, "GET", &format!("{root}/{path}"), &Value::Null);
        assert_eq!(status, 404, "{path}: {answer}");
    }
}

#[test]
fn events_and_keys_that_are_sql_are_events_and_keys() {
    let dir = TempDir::new().unwrap();
    let server = Server::start(dir.path());
    let event = |text: &&str| {
        json!({"event": text, "distinct_id": text, "properties":
            {*text: text, "$set": {"text": text}, "$groups": {"company": text}}})
    };
    let events: Vec<Value> = TEXTS.iter().map(event).collect();
    server.capture(&json!(events));
    for text in TEXTS {
        let body = json!({"api_key": text, "batch": [{"event": "e", "distinct_id": "d"}]});
        let (status, answer) = server.post("/batch/", &body);
        assert_eq!(status, 401, "{text}: {answer}");
    }
    // Events and persons become visible each on their own.
    for table in ["events", "persons_current"] {
        server.wait_for(&format!("SELECT count() FROM millrace.{table}"), "10");
    }
    let stored = rows(
        &server,
        "SELECT event, distinct_id, properties FROM millrace.events",
    );
    let mut found = BTreeSet::new();
    for row in stored {
        let properties: Value = serde_json::from_str(row["properties"].as_str().unwrap()).unwrap();
        let text = row["event"].as_str().unwrap();
        assert_eq!(
            (&row["distinct_id"], &properties[text]),
            (&row["event"], &row["event"])
        );
        found.insert(text.to_owned());
    }
    assert_eq!(found, texts());
    let persons = rows(&server, "SELECT properties FROM millrace.persons_current");
    let of_persons = persons.iter().map(|row| {
        let properties: Value = serde_json::from_str(row["properties"].as_str().unwrap()).unwrap();
        properties["text"].as_str().unwrap().to_owned()
    });
    assert_eq!(of_persons.collect::<BTreeSet<_>>(), texts());
}

#[test]
fn properties_whose_names_are_sql_are_columns() {
    let dir = TempDir::new().unwrap();
    let server = Server::start(dir.path());
    server.wait_for_tables();
    let path = "/api/projects/1/property_columns/";
    let column = |text: &&str| json!({ "path": [text], "type": "String" });
    let columns: Vec<Value> = TEXTS.iter().map(column).collect();
    let (status, answer) = ask(&server, "PATCH", path, &json!({ "columns": columns }));
    assert_eq!(status, 200, "{answer}");
    let properties: serde_json::Map<String, Value> = TEXTS
        .iter()
        .map(|text| ((*text).to_owned(), json!(text)))
        .collect();
    let event = json!([{ "event": "e", "distinct_id": "d", "properties": properties }]);
    server.capture(&event);
    eventually("the columns", || {
        let (_, answer) = ask(&server, "GET", path, &Value::Null);
        (answer["pending"] == json!([])).then_some(())
    });
    server.wait_for("SELECT count() FROM millrace.events", "1");
    for (column, text) in answer["columns"].as_array().unwrap().iter().zip(TEXTS) {
        assert_eq!(column["path"], json!([text]));
        let name = column["name"].as_str().unwrap();
        let found = rows(&server, &format!("SELECT {name} FROM millrace.events"));
        assert_eq!(found[0][name], text);
    }
}
