//! Properties that become columns of `events`, by the API and by the command line.

use crate::server::{Server, ask, eventually, run};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Output;
use tempfile::TempDir;

const ONE: &str = "/api/projects/1/property_columns/";

/// Runs `millrace columns` with words as arguments on a data folder.
fn columns(dir: &Path, words: &str) -> Output {
    let place = ["--data-dir", dir.to_str().unwrap()];
    let words = std::iter::once("columns").chain(words.split(' '));
    run(&words.chain(place).collect::<Vec<_>>())
}

/// Output of a command that succeeds.
fn told(dir: &Path, words: &str) -> String {
    let output = columns(dir, words);
    assert!(output.status.success(), "{words}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Reason for which a command fails.
fn refused(dir: &Path, words: &str) -> String {
    let output = columns(dir, words);
    assert_eq!(output.status.code(), Some(1), "{words}: {output:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// Names the columns of project 1, and returns the names that they have in `events`.
fn named(server: &Server, columns: &Value) -> Vec<String> {
    let (status, body) = ask(server, "PATCH", ONE, &json!({ "columns": columns }));
    assert_eq!(status, 200, "{body}");
    let columns = body["columns"].as_array().unwrap().iter();
    let names = columns.map(|column| column["name"].as_str().unwrap().to_owned());
    names.collect()
}

/// Waits until `events` has all columns that were named.
fn wait_until_made(server: &Server) {
    eventually("the columns", || {
        let (_, body) = ask(server, "GET", ONE, &Value::Null);
        (body["pending"] == json!([])).then_some(())
    });
}

#[test]
fn named_properties_are_columns_of_past_and_new_events_until_they_are_removed() {
    let dir = TempDir::new().unwrap();
    let server = Server::start(dir.path());
    server.wait_for_tables();
    let event = |plan: &str, size: i64| {
        let properties = json!({ "plan": plan, "cart": { "size": size } });
        json!([{ "event": "e", "distinct_id": "a", "properties": properties }])
    };
    server.capture(&event("small", 1));
    server.wait_for("SELECT count() FROM millrace.events", "1");
    let columns = json!([
        { "path": ["plan"], "type": "LowCardinality" },
        { "path": ["cart", "size"], "type": "Int64" },
    ]);
    let [plan, size]: [String; 2] = named(&server, &columns).try_into().unwrap();
    wait_until_made(&server);
    server.capture(&event("large", 5));
    let sql = format!("SELECT {plan}, sum({size}) FROM millrace.events GROUP BY 1 ORDER BY 1");
    server.wait_for(&sql, "large\t5\nsmall\t1");
    // Parts from before have the columns, too.
    let lacking = format!(
        "SELECT count() FROM system.parts WHERE database = 'millrace' AND table = 'events' \
         AND active AND name NOT IN (SELECT name FROM system.parts_columns \
         WHERE database = 'millrace' AND table = 'events' AND active AND column = '{plan}')"
    );
    server.wait_for(&lacking, "0");
    let properties = "SELECT DISTINCT JSONType(properties, 'cart') FROM millrace.events";
    server.wait_for(properties, "Object");
    // Views of projects have them, with texts in the place of dictionaries.
    let query = json!({ "query": format!("SELECT {plan} AS plan FROM events ORDER BY 1 LIMIT 1") });
    let (status, answer) = ask(&server, "POST", "/api/projects/1/query/", &query);
    assert_eq!((status, &answer["data"][0]["plan"]), (200, &json!("large")));
    assert_eq!(answer["meta"][0]["type"], "String");
    let only = json!([{ "path": ["plan"], "type": "LowCardinality" }]);
    assert_eq!(named(&server, &only), std::slice::from_ref(&plan));
    let left = "SELECT groupArray(name) FROM system.columns WHERE database = 'millrace' \
                AND table = 'events' AND startsWith(name, 'property_')";
    server.wait_for(left, &format!("['{plan}']"));
    server.capture(&event("large", 7));
    server.wait_for(
        &format!("SELECT countIf({plan} = 'large') FROM millrace.events"),
        "2",
    );
}

#[test]
fn the_operator_names_columns_of_all_projects_by_commands() {
    let dir = TempDir::new().unwrap();
    let server = Server::start(dir.path());
    server.wait_for_tables();
    let none = told(dir.path(), "list");
    assert_eq!(none.trim_end(), "No property is a column of events.");
    let added = told(dir.path(), "add $browser --all-projects --bytes-max 40");
    assert!(added.contains("property_1"), "{added}");
    let added = told(dir.path(), "add cart total --type float64 --project 1");
    assert!(added.contains("property_2"), "{added}");
    wait_until_made(&server);
    let list = told(dir.path(), "list");
    for words in ["'$browser'", "all", "String", "cart total", "Float64"] {
        assert!(list.contains(words), "{words}: {list}");
    }
    assert!(!list.contains("(pending)"), "{list}");
    let (_, body) = ask(&server, "GET", ONE, &Value::Null);
    assert_eq!(body["shared_columns"][0]["path"], json!(["$browser"]));
    let properties = json!({ "$browser": "Firefox", "cart": { "total": 2.5 } });
    server.capture(&json!([{ "event": "e", "distinct_id": "a", "properties": properties }]));
    let sql = "SELECT property_1, property_2 FROM millrace.events";
    server.wait_for(sql, "Firefox\t2.5");
    let suggested = told(dir.path(), "suggest --project 1");
    assert!(!suggested.contains("browser"), "{suggested}");
    told(dir.path(), "remove property_1");
    let suggested = told(dir.path(), "suggest --project 1");
    assert!(suggested.contains("'$browser'"), "{suggested}");
    let left = "SELECT count() FROM system.columns WHERE database = 'millrace' \
                AND table = 'events' AND name = 'property_1'";
    server.wait_for(left, "0");
}

#[test]
fn commands_that_cannot_be_followed_say_what_to_do() {
    let dir = TempDir::new().unwrap();
    let server = Server::start(dir.path());
    server.wait_for_tables();
    told(dir.path(), "add $browser --all-projects");
    for (words, reason) in [
        ("add $browser --project 1", "already"),
        ("add a --project 99", "keys list"),
        ("add a --all-projects --bytes-max 9999", "2048"),
        ("remove properties", "columns list"),
        ("remove property_9", "property column"),
    ] {
        let told = refused(dir.path(), words);
        assert!(told.contains(reason), "{words}: {told}");
    }
}
