//! Queries without a ClickHouse: answers by the text of the query.

use async_trait::async_trait;
use bytes::Bytes;
use millrace_admin::project_queries::{
    ClickHouseError, LoginPlace, NewPassword, ProjectQueries, ProjectQuery, QueryAnswer,
    QueryFailure, QueryFormat,
};
use std::io;
use std::time::Duration;
use tokio::sync::mpsc;
use uuid::Uuid;

/// Query that is refused as no SQL is.
pub const WRONG: &str = "SELEC 1";
/// Query that takes more than it may.
pub const LARGE: &str = "SELECT * FROM events";
/// Query whose answer breaks off.
pub const BROKEN: &str = "SELECT throwIf(1)";
/// Query whose answer begins, and has no end.
pub const ENDLESS: &str = "SELECT sleep(1)";
/// Password of every user.
pub const PASSWORD: &str = "7_c4n4ry";

#[derive(Debug)]
pub struct FakeQueries;

/// Id of the one query of a project that runs.
pub fn running_query(project_id: i64) -> Uuid {
    Uuid::from_u128(project_id.unsigned_abs().into())
}

#[async_trait]
impl ProjectQueries for FakeQueries {
    async fn run(&self, query: ProjectQuery) -> Result<QueryAnswer, QueryFailure> {
        let error = ClickHouseError {
            code: 62,
            name: Some("SYNTAX_ERROR".to_owned()),
            message: "Syntax error: failed at position 7".to_owned(),
            position: Some(7),
        };
        match query.sql.as_str() {
            WRONG => return Err(QueryFailure::Refused(error)),
            LARGE => return Err(QueryFailure::LimitExceeded(error)),
            _ => {}
        }
        let (sender, pieces) = mpsc::channel(2);
        let text = match query.format {
            QueryFormat::Json => "{}",
            other => other.clickhouse_name(),
        };
        sender.send(Ok(Bytes::from(text))).await.unwrap();
        match query.sql.as_str() {
            // Once its beginning is on its way: hyper drops what it has not written.
            BROKEN => drop(tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(200)).await;
                let _ = sender.send(Err(io::Error::other("it failed"))).await;
            })),
            ENDLESS => drop(tokio::spawn(async move { sender.closed().await })),
            _ => {}
        }
        Ok(QueryAnswer {
            summary: Some(r#"{"read_rows":"1"}"#.to_owned()),
            pieces,
        })
    }

    async fn stop(&self, project_id: i64, query_id: Uuid) -> Result<bool, QueryFailure> {
        Ok(query_id == running_query(project_id))
    }

    async fn login_place(&self, _: i64) -> Result<LoginPlace, QueryFailure> {
        Ok(LoginPlace {
            user: "project".to_owned(),
            database: "project".to_owned(),
            url: "http://127.0.0.1:8123".to_owned(),
        })
    }

    fn new_password(&self, _: i64) -> NewPassword {
        NewPassword {
            password: PASSWORD.to_owned(),
            password_sha256: "ab".to_owned(),
            token_sha256: "cd".to_owned(),
        }
    }
}
