//! SQL over the rows of one project, through the API and the command line, on the real engine.
//!
//! | Module | Holds |
//! |---|---|
//! | `tenants` | two projects, each with rows in all tables; queries as one of them |
//! | `hostile` | statements of one project that want the rows of the other |
//! | `ends` | queries that are stopped, and those of clients that go |
//! | `users` | the user of a project, by the API |
//! | `command_line` | `millrace query` |

mod command_line;
mod ends;
mod hostile;
mod tenants;
mod users;

use tenants::Tenants;

#[test]
fn a_project_reads_its_rows_in_every_format() {
    let tenants = Tenants::start();
    let sql = "SELECT event, count() AS n FROM events GROUP BY event";
    let begins: [(&str, &str, &[u8]); 5] = [
        ("application/json", "application/json", b"{"),
        (
            "application/x-ndjson",
            "application/x-ndjson",
            b"{\"event\":\"mine\",\"n\":50}\n",
        ),
        (
            "text/csv",
            "text/csv; charset=utf-8; header=present",
            b"\"event\",\"n\"\n\"mine\",50\n",
        ),
        (
            "application/vnd.apache.parquet",
            "application/vnd.apache.parquet",
            b"PAR1",
        ),
        (
            "application/vnd.apache.arrow.stream",
            "application/vnd.apache.arrow.stream",
            &[0xff, 0xff, 0xff, 0xff],
        ),
    ];
    for (accept, content_type, begin) in begins {
        let answer = tenants.query(tenants.first, accept, sql);
        assert_eq!(answer.status, 200, "{accept}: {answer:?}");
        assert_eq!(answer.header("content-type"), content_type);
        assert!(answer.body.starts_with(begin), "{accept}: {answer:?}");
        let summary: serde_json::Value =
            serde_json::from_str(&answer.header("x-clickhouse-summary")).unwrap();
        assert_ne!(summary["read_rows"], "0", "{accept}: {summary}");
        assert!(!answer.header("x-clickhouse-query-id").is_empty());
    }
    for table in tenants::TABLES {
        let sql = format!("SELECT count() > 0 AS some, uniq(team_id) AS projects FROM {table}");
        for project_id in [tenants.first, tenants.second] {
            let answer = tenants.query(project_id, "application/x-ndjson", &sql);
            assert_eq!(answer.text(), "{\"some\":1,\"projects\":1}\n", "{table}");
        }
    }
    let long = "SELECT number, repeat('x', 100) FROM numbers(200000)";
    let answer = tenants.query(tenants.first, "text/csv", long);
    assert_eq!(
        answer.body.iter().filter(|byte| **byte == b'\n').count(),
        200_001
    );
}

#[test]
fn refused_queries_have_clickhouses_code_and_position() {
    let tenants = Tenants::start();
    let deep = format!("SELECT {}1", "1+".repeat(3_000));
    let table = [
        ("SELECT 1,\n  a b bad", "query_failed", 62, Some(17)),
        ("SELECT nope FROM events", "query_failed", 47, None),
        (deep.as_str(), "query_limit_exceeded", 167, None),
        (
            "SELECT length(groupArray(number)) FROM numbers(1000000000)",
            "query_limit_exceeded",
            241,
            None,
        ),
        (
            "SELECT throwIf(number = 9) FROM numbers(10)",
            "query_failed",
            395,
            None,
        ),
        ("SELECT 1; SELECT 2", "query_failed", 62, Some(9)),
    ];
    for (sql, code, number, position) in table {
        let answer = tenants.query(tenants.first, "*/*", sql);
        assert_eq!(answer.status, 400, "{sql}: {answer:?}");
        let error = answer.json();
        assert_eq!(error["code"], code, "{sql}: {error}");
        assert_eq!(error["clickhouse"]["code"], number, "{sql}: {error}");
        let found = error["clickhouse"]["position"].as_u64();
        assert_eq!(found, position, "{sql}: {error}");
        assert!(!error.to_string().contains("version"), "{error}");
    }
    // Small as Parquet, so that none of it is sent before the limit.
    let many = "SELECT toUInt8(1) AS a FROM numbers(1100000)";
    let answer = tenants.query(tenants.first, "application/vnd.apache.parquet", many);
    assert_eq!(answer.json()["clickhouse"]["code"], 396, "{answer:?}");
    let formatted = tenants.query(tenants.first, "*/*", "SELECT 1 FORMAT TSV");
    assert_eq!(formatted.status, 400, "{formatted:?}");
    assert!(formatted.text().contains("Omit FORMAT"), "{formatted:?}");
}
