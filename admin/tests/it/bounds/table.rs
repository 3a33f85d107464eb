//! Generation of the table of bounds in `deploy/THREATS.md`.

use crate::Fixture;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;

on_both!(
    the_table_of_bounds_matches_the_document,
    every_operation_publishes_its_bounds,
);

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/THREATS.md");
const BEGIN: &str =
    "<!-- Made by `UPDATE=1 cargo test -p millrace-admin the_table_of_bounds` -->\n";
const END: &str = "<!-- The end of what is made -->";
const HEAD: &str = "| Body | Answer | Seconds | All of somebody's, beside requests | Operations |\n\
                    |---|---|---|---|---|\n";
const FAMILIES: [&str; 4] = [
    "pipeline_destinations",
    "pipeline_frontend_apps",
    "pipeline_import_apps",
    "pipeline_transformations",
];

async fn every_operation_publishes_its_bounds() {
    let document = Fixture::new().await.get("/api/schema/").await.body;
    let mut checked = 0;
    for (path, method, limits) in limits(&document) {
        let name = format!("{method} {path}");
        for field in ["body_bytes_max", "answer_bytes_max", "seconds_max"] {
            assert!(limits[field].is_u64(), "{name}: {field}");
        }
        let counts = limits["counts"].as_array().unwrap();
        assert!(counts.len() >= 2, "{name}: nothing counts requests");
        let is_whole = |count: &Value| {
            count["name"].is_string() && count["per"].is_string() && count["max"].is_u64()
        };
        assert!(counts.iter().all(is_whole), "{name}: {counts:?}");
        checked += 1;
    }
    assert!(checked > 150, "{checked}");
}

async fn the_table_of_bounds_matches_the_document() {
    let document = Fixture::new().await.get("/api/schema/").await.body;
    let made = table(&document);
    let file = std::fs::read_to_string(FILE).unwrap();
    let (before, rest) = file.split_once(BEGIN).expect("the table begins");
    let (kept, after) = rest.split_once(END).expect("the table ends");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(FILE, format!("{before}{BEGIN}{made}{END}{after}")).unwrap();
        return;
    }
    assert!(
        kept == made,
        "UPDATE=1 with this test makes the table of {FILE} anew"
    );
}

/// Lists path, method and limits of every operation.
fn limits(document: &Value) -> Vec<(&str, String, &Value)> {
    let paths = document["paths"].as_object().unwrap().iter();
    let operations = paths.flat_map(|(path, item)| {
        let methods = item.as_object().unwrap().iter();
        methods.map(move |(method, operation)| {
            let limits = &operation["x-millrace-limits"];
            (path.as_str(), method.to_uppercase(), limits)
        })
    });
    operations.collect()
}

/// Table with a row for each set of bounds and the operations that have them.
fn table(document: &Value) -> String {
    let mut rows: BTreeMap<String, BTreeMap<String, Vec<String>>> = BTreeMap::new();
    for (path, method, limits) in limits(document) {
        let methods = rows.entry(bounds(limits)).or_default();
        let methods = methods.entry(short(path)).or_default();
        if !methods.contains(&method) {
            methods.push(method);
        }
    }
    let mut table = HEAD.to_owned();
    for (bounds, operations) in rows {
        let operations = operations.iter().map(|(path, methods)| {
            let methods = methods.join(" ");
            format!("{methods} `{path}`")
        });
        let operations = operations.collect::<Vec<_>>().join(", ");
        writeln!(table, "| {bounds} | {operations} |").unwrap();
    }
    table
}

fn bounds(limits: &Value) -> String {
    let body = bytes(&limits["body_bytes_max"]);
    let mut answer = bytes(&limits["answer_bytes_max"]);
    if let Some(page) = limits["page_bytes_max"].as_u64() {
        write!(answer, ", a page {} MB", page / 1_000_000).unwrap();
    }
    let seconds = &limits["seconds_max"];
    let counts = limits["counts"].as_array().unwrap().iter();
    let counts = counts.filter_map(|count| {
        let name = count["name"].as_str().unwrap();
        let text = |field: &str| count[field].to_string().replace('"', "");
        let is_of_all = name.starts_with("admin_requests");
        (!is_of_all).then(|| format!("{}: {} of one {}", name, text("max"), text("per")))
    });
    let counts = counts.collect::<Vec<_>>().join("; ");
    let counts = if counts.is_empty() { "–" } else { &counts };
    format!("{body} | {answer} | {seconds} | {counts}")
}

fn bytes(value: &Value) -> String {
    match value.as_u64().unwrap() {
        0 => "–".to_owned(),
        bytes if bytes % (1 << 20) == 0 => format!("{} MiB", bytes >> 20),
        bytes => format!("{} KiB", bytes >> 10),
    }
}

/// Shortens a path: the organization or project becomes `…`, families of plugins become `plugins`.
fn short(path: &str) -> String {
    let path = path.replace("/api/organizations/{organization_id}/", "…/");
    let path = path.replace("/api/projects/{project_id}/", "…/");
    let family = FAMILIES.iter().find(|family| path.contains(*family));
    family.map_or(path.clone(), |family| path.replace(family, "plugins"))
}

#[test]
fn paths_of_one_resource_are_written_alike() {
    let table = json!({
        "/api/organizations/{organization_id}/pipeline_import_apps/{id}/": "…/plugins/{id}/",
        "/api/projects/{project_id}/batch_exports/": "…/batch_exports/",
        "/api/organizations/": "/api/organizations/",
    });
    for (path, expected) in table.as_object().unwrap() {
        assert_eq!(short(path), expected.as_str().unwrap());
    }
}
