//! Tests of the HTTP interface: statuses, headers, formats, parameters, sessions, authentication.

use millrace_embedded::testing::shared;

use crate::client::{curl, post, query};

/// Statements, each with the status, exception code and beginning of the body of its response.
const STATEMENTS: &[(&str, u16, &str, &str)] = &[
    ("SELECT 1", 200, "", "1\n"),
    ("SELECT 1 FORMAT JSONEachRow", 200, "", "{\"1\":1}\n"),
    (
        "SELECT 1 AS format FORMAT CSVWithNames; -- end",
        200,
        "",
        "\"format\"\n1\n",
    ),
    ("SHOW DATABASES FORMAT Null", 200, "", ""),
    (
        "SELEC 1",
        400,
        "62",
        "Code: 62. DB::Exception: Syntax error",
    ),
    (
        "SELECT 1; SELECT 2",
        400,
        "62",
        "Code: 62. DB::Exception: Syntax error",
    ),
    (
        "SELECT * FROM interface_nowhere",
        404,
        "60",
        "Code: 60. DB::Exception: ",
    ),
    (
        "SELECT nothing_of_that_name",
        404,
        "47",
        "Code: 47. DB::Exception: ",
    ),
    (
        "SELECT nofunction(1)",
        404,
        "46",
        "Code: 46. DB::Exception: ",
    ),
    (
        "SELECT 1 FORMAT Nonsense",
        404,
        "73",
        "Code: 73. DB::Exception: ",
    ),
    (
        "SELECT 1 SETTINGS no_such_setting = 1",
        404,
        "115",
        "Code: 115. DB::Exception: ",
    ),
    (
        "USE interface_nowhere",
        404,
        "81",
        "Code: 81. DB::Exception: ",
    ),
    ("SELECT toUInt8('x')", 400, "6", "Code: 6. DB::Exception: "),
    (
        "SELECT throwIf(1)",
        500,
        "395",
        "Code: 395. DB::Exception: ",
    ),
    ("SELECT {x:UInt8}", 500, "456", "Code: 456. DB::Exception: "),
    (
        "INSERT INTO interface_nowhere FORMAT RowBinary\nabc",
        404,
        "60",
        "Code: 60. DB::Exception: ",
    ),
];

#[test]
fn each_statement_returns_its_status_code_and_text() {
    for (sql, status, code, body) in STATEMENTS {
        let response = post(shared(), &[], sql.as_bytes());
        let (got, text) = (
            response.header("x-clickhouse-exception-code"),
            response.text(),
        );
        assert_eq!((response.status, got), (*status, *code), "{sql}: {text}");
        assert!(text.starts_with(body), "{sql}: {text}");
        if *status != 200 {
            assert!(
                text.ends_with(")\n") && text.contains("(version "),
                "{sql}: {text}"
            );
        }
    }
}

type UrlCase = (
    &'static [(&'static str, &'static str)],
    &'static str,
    u16,
    &'static str,
);

/// URL parameters and bodies, each with the status and beginning of the body of the response.
const URLS: &[UrlCase] = &[
    (&[("query", "SELECT 1")], "", 200, "1\n"),
    (&[("query", "SELECT 1 +")], " 2", 200, "3\n"),
    (&[("default_format", "CSV")], "SELECT 'a'", 200, "\"a\"\n"),
    (
        &[("default_format", "CSV; DROP")],
        "SELECT 'a'",
        404,
        "Code: 73.",
    ),
    (
        &[("database", "system")],
        "SELECT currentDatabase()",
        200,
        "system\n",
    ),
    (
        &[("database", "interface`nowhere")],
        "SELECT 1",
        404,
        "Code: 81.",
    ),
    (
        &[("max_threads", "3")],
        "SELECT getSetting('max_threads')",
        200,
        "3\n",
    ),
    (&[("max_threads", "three")], "SELECT 1", 400, "Code: 27."),
    (&[("no_such_setting", "1")], "SELECT 1", 404, "Code: 115."),
    (
        &[("log_comment", "it's")],
        "SELECT endsWith(getSetting('log_comment'), 'it''s')",
        200,
        "1\n",
    ),
    (
        &[("param_x", "it's"), ("param_n", "2")],
        "SELECT {x:String}, {n:UInt8} + 1",
        200,
        "it\\'s\t3\n",
    ),
    (
        &[("readonly", "1")],
        "CREATE TABLE interface_t (a Int8) ENGINE = Memory",
        500,
        "Code: 164.",
    ),
    (
        &[("max_query_size", "20")],
        "SELECT 1, 2, 3, 4, 5, 6, 7",
        400,
        "Code: 62.",
    ),
    (
        &[("session_timeout", "1000000"), ("session_id", "a")],
        "SELECT 1",
        500,
        "Code: 374.",
    ),
    (
        &[("session_check", "1"), ("session_id", "interface-none")],
        "SELECT 1",
        500,
        "Code: 372.",
    ),
];

#[test]
fn url_parameters_apply_to_the_statement() {
    for (parameters, body, status, text) in URLS {
        let response = post(shared(), parameters, body.as_bytes());
        assert_eq!(
            response.status,
            *status,
            "{parameters:?} {body}: {}",
            response.text()
        );
        assert!(
            response.text().starts_with(text),
            "{parameters:?} {body}: {}",
            response.text()
        );
    }
}

#[test]
fn a_response_carries_the_headers_of_a_server() {
    let sql = b"SELECT number FROM system.numbers LIMIT 10 FORMAT JSON";
    let response = post(
        shared(),
        &[("query_id", "interface-1"), ("wait_end_of_query", "1")],
        sql,
    );
    assert_eq!(response.header("x-clickhouse-query-id"), "interface-1");
    assert_eq!(response.header("x-clickhouse-format"), "JSON");
    assert!(!response.header("x-clickhouse-timezone").is_empty());
    assert!(
        !response
            .header("x-clickhouse-server-display-name")
            .is_empty()
    );
    // Not of each format: that of JSONCompactEachRow is text.
    let content_type = response.header("content-type");
    assert!(
        content_type.starts_with("application/json"),
        "{content_type}"
    );
    assert!(
        response
            .header("x-clickhouse-summary")
            .contains("\"read_rows\":\"10\""),
        "{response:?}"
    );
}

#[test]
fn only_the_right_user_and_password_authenticate() {
    let engine = shared();
    let basic = format!("{}:{}", engine.user, engine.password);
    let right = [
        ("user", engine.user.as_str()),
        ("password", engine.password.as_str()),
        ("query", "SELECT 1"),
    ];
    assert_eq!(curl(engine, &right, &[], b"").status, 200);
    assert_eq!(
        curl(engine, &[("query", "SELECT 1")], &["-u", &basic], b"").status,
        200
    );
    for (name, arguments, parameters) in [
        (
            "wrong key",
            vec![
                "-H",
                "X-ClickHouse-User: millrace",
                "-H",
                "X-ClickHouse-Key: wrong",
            ],
            vec![],
        ),
        ("wrong basic", vec!["-u", "millrace:wrong"], vec![]),
        ("wrong user", vec!["-u", "somebody:wrong"], vec![]),
        (
            "wrong url",
            vec![],
            vec![("user", "millrace"), ("password", "wrong")],
        ),
    ] {
        let parameters: Vec<_> = parameters
            .into_iter()
            .chain([("query", "SELECT 1")])
            .collect();
        let response = curl(engine, &parameters, &arguments, b"");
        let code = response.header("x-clickhouse-exception-code");
        assert_eq!(
            (response.status, code),
            (403, "516"),
            "{name}: {}",
            response.text()
        );
    }
}

#[test]
fn ping_needs_no_password() {
    let engine = shared();
    let output = std::process::Command::new("curl")
        .args(["-sS", &format!("{}/ping", engine.url)])
        .output()
        .unwrap();
    assert_eq!(output.stdout, b"Ok.\n");
}

#[test]
fn get_requests_read_and_never_write() {
    let engine = shared();
    let basic = format!("{}:{}", engine.user, engine.password);
    let write = curl(
        engine,
        &[(
            "query",
            "CREATE TABLE interface_get (a Int8) ENGINE = Memory",
        )],
        &["-u", &basic],
        b"",
    );
    assert_eq!(
        write.header("x-clickhouse-exception-code"),
        "164",
        "{}",
        write.text()
    );
    post(
        engine,
        &[],
        b"CREATE TABLE interface_kept (a Int8) ENGINE = Memory",
    );
    let form = ["-u", &basic, "-X", "GET", "-F", "readonly=0"];
    let drop = ("query", "DROP TABLE interface_kept");
    for (more, arguments) in [
        (vec![("readonly", "0")], &form[..2]),
        (
            vec![("readonly", "0"), ("readonly", "2"), ("readonly", "0")],
            &form[..2],
        ),
        (vec![("readonly", "2"), ("readonly", "")], &form[..2]),
        (vec![("readonly", "1")], &form[..2]),
        (vec![], &form[..]),
        (
            vec![("readonly", "0"), ("session_id", "interface-get")],
            &form[..2],
        ),
    ] {
        let parameters = [vec![drop], more.clone()].concat();
        let response = curl(engine, &parameters, arguments, b"");
        assert_ne!(
            response.status,
            200,
            "{more:?} {arguments:?}: {}",
            response.text()
        );
    }
    assert_eq!(query(engine, "EXISTS interface_kept"), "1\n");
    let read = curl(
        engine,
        &[("query", "SELECT 1"), ("max_threads", "1")],
        &["-u", &basic],
        b"",
    );
    assert_eq!((read.status, read.text().as_str()), (200, "1\n"));
}

#[test]
fn a_session_keeps_temporary_tables_and_its_own_settings_only() {
    let session = [("session_id", "interface-session")];
    let run =
        |parameters: &[(&str, &str)], sql: &str| post(shared(), parameters, sql.as_bytes()).text();
    assert_eq!(run(&session, "CREATE TEMPORARY TABLE kept (a UInt8)"), "");
    assert_eq!(run(&session, "INSERT INTO kept VALUES (1), (2)"), "");
    assert_eq!(run(&session, "SELECT sum(a) FROM kept"), "3\n");
    assert!(run(&[], "SELECT sum(a) FROM kept").starts_with("Code: 60."));
    let with_setting = [session[0], ("max_result_rows", "77")];
    assert_eq!(
        run(&with_setting, "SELECT getSetting('max_result_rows')"),
        "77\n"
    );
    assert_eq!(
        run(&session, "SELECT getSetting('max_result_rows')"),
        "0\n",
        "a URL setting is for its request only"
    );
    assert_eq!(run(&session, "SET max_result_rows = 5"), "");
    assert_eq!(run(&session, "SELECT getSetting('max_result_rows')"), "5\n");
}

#[test]
fn a_long_response_is_one_document_in_every_format() {
    let rows = "SELECT number, toString(number) AS s FROM system.numbers LIMIT 300000 FORMAT ";
    let json = query(shared(), &format!("{rows}JSON"));
    assert_eq!(
        (
            json.matches("\"meta\"").count(),
            json.matches("\"rows\": 300000").count()
        ),
        (1, 1)
    );
    let csv = query(shared(), &format!("{rows}CSVWithNames"));
    assert_eq!(
        (csv.lines().count(), csv.matches("number").count()),
        (300_001, 1)
    );
    let parquet = post(shared(), &[], format!("{rows}Parquet").as_bytes()).body;
    let magics = parquet.windows(4).filter(|four| four == b"PAR1").count();
    assert!(parquet.starts_with(b"PAR1") && parquet.ends_with(b"PAR1") && magics == 2);
}

#[test]
fn a_query_that_fails_midway_ends_its_body_with_the_exception() {
    let sql = b"SELECT throwIf(number = 3000000), toString(number) FROM system.numbers SETTINGS max_block_size = 1000";
    let response = post(shared(), &[], sql);
    assert_eq!(response.status, 200, "the head was sent before the failure");
    let tag = response.header("x-clickhouse-exception-tag").to_owned();
    let text = response.text();
    assert!(
        !tag.is_empty() && text.contains(&format!("__exception__\r\n{tag}\r\nCode: 395. ")),
        "{}",
        &text[text.len() - 500..]
    );
    let waited = post(shared(), &[("wait_end_of_query", "1")], sql);
    assert_eq!(
        (waited.status, waited.header("x-clickhouse-exception-code")),
        (500, "395")
    );
}
