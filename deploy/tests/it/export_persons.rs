//! Exports of persons by the real binary: files have the rows of `persons_current`.

use crate::export_runs::organization_folder;
use crate::server::{Server, ask, eventually};
use serde_json::{Value, json};
use std::path::Path;
use tempfile::TempDir;

const ALL: &str = "/api/organizations/@current/batch_exports/";
/// Number of person updates; every seventh adds a distinct id.
const UPDATES: u64 = 2_000;
const PERSONS: u64 = 500;
const IDS: u64 = PERSONS + UPDATES.div_ceil(7);
/// Query for a row of each id, as the views have it.
const EXPECTED: &str = "SELECT d.team_id AS team_id, d.distinct_id AS distinct_id, \
     toString(d.person_id) AS person_id, p.properties AS properties, \
     p.is_identified AS is_identified, p.created_at AS created_at, \
     d.version AS person_distinct_id_version, p.version AS person_version \
     FROM (SELECT * FROM millrace.person_distinct_ids FINAL) AS d \
     INNER JOIN millrace.persons_current AS p ON p.team_id = d.team_id AND p.id = d.person_id";

/// Stores person updates as if they had arrived yesterday, and waits until they are applied.
fn store_past_updates(server: &Server) {
    server.wait_for("EXISTS TABLE millrace.person_updates", "1");
    let project_id = server.credential("team_id");
    server.query(&format!(
        "INSERT INTO millrace.person_updates SELECT {project_id} AS team_id, \
         now64(6) - 86400 + intDiv(number, 50) * 300 AS created_at, \
         toString(generateUUIDv4(number)) AS request_id, 0 AS `index`, \
         generateUUIDv4(number) AS uuid, created_at AS timestamp, \
         if(number % 7 = 0, 'identify', 'properties') AS kind, \
         'ann ' || toString(number % {PERSONS}) AS distinct_id, \
         if(kind = 'identify', 'other ' || toString(number), '') AS other_id, \
         '{{\"n\":' || toString(number) || ',\"text\":\"it''s \\\\\"ä\\\\\"\\\\t\"}}' AS person_set, \
         '' AS person_set_once, '' AS person_unset, \
         '' AS group_type, '' AS group_key, '' AS group_set FROM numbers({UPDATES})"
    ));
    server.wait_for(
        &format!(
            "SELECT count() FROM millrace.persons_current \
             WHERE JSONExtractUInt(properties, 'n') >= {}",
            UPDATES - PERSONS
        ),
        &PERSONS.to_string(),
    );
}

/// Exports all persons to files.
fn export(server: &Server, format: &str) {
    let new = json!({
        "name": format, "interval": "hour", "model": "persons",
        "destination": {"type": "FileSystem", "config": {"path": format, "file_format": format}},
    });
    let (status, made) = ask(server, "POST", ALL, &new);
    assert_eq!(status, 201, "{made}");
    let one = format!("{ALL}{}/", made["id"].as_str().unwrap());
    let (status, asked) = ask(server, "POST", &format!("{one}backfill/"), &json!({}));
    assert_eq!(status, 200, "{asked}");
    eventually("the end of the backfill", || {
        let (_, answer) = ask(server, "GET", &format!("{one}backfills/"), &Value::Null);
        (answer["results"][0]["status"] == "Completed").then_some(())
    });
}

/// Loads the rows of all files of a format into a table.
fn read_back(server: &Server, folder: &Path, (format, extension): (&str, &str)) {
    server.query(&format!(
        "CREATE OR REPLACE TABLE millrace.back ENGINE = Memory AS {EXPECTED} LIMIT 0"
    ));
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|found| found != extension) {
            continue;
        }
        let insert = format!("INSERT INTO millrace.back FORMAT {format}");
        let answer = ureq::post(&server.credential("clickhouse_url"))
            .query("query", insert)
            .query("date_time_input_format", "best_effort")
            .header("X-ClickHouse-User", &server.credential("clickhouse_user"))
            .header(
                "X-ClickHouse-Key",
                &server.credential("clickhouse_password"),
            )
            .send(&std::fs::read(&path).unwrap());
        answer.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
}

#[test]
fn exported_persons_equal_the_views() {
    let (dir, root) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let args = [
        "--export-root",
        root.path().to_str().unwrap(),
        "--admin-requests-per-minute-max",
        "0",
        "--admin-requests-per-hour-max",
        "0",
    ];
    let server = Server::start_with(dir.path(), &args);
    store_past_updates(&server);
    for (format, reader) in [
        ("JSONLines", ("JSONEachRow", "jsonl")),
        ("Parquet", ("Parquet", "parquet")),
    ] {
        export(&server, format);
        let folder = organization_folder(root.path());
        read_back(&server, &folder.join(format), reader);
        let counts = format!(
            "SELECT (SELECT count() FROM millrace.back), (SELECT count() FROM ({EXPECTED})), \
             (SELECT count() FROM (SELECT * FROM millrace.back INTERSECT DISTINCT {EXPECTED}))"
        );
        assert_eq!(
            server.query(&counts),
            format!("{IDS}\t{IDS}\t{IDS}"),
            "{format}"
        );
    }
}
