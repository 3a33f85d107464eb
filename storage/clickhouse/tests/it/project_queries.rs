//! Statements of customers with the rights of their project's user, on the real engine.

use crate::fixture::Database;
use millrace_clickhouse::{
    ProjectAnswer, ProjectLogin, ProjectStatement, ProjectToken, ProjectUsers, ProjectViews,
    QueryError, ReadOptions, UserLimits,
};
use millrace_embedded::testing::TestEngine;
use millrace_embedded::{
    EXPORT, PROJECT_DATABASE, PROJECT_TOKENS, PROJECT_VIEWS, QUERY, QueryKey, VIEWS, token_hash,
};
use std::time::Duration;
use uuid::Uuid;

/// Statement that takes minutes.
const SLOW: &str = "SELECT sum(sleepEachRow(0.00004)) FROM numbers(100000000)";

pub fn views() -> ProjectViews<'static> {
    ProjectViews {
        database: PROJECT_DATABASE,
        tokens: PROJECT_TOKENS,
        views: &PROJECT_VIEWS,
        definer: VIEWS,
    }
}

/// Database with one event of each of two projects.
async fn database(engine: &TestEngine) -> Database {
    let database = Database::make_on(engine, "millrace").await;
    for (project, name) in [(1, "mine"), (2, "CANARY2")] {
        let sql = format!(
            "INSERT INTO millrace.events (uuid, event, timestamp, team_id, distinct_id) \
             SELECT generateUUIDv4(), '{name}', now64(6), {project}, '{name}' FROM numbers(50)"
        );
        database.execute(&sql).await;
    }
    database
}

/// Opens a project to the program's own user, and returns its login.
pub async fn login(database: &Database, engine: &TestEngine, project_id: i64) -> ProjectLogin {
    login_as(QUERY, database, engine, project_id).await
}

async fn login_as(
    user: &str,
    database: &Database,
    engine: &TestEngine,
    project_id: i64,
) -> ProjectLogin {
    let password = QueryKey::of(&engine.password).password(project_id);
    let token = ProjectToken {
        team_id: project_id,
        hash: token_hash(user, &password),
    };
    let clickhouse = &database.clickhouse;
    for _ in 0..2 {
        clickhouse
            .open_project(&views(), &token, None)
            .await
            .unwrap();
        assert!(clickhouse.has_token(&views(), &token).await.unwrap());
    }
    ProjectLogin {
        user: user.to_owned(),
        password,
        database: PROJECT_DATABASE,
    }
}

pub fn statement<'a>(sql: &'a str, query_id: &'a str) -> ProjectStatement<'a> {
    ProjectStatement {
        sql,
        format: "JSONEachRow",
        query_id,
        held_bytes: 1 << 20,
        duration_max: Duration::from_secs(60),
    }
}

pub async fn all(rows: &mut ProjectAnswer) -> Result<String, QueryError> {
    let mut text = Vec::new();
    while let Some(piece) = rows.next().await? {
        text.extend_from_slice(&piece);
    }
    Ok(String::from_utf8(text).unwrap())
}

#[tokio::test]
async fn a_statement_sees_the_rows_of_its_project_and_tells_its_figures() {
    let engine = TestEngine::start();
    let database = database(&engine).await;
    let clickhouse = &database.clickhouse;
    for (id, expected) in [(1, "mine"), (2, "CANARY2"), (3, "")] {
        let login = login(&database, &engine, id).await;
        let query_id = format!("sees-{id}");
        let sql = "SELECT DISTINCT event FROM events";
        let mut rows = clickhouse
            .query_as(&login, &statement(sql, &query_id))
            .await
            .unwrap();
        assert_eq!(rows.format(), "JSONEachRow");
        let summary = rows.summary().unwrap().to_owned();
        assert!(summary.contains("\"read_rows\":"), "{summary}");
        let text = all(&mut rows).await.unwrap();
        let line = format!("{{\"event\":\"{expected}\"}}\n");
        assert_eq!(
            text,
            if expected.is_empty() {
                ""
            } else {
                line.as_str()
            }
        );
    }
    let tokens = clickhouse.project_tokens(&views()).await.unwrap();
    let ids: Vec<_> = tokens.iter().map(|token| token.team_id).collect();
    assert_eq!(ids, [1, 2, 3]);
    clickhouse.close_projects(&views(), &[2, 3]).await.unwrap();
    let left = clickhouse.project_tokens(&views()).await.unwrap();
    assert_eq!(left, tokens.into_iter().take(1).collect::<Vec<_>>());
}

/// A function of a `LowCardinality` column is executed on the dictionary of the part, which has the
/// values of all projects.
#[tokio::test]
async fn columns_of_projects_have_no_dictionary_that_others_share() {
    let engine = TestEngine::start();
    let database = database(&engine).await;
    database
        .execute("OPTIMIZE TABLE millrace.events FINAL")
        .await;
    let login = login(&database, &engine, 1).await;
    let shared = format!(
        "SELECT count() FROM system.columns WHERE database = '{PROJECT_DATABASE}' \
         AND type LIKE '%LowCardinality%'"
    );
    assert_eq!(database.number(&shared).await, 0);
    let sql = "SELECT toUInt8(replaceRegexpOne(event, '^[^C].*$', '7')) AS a FROM events LIMIT 1";
    let mut rows = database
        .clickhouse
        .query_as(&login, &statement(sql, "dictionary"))
        .await
        .unwrap();
    assert_eq!(all(&mut rows).await.unwrap(), "{\"a\":7}\n");
}

#[tokio::test]
async fn errors_have_codes_and_positions_and_limits_hold() {
    let engine = TestEngine::start();
    let database = database(&engine).await;
    let login = login(&database, &engine, 1).await;
    let table = [
        ("SELECT 1,\n  a b bad", 62, Some(17)),
        ("SELECT nope FROM events", 47, None),
        ("SELECT * FROM millrace.events", 497, None),
        ("SELECT 1 SETTINGS max_threads = 9", 164, None),
        (
            "SELECT throwIf(number = 90000) FROM numbers(100000)",
            395,
            None,
        ),
        ("SELECT number FROM numbers(1100000)", 396, None),
    ];
    for (number, (sql, code, position)) in table.into_iter().enumerate() {
        let query_id = format!("error-{number}");
        let begun = database
            .clickhouse
            .query_as(&login, &statement(sql, &query_id))
            .await;
        let error = match begun {
            Ok(mut rows) => all(&mut rows).await.unwrap_err(),
            Err(error) => error,
        };
        assert_eq!(error.code, Some(code), "{sql}: {error}");
        assert_eq!(error.position(), position, "{sql}: {error}");
        assert!(!error.reason().contains("version"), "{}", error.reason());
    }
    let wrong = ProjectLogin {
        password: QueryKey::of("another").password(1),
        ..login
    };
    let refused = database
        .clickhouse
        .query_as(&wrong, &statement("SELECT 1", "wrong"))
        .await;
    assert_eq!(refused.unwrap_err().code, Some(516));
}

#[tokio::test]
async fn a_statement_whose_answer_is_dropped_ends() {
    let engine = TestEngine::start();
    let database = database(&engine).await;
    let login = login(&database, &engine, 1).await;
    let clickhouse = &database.clickhouse;
    let slow = statement(SLOW, "dropped");
    let begun = clickhouse.query_as(&login, &slow);
    let begun = tokio::time::timeout(Duration::from_secs(2), begun).await;
    assert!(begun.is_err(), "it has ended by itself");
    for _ in 0..200 {
        if clickhouse
            .query_progress("dropped")
            .await
            .unwrap()
            .is_none()
        {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the statement runs on");
}

#[tokio::test]
async fn the_user_of_exports_reads_the_tables_and_the_rows_of_its_project() {
    let engine = TestEngine::start();
    let database = database(&engine).await;
    let login = login_as(EXPORT, &database, &engine, 1).await;
    for sql in [
        "SELECT DISTINCT event FROM millrace.events PREWHERE 1",
        "SELECT DISTINCT event FROM millrace.events WHERE throwIf(team_id = 2) = 0",
        "SELECT DISTINCT event FROM (SELECT * FROM millrace.events WHERE team_id IN (1, 2))",
    ] {
        let options = ReadOptions {
            settings: vec![("optimize_move_to_prewhere".to_owned(), "0".to_owned())],
            login: Some(login.clone()),
            ..ReadOptions::new(Uuid::new_v4().to_string())
        };
        let sql = format!("{sql} FORMAT TSVRaw");
        let mut rows = database.clickhouse.read(&sql, &options).unwrap();
        let mut text = Vec::new();
        while let Some(piece) = rows.next().await.unwrap() {
            text.extend_from_slice(&piece);
        }
        assert_eq!(text, b"mine\n", "{sql}");
    }
    let options = ReadOptions {
        login: Some(login),
        ..ReadOptions::new(Uuid::new_v4().to_string())
    };
    let sql = "INSERT INTO millrace.events (team_id) VALUES (1)";
    let mut refused = database.clickhouse.read(sql, &options).unwrap();
    refused.next().await.unwrap_err();
}

#[tokio::test]
async fn a_statement_that_runs_too_long_is_found_by_its_user() {
    let engine = TestEngine::start();
    let database = database(&engine).await;
    let login = login(&database, &engine, 1).await;
    let clickhouse = &database.clickhouse;
    let slow = statement(SLOW, "overdue");
    let look = async {
        for _ in 0..200 {
            let found = clickhouse.overdue_statements(&[QUERY], &["nobody"], 0);
            if found.await.unwrap() == ["overdue"] {
                let others = clickhouse.overdue_statements(&["nobody"], &[QUERY], 0);
                return others.await.unwrap();
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("it is not found");
    };
    let others = tokio::select! {
        others = look => others,
        ended = clickhouse.query_as(&login, &slow) => panic!("it has ended: {:?}", ended.err()),
    };
    assert!(others.is_empty(), "{others:?}");
    let other = statement(SLOW, "stopped");
    let stop = async {
        for _ in 0..1000 {
            let stopped = clickhouse.stop_overdue_statements(&[QUERY], &["nobody"], 0);
            stopped.await.unwrap();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let begun = tokio::select! {
        begun = clickhouse.query_as(&login, &other) => begun,
        () = stop => panic!("it does not end"),
    };
    assert_eq!(begun.unwrap_err().code, Some(394));
}

/// The embedded engine makes no users by SQL; it parses the statements.
#[tokio::test]
async fn statements_that_make_users_are_sql() {
    let engine = TestEngine::start();
    let database = database(&engine).await;
    let users = ProjectUsers {
        database: PROJECT_DATABASE,
        views: &PROJECT_VIEWS,
        definer: VIEWS,
    };
    let limits = UserLimits {
        memory_bytes_max: 1 << 30,
        seconds_max: 300,
        statements_max: 8,
        result_rows_max: Some(10),
    };
    for cluster in [None, Some("main")] {
        let mut settings = database.settings.clone();
        settings.cluster = cluster.map(str::to_owned);
        let clickhouse = millrace_clickhouse::ClickHouse::new(&settings);
        let mut statements = clickhouse.statements_for_users(&users);
        statements.extend(clickhouse.statements_for_user(&users, "project_7", 7, "ab", limits));
        assert!(statements.len() > 30, "{statements:?}");
        for sql in statements {
            let sql = sql.replace('\\', "\\\\").replace('\'', "\\'");
            let parsed = format!("SELECT toUInt64(length(formatQuerySingleLine('{sql}')))");
            assert!(database.number(&parsed).await > 10, "{sql}");
        }
    }
}
