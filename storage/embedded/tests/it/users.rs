//! Tests of the engine's users: what each may do, and what becomes of passwords that change. Only
//! for the embedded engine.

use std::sync::OnceLock;

use millrace_embedded::testing::{PASSWORD, TestEngine};
use millrace_embedded::{
    PROJECT, PROJECT_VIEWS, QUERY, QueryKey, UsersFile, UsersFileError, VIEWS, project_user,
    token_hash,
};

use crate::client::{curl, post, query};

/// Text in each row of the project that nobody else may see.
const CANARY: &str = "CANARY2";

/// Engine with a table of each name that projects read, and rows of two projects in it.
fn engine() -> &'static TestEngine {
    static ENGINE: OnceLock<TestEngine> = OnceLock::new();
    ENGINE.get_or_init(|| {
        let engine = TestEngine::start();
        for sql in ["CREATE DATABASE millrace", "CREATE DATABASE project"] {
            query(&engine, sql);
        }
        for name in PROJECT_VIEWS {
            let sql = format!(
                "CREATE TABLE millrace.{name} (team_id Int64, event String, \
                 PROJECTION p (SELECT team_id, event, count() GROUP BY team_id, event)) \
                 ENGINE = MergeTree ORDER BY (team_id, event)"
            );
            query(&engine, &sql);
            let rows = format!("INSERT INTO millrace.{name} VALUES (1, 'mine'), (2, '{CANARY}')");
            query(&engine, &rows);
            let view = format!(
                "CREATE VIEW project.{name} DEFINER = {VIEWS} SQL SECURITY DEFINER \
                 AS SELECT * FROM millrace.{name}"
            );
            query(&engine, &view);
        }
        query(
            &engine,
            "CREATE VIEW project.unfiltered DEFINER = millrace SQL SECURITY DEFINER \
             AS SELECT * FROM millrace.events",
        );
        let tokens = "CREATE TABLE project.tokens (hash String, team_id Int64) \
            ENGINE = MergeTree ORDER BY hash";
        query(&engine, tokens);
        engine
    })
}

/// Changes the file of users.
pub fn change_users<T>(engine: &TestEngine, change: impl FnOnce(&mut UsersFile) -> T) -> T {
    let dir = engine.users_dir().unwrap();
    let changed = UsersFile::change(&dir, |users| Ok::<_, UsersFileError>(change(users)));
    changed.unwrap()
}

/// Project whose rows are not the canaries, as its user; for tests beside each other.
fn first_project() -> &'static TestEngine {
    static FIRST: OnceLock<TestEngine> = OnceLock::new();
    FIRST.get_or_init(|| project(engine(), 1))
}

/// Makes a project's user, or gives it a new password, and returns an engine that is used as it.
fn project(engine: &TestEngine, id: i64) -> TestEngine {
    let password = change_users(engine, |users| users.rotate(&project_user(id)));
    open(engine, id, PROJECT, &password)
}

/// Returns an engine that is used as the program's user for a project.
fn project_query(engine: &TestEngine, id: i64) -> TestEngine {
    let password = QueryKey::of(&engine.password).password(id);
    open(engine, id, QUERY, &password)
}

fn open(engine: &TestEngine, id: i64, user: &str, password: &str) -> TestEngine {
    let hash = token_hash(user, password);
    let sql = format!("INSERT INTO project.tokens VALUES ('{hash}', {id})");
    query(engine, &sql);
    engine.by(user, password)
}

/// Returns the user at the engine's own port, where the gate refuses nothing.
fn behind_the_gate(user: &TestEngine) -> TestEngine {
    engine().direct().by(&user.user, &user.password)
}

/// Statements that read local files, which nobody may.
const FILES: &[&str] = &[
    "SELECT file('/etc/hostname')",
    "SELECT file('/etc/hostname', 'x')",
    "SELECT file('hostname', NULL)",
    "SELECT arrayMap(file, ['/etc/hostname'])",
    "SELECT * FROM file('/etc/hostname', 'LineAsString')",
    "SELECT * FROM filesystem('/etc')",
    "SELECT * FROM `/etc/hostname`",
    "SELECT * FROM default.`/etc/hostname`",
    "SELECT * FROM sqlite('/etc/x.db', 't')",
    "INSERT INTO FUNCTION file('/tmp/x', 'TSV') SELECT 1",
    "CREATE DATABASE users_files ENGINE = Filesystem('/etc')",
    "ATTACH TABLE users_files FROM '/etc' (a Int8) ENGINE = MergeTree ORDER BY a",
];

/// Other statements that nobody who only reads may run.
const REFUSED: &[&str] = &[
    "SELECT * FROM url('http://127.0.0.1:9/', 'CSV', 'x String')",
    "SELECT * FROM s3('http://127.0.0.1:9/bucket/key')",
    "SELECT * FROM remote('127.0.0.1:9', system.one)",
    "SELECT * FROM mysql('127.0.0.1:3306', 'a', 'b', 'c', 'd')",
    "SELECT * FROM postgresql('127.0.0.1:5432', 'a', 'b', 'c', 'd')",
    "SELECT * FROM executable('x', 'TSV', 'a String')",
    "SELECT 1 INTO OUTFILE '/tmp/x'",
    "INSERT INTO millrace.events VALUES (1, 'x')",
    "INSERT INTO FUNCTION null('x String') VALUES ('a')",
    "CREATE TABLE millrace.x (a Int8) ENGINE = Memory",
    "CREATE TEMPORARY TABLE x (a Int8)",
    "CREATE VIEW millrace.x AS SELECT 1",
    "CREATE FUNCTION f AS x -> x",
    "DROP TABLE millrace.events",
    "TRUNCATE TABLE millrace.events",
    "ALTER TABLE millrace.events DELETE WHERE 1",
    "OPTIMIZE TABLE millrace.events",
    "BACKUP TABLE millrace.events TO File('x')",
    "KILL QUERY WHERE 1",
    "SYSTEM SHUTDOWN",
    "SYSTEM STOP LISTEN HTTP",
    "SYSTEM FLUSH LOGS",
    "SET readonly = 0",
    "SELECT 1 SETTINGS readonly = 0",
    "SELECT 1 SETTINGS max_memory_usage = 0",
    "GRANT SELECT ON *.* TO reader",
    "CREATE USER x",
    "SHOW USERS",
    "SHOW CREATE USER millrace",
    "SELECT * FROM system.users",
    "SELECT * FROM system.processes",
    "SELECT * FROM system.parts",
    "SELECT * FROM system.row_policies",
    "SELECT * FROM system.query_log",
    "SELECT * FROM system.server_settings",
    "SELECT * FROM system.disks",
    "SELECT addressToLine(1)",
];

#[test]
fn the_engines_own_session_user_can_do_nothing_over_http() {
    let direct = engine().direct();
    // The gate says what is missing, where the engine has a session too many.
    for (engine, expected) in [(engine(), "516"), (&direct, "700")] {
        let own = engine.by("default", "");
        for sql in [
            "SELECT 1",
            "SYSTEM STOP LISTEN HTTP",
            "SELECT file('/etc/hostname')",
        ] {
            let response = post(&own, &[], sql.as_bytes());
            let code = response.header("x-clickhouse-exception-code");
            assert_eq!(code, expected, "{sql}: {}", response.text());
        }
    }
    // Without a name a client is this user.
    for method in [&["-X", "GET"][..], &["--data-binary", "SELECT 1"]] {
        let nobody = curl(engine(), &[("query", "SELECT 1")], method, b"");
        let text = nobody.text();
        assert_eq!(nobody.status, 403, "{text}");
        assert!(text.contains("name a user and its password"), "{text}");
    }
    assert_eq!(query(engine(), "SELECT 1"), "1\n");
}

#[test]
fn whoever_only_reads_can_do_nothing_else() {
    let reader = engine().by("reader", PASSWORD);
    for user in [reader, project(engine(), 3)] {
        for sql in FILES.iter().chain(REFUSED) {
            let response = post(&user, &[], sql.as_bytes());
            let text = response.text();
            assert_ne!(response.status, 200, "{}: {sql}: {text}", user.user);
        }
    }
    let rows = query(engine(), "SELECT count() FROM millrace.events");
    assert_eq!(rows, "2\n", "nothing was changed");
}

#[test]
fn no_user_reads_a_file_by_a_function() {
    let users = [
        engine().by(&engine().user, &engine().password),
        engine().by("admin", PASSWORD),
        engine().by("reader", PASSWORD),
    ];
    for user in users {
        for sql in FILES {
            let response = post(&user, &[], sql.as_bytes());
            assert_ne!(
                response.status,
                200,
                "{}: {sql}: {}",
                user.user,
                response.text()
            );
        }
    }
}

#[test]
fn reader_reads_all_projects_and_a_project_its_own_rows_only() {
    let reader = engine().by("reader", PASSWORD);
    let first = first_project();
    for name in PROJECT_VIEWS {
        let all = format!("SELECT event FROM millrace.{name} ORDER BY team_id");
        assert_eq!(query(&reader, &all), format!("mine\n{CANARY}\n"));
        let own = format!("SELECT team_id, event FROM project.{name}");
        assert_eq!(query(first, &own), "1\tmine\n", "{name}");
    }
}

/// Ways to the rows of another project. `VIEW` is a view of the project, `TABLE` its table.
const WAYS: &[&str] = &[
    "SELECT * FROM VIEW",
    "SELECT * FROM VIEW WHERE team_id = 2",
    "SELECT * FROM VIEW PREWHERE team_id = 2",
    "SELECT * FROM VIEW FINAL",
    "SELECT count() FROM VIEW WHERE event LIKE 'CAN%' HAVING count() > 0",
    "SELECT team_id, groupArray(event) FROM VIEW GROUP BY team_id WITH TOTALS",
    "SELECT a.event, b.event FROM VIEW AS a CROSS JOIN VIEW AS b",
    "SELECT b.event FROM (SELECT 1 AS one) AS a LEFT JOIN VIEW AS b ON 1 = 1",
    "WITH x AS (SELECT * FROM VIEW) SELECT * FROM x UNION ALL SELECT * FROM x",
    "SELECT (SELECT groupArray(event) FROM VIEW)",
    "SELECT * FROM view(SELECT * FROM VIEW)",
    "SELECT * FROM merge('project', '.*')",
    "SELECT * FROM merge(REGEXP('.*'), '.*')",
    "SELECT * FROM VIEW SETTINGS query_cache_tag = 'a'",
    "SELECT * FROM VIEW SETTINGS additional_table_filters = {'project.tokens': '1'}",
    "SELECT * FROM project.tokens WHERE team_id = 2",
    "SELECT * FROM project.unfiltered",
    "SELECT * FROM TABLE",
    "SELECT * FROM merge('millrace', '.*')",
    "SELECT * FROM mergeTreeIndex('millrace', 'NAME')",
    "SELECT * FROM mergeTreeIndex('project', 'NAME')",
    "SELECT * FROM mergeTreeProjection('millrace', 'NAME', 'p')",
    "SELECT * FROM mergeTreeAnalyzeIndexes('millrace', 'NAME')",
    "SELECT * FROM loop('millrace', 'NAME') LIMIT 5",
    "SELECT * FROM dictionary('millrace.d')",
    "SELECT * FROM remote('127.0.0.1', 'millrace', 'NAME')",
    "SELECT * FROM cluster('default', 'millrace', 'NAME')",
    "SELECT * FROM system.parts",
    "SELECT * FROM system.processes",
    "SELECT * FROM system.query_log",
    "SELECT * FROM information_schema.tables",
    "EXPLAIN SELECT * FROM VIEW",
    "EXPLAIN indexes = 1, actions = 1 SELECT * FROM VIEW",
    "EXPLAIN PIPELINE SELECT * FROM VIEW",
    "EXPLAIN ESTIMATE SELECT * FROM TABLE",
    "SHOW CREATE TABLE VIEW",
    "SHOW TABLES FROM millrace",
    "DESCRIBE TABLE TABLE",
    "CHECK TABLE TABLE",
    "SELECT estimateCompressionRatio(event) FROM TABLE",
    "SELECT event IN (SELECT event FROM TABLE) FROM (SELECT 'x' AS event)",
    "SELECT * FROM VIEW AS v WHERE EXISTS (SELECT 1 FROM TABLE)",
    "SELECT joinGet('millrace.NAME', 'event', 2)",
    "SELECT hasColumnInTable('millrace', 'NAME', 'event')",
];

#[test]
fn a_project_never_sees_another_ones_rows() {
    let first = project(engine(), 5);
    let second = project(engine(), 2);
    let token = query(&second, "SELECT getSetting('query_cache_tag')");
    let session = [("session_id", "users"), ("query_cache_tag", "a")];
    let in_session = behind_the_gate(&first);
    assert_eq!(
        query(&second, "SELECT event FROM project.events"),
        format!("{CANARY}\n")
    );
    for name in PROJECT_VIEWS {
        for way in WAYS {
            let sql = way
                .replace("VIEW", &format!("project.{name}"))
                .replace("TABLE TABLE", "TABLE millrace.NAME")
                .replace("FROM TABLE", "FROM millrace.NAME")
                .replace("NAME", name);
            for (user, parameters) in [(&first, &[][..]), (&in_session, &session[..1])] {
                let text = post(user, parameters, sql.as_bytes()).text();
                assert!(!text.contains(CANARY), "{sql}: {text}");
                assert!(!text.contains(token.trim()), "{sql}: {text}");
            }
        }
    }
    // A token that is no token, in a session, where its setting is free.
    let response = post(&in_session, &session, b"SELECT count() FROM project.events");
    assert_eq!(response.text(), "0\n");
    for name in PROJECT_VIEWS {
        let count = format!("SELECT count() FROM project.{name}");
        let fresh = [("session_id", "users-without-token")];
        let text = post(&in_session, &fresh, count.as_bytes()).text();
        assert!(text.contains("no sessions"), "{name}: {text}");
    }
    // The gate says so of every statement, and nothing else.
    let told = post(&first, &session, b"SELECT 1");
    assert_eq!(told.status, 400, "{}", told.text());
    assert_eq!(told.header("x-clickhouse-exception-code"), "36");
    let text = told.text();
    assert!(
        text.starts_with("Code: 36. DB::Exception: the user of a project has no sessions"),
        "{text}"
    );
}

/// Any member of a project can print the token of `project_query`, which no rotation changes.
#[test]
fn a_token_is_of_no_use_to_another_user_of_the_engine() {
    let first = project(engine(), 8);
    let second = project_query(engine(), 2);
    let count = "SELECT count() FROM project.events";
    assert_eq!(query(&second, count), "1\n");
    let token = query(&second, "SELECT getSetting('query_cache_tag')");
    let token = ("query_cache_tag", token.trim());
    let oracle = "SELECT count() FROM project.events WHERE throwIf(team_id = 2) = 0";
    let in_session = behind_the_gate(&first);
    for (user, parameters) in [
        (&first, vec![token]),
        (&in_session, vec![token, ("session_id", "token")]),
    ] {
        for sql in [count, oracle] {
            let response = post(user, &parameters, sql.as_bytes());
            assert_eq!(
                (response.status, response.text().as_str()),
                (200, "0\n"),
                "{parameters:?}: {sql}"
            );
        }
    }
}

#[test]
fn users_of_projects_only_read_in_sessions_too() {
    let session = ("session_id", "only-read");
    for user in [project(engine(), 9), project_query(engine(), 9)] {
        let user = behind_the_gate(&user);
        for more in [
            ("max_threads", "3000"),
            ("use_query_cache", "1"),
            ("log_comment", "x"),
            ("replace_running_query", "1"),
            ("readonly", "0"),
        ] {
            for parameters in [vec![more], vec![more, session]] {
                let response = post(&user, &parameters, b"SELECT 1");
                let code = response.header("x-clickhouse-exception-code");
                assert_eq!(code, "164", "{}: {parameters:?}", user.user);
            }
        }
        let set = post(&user, &[session], b"SET max_threads = 3000");
        assert_eq!(set.header("x-clickhouse-exception-code"), "164");
    }
}

/// Statements that fail where a condition is evaluated on a row of the other project.
const ORACLES: &[&str] = &[
    "SELECT count() FROM VIEW WHERE throwIf(event LIKE 'CAN%') = 0",
    "SELECT count() FROM VIEW WHERE throwIf(team_id = 2) = 0",
    "SELECT count() FROM VIEW WHERE event != 'x' AND throwIf(team_id = 2) = 0",
    "SELECT count() FROM VIEW WHERE intDiv(1, toInt8(event LIKE 'mine%')) != 7",
    "SELECT sum(throwIf(team_id = 2)) FROM VIEW",
    "SELECT count() FROM VIEW WHERE ignore(throwIf(team_id = 2)) = 0 GROUP BY event",
    "SELECT count() FROM (SELECT * FROM VIEW) WHERE throwIf(team_id = 2) = 0",
    "SELECT count() FROM view(SELECT * FROM VIEW) WHERE throwIf(team_id = 2) = 0",
    "SELECT count() FROM VIEW AS a JOIN VIEW AS b USING event WHERE throwIf(a.team_id = 2) = 0",
    "SELECT event FROM VIEW WHERE event IN (SELECT event FROM VIEW WHERE throwIf(team_id = 2) = 0)",
    "SELECT event FROM VIEW ORDER BY throwIf(team_id = 2) LIMIT 1",
    "WITH x AS (SELECT * FROM VIEW) SELECT count() FROM x WHERE throwIf(event LIKE 'CAN%') = 0",
];

#[test]
fn errors_tell_a_project_nothing_of_another_ones_rows() {
    let first = first_project();
    for name in PROJECT_VIEWS {
        for oracle in ORACLES {
            let sql = oracle.replace("VIEW", &format!("project.{name}"));
            let response = post(first, &[], sql.as_bytes());
            assert_eq!(response.status, 200, "{sql}: {}", response.text());
        }
    }
}

#[test]
fn nobody_logs_in_as_the_definer_of_the_views() {
    for password in ["", PASSWORD, &engine().password] {
        let definer = engine().by(VIEWS, password);
        let response = post(&definer, &[], b"SELECT 1");
        assert_ne!(response.status, 200, "{}", response.text());
    }
}

/// What a link or a form of another site could do with a login that a browser saved, on the port of
/// the gate and on the engine's own.
#[test]
fn other_sites_get_no_answer_and_no_page_is_made() {
    let direct = engine().direct();
    let header = format!("X-ClickHouse-Key: {}", direct.password);
    let user = format!("X-ClickHouse-User: {}", direct.user);
    let login = ["-H", header.as_str(), "-H", user.as_str()];
    for engine in [engine(), &direct] {
        for (site, expected) in [
            ("cross-site", 403),
            ("same-site", 403),
            ("same-origin", 200),
            ("none", 200),
        ] {
            let site = format!("Sec-Fetch-Site: {site}");
            let select = [("query", "SELECT 1")];
            for method in [&["-X", "GET"][..], &["--data-binary", ""]] {
                let arguments = [&login[..], &["-H", &site], method].concat();
                let response = curl(engine, &select, &arguments, b"");
                let text = response.text();
                assert_eq!(response.status, expected, "{site} {method:?}: {text}");
            }
        }
        let headers = ("http_response_headers", "{'Content-Type':'text/html'}");
        let script = ("query", "SELECT '<script>' FORMAT RawBLOB");
        let response = curl(engine, &[headers, script], &login, b"");
        let code = response.header("x-clickhouse-exception-code");
        assert_eq!(code, "452", "{}", response.text());
        // The gate leaves both out, as they come from the page `/play`; the engine refuses them.
        let cors = ("add_http_cors_header", "1");
        for parameters in [vec![cors, script], vec![cors, headers, script]] {
            let response = curl(engine, &parameters, &login, b"");
            let text = response.text();
            let is_refused = response.header("x-clickhouse-exception-code") == "452";
            assert!(is_refused || text == "<script>", "{parameters:?}: {text}");
            let opened = response.header("access-control-allow-origin");
            assert_eq!(opened, "", "{parameters:?}");
            let content_type = response.header("content-type");
            assert!(!content_type.contains("html"), "{content_type}");
        }
    }
}

/// Browsers name the site to https and to loopback only, and the origin to all.
#[test]
fn a_form_of_another_origin_changes_nothing() {
    let engine = engine();
    query(
        engine,
        "CREATE TABLE default.forms (a Int8) ENGINE = Memory",
    );
    let host = engine.url.trim_start_matches("http://");
    let (own, other) = (format!("http://{host}"), "http://evil.example".to_owned());
    for (origin, expected) in [
        (own, 200),
        (other, 403),
        (format!("https://{host}"), 200),
        ("null".to_owned(), 403),
    ] {
        let login = format!("{}:{}", engine.user, engine.password);
        let origin = format!("Origin: {origin}");
        let insert = "INSERT INTO default.forms VALUES (1)";
        let arguments = ["-u", &login, "-H", &origin, "--data-binary", insert];
        let response = curl(engine, &[], &arguments, b"");
        assert_eq!(response.status, expected, "{origin}: {}", response.text());
    }
    assert_eq!(query(engine, "SELECT count() FROM default.forms"), "2\n");
}

#[test]
fn a_changed_or_removed_password_holds_at_once() {
    let engine = engine();
    let first = project(engine, 7);
    let status = |user: &TestEngine| post(user, &[], b"SELECT 1").status;
    assert_eq!(status(&first), 200);
    let second = project(engine, 7);
    assert_eq!((status(&first), status(&second)), (403, 200));
    assert!(change_users(engine, |users| users.remove(&project_user(7))));
    assert_eq!(status(&second), 403);
    assert_eq!(status(&engine.by("reader", PASSWORD)), 200);
}
