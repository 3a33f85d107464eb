//! `millrace query` beside a running server.

use super::tenants::{CANARY, Tenants};
use crate::server::run;
use std::process::Output;

fn query(tenants: &Tenants, args: &[&str]) -> Output {
    let dir = ["--data-dir", tenants.dir.path().to_str().unwrap()];
    run(&[&["query"][..], args, &dir].concat())
}

fn printed(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn users_are_made_on_servers_of_operators_only() {
    let tenants = Tenants::start();
    let dir = tenants.dir.path().to_str().unwrap();
    let output = run(&["migrate", "--users", "--data-dir", dir]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("Omit --users"), "{text}");
}

#[test]
fn the_command_prints_the_rows_of_one_project_as_a_table_or_in_a_format() {
    let tenants = Tenants::start();
    let first = tenants.first.to_string();
    let sql = "SELECT event, count() AS number_of_rows, 'a\\nb' AS text FROM events GROUP BY event";
    let table = printed(&query(&tenants, &[sql, "--project", &first]));
    let expected = "event  number_of_rows  text\nmine   50              a\\u{a}b\n";
    assert_eq!(table, expected);
    let csv = printed(&query(
        &tenants,
        &[sql, "--project", &first, "--format", "csv"],
    ));
    assert_eq!(
        csv,
        "\"event\",\"number_of_rows\",\"text\"\n\"mine\",50,\"a\nb\"\n"
    );
    let half = "SELECT left('Größe', 3) AS text";
    let half = printed(&query(&tenants, &[half, "--project", &first]));
    assert_eq!(half, "text\nGr\u{fffd}\n");
    let all = "SELECT * FROM events_with_persons";
    let json = printed(&query(
        &tenants,
        &[all, "--project", &first, "--format", "json"],
    ));
    assert!(json.contains("mine") && !json.contains(CANARY), "{json}");
    let many = "SELECT number FROM numbers(10003)";
    let cut = printed(&query(&tenants, &[many, "--project", &first]));
    assert!(cut.ends_with("and 3 more rows: --format csv prints all\n"));
    for (args, part) in [
        (
            &["SELEC 1", "--project", &first][..],
            "ClickHouse 62 (SYNTAX_ERROR)",
        ),
        (&["SELECT 1", "--project", "999"], "there is no project 999"),
        (&["SELECT 1"], "--project"),
        (&["SELECT 1 FORMAT TSV", "--project", &first], "omit FORMAT"),
    ] {
        let output = query(&tenants, args);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {output:?}");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(text.contains(part), "{args:?}: {text}");
    }
}
