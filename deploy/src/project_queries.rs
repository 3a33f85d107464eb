//! Runs the API's queries of projects, as the API's trait asks for them.

use crate::config::Config;
use crate::connect;
use crate::project_access::{NO_PASSWORDS, ProjectAccess, check_supported};
use async_trait::async_trait;
use millrace_admin::project_queries::{
    ClickHouseError, LoginPlace, NewPassword, Piece, ProjectQueries, ProjectQuery, QueryAnswer,
    QueryFailure,
};
use millrace_clickhouse::{ProjectAnswer, ProjectStatement, QueryError};
use millrace_embedded::{PROJECT, PROJECT_DATABASE, password_hash, project_password, token_hash};
use millrace_rows::RareLog;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, mpsc};
use uuid::Uuid;

/// Bytes of an answer that ClickHouse holds back.
pub const HELD_BYTES: usize = 1 << 20;
/// Longest time of a query and its answer: more than ClickHouse allows, which ends it before.
pub const DURATION_MAX: Duration = Duration::from_secs(310);
/// Pieces of an answer that wait for a client.
const PIECES_MAX: usize = 2;

/// Queries in the ClickHouse of a configuration.
#[derive(Debug)]
pub struct Queries {
    config: Config,
    /// Access by the last known settings: the address of the embedded engine may change.
    access: Mutex<Option<Arc<ProjectAccess>>>,
    failures: RareLog,
}

impl Queries {
    /// Queries by these settings. Does not connect yet.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        Self {
            config: config.clone(),
            access: Mutex::default(),
            failures: RareLog::default(),
        }
    }

    async fn access(&self) -> Result<Arc<ProjectAccess>, QueryFailure> {
        check_supported(&self.config)
            .map_err(|error| QueryFailure::Unsupported(format!("{error:#}")))?;
        let settings = connect::clickhouse_settings(&self.config);
        let settings = settings.map_err(|error| self.unavailable(&format!("{error:#}")))?;
        let mut access = self.access.lock().await;
        if let Some(access) = access.as_ref().filter(|access| access.is_of(&settings)) {
            return Ok(Arc::clone(access));
        }
        let connected = ProjectAccess::connect(&self.config, settings).await;
        let connected = connected.map_err(|error| self.unavailable(&error.cause()))?;
        Ok(Arc::clone(access.insert(Arc::new(connected))))
    }

    /// Logs a cause that the operator has to know, and clients are told nothing of.
    fn unavailable(&self, cause: &str) -> QueryFailure {
        if self.failures.is_due(cause, Instant::now()) {
            tracing::warn!(cause, "queries of projects cannot be run in ClickHouse");
        }
        QueryFailure::Unavailable
    }

    fn failure(&self, error: &QueryError) -> QueryFailure {
        match classified(error) {
            QueryFailure::Unavailable => {
                let cause = match error.code {
                    // Of a server whose user may not make others.
                    Some(_) => format!("{}: {}", error.cause(), error.reason()),
                    None => error.cause(),
                };
                self.unavailable(&cause)
            }
            other => other,
        }
    }
}

#[async_trait]
impl ProjectQueries for Queries {
    async fn run(&self, query: ProjectQuery) -> Result<QueryAnswer, QueryFailure> {
        let access = self.access().await?;
        let format = query.format.clickhouse_name();
        let query_id = clickhouse_id(query.project_id, query.query_id);
        let statement = ProjectStatement {
            sql: &query.sql,
            format,
            query_id: &query_id,
            held_bytes: HELD_BYTES,
            duration_max: DURATION_MAX,
        };
        let rows = access.run(query.project_id, &statement).await;
        let rows = rows.map_err(|error| self.failure(&error))?;
        if rows.format() != format {
            return Err(QueryFailure::FormatNamed);
        }
        let summary = rows.summary().map(str::to_owned);
        let (sender, pieces) = mpsc::channel(PIECES_MAX);
        // Ends with the answer, or when nobody reads it any more.
        tokio::spawn(pass_on(rows, sender));
        Ok(QueryAnswer { summary, pieces })
    }

    async fn stop(&self, project_id: i64, query_id: Uuid) -> Result<bool, QueryFailure> {
        let access = self.access().await?;
        let (clickhouse, query_id) = (access.clickhouse(), clickhouse_id(project_id, query_id));
        let stopped = async {
            let is_running = clickhouse.is_running(&query_id).await?;
            if is_running {
                clickhouse.stop(&query_id).await?;
            }
            Ok::<_, QueryError>(is_running)
        };
        stopped.await.map_err(|error| self.failure(&error))
    }

    async fn has_ended(&self, project_id: i64, query_id: Uuid) -> bool {
        let Ok(access) = self.access().await else {
            return true;
        };
        let query_id = clickhouse_id(project_id, query_id);
        let is_running = access.clickhouse().is_running(&query_id).await;
        !is_running.unwrap_or(false)
    }

    async fn login_place(&self, project_id: i64) -> Result<LoginPlace, QueryFailure> {
        let access = self.access().await?;
        let url = connect::clients_url(&self.config);
        let user = access.login_name(project_id);
        Ok(LoginPlace {
            user: user.ok_or_else(|| QueryFailure::Unsupported(NO_PASSWORDS.to_owned()))?,
            database: PROJECT_DATABASE.to_owned(),
            url: url.map_err(|error| self.unavailable(&format!("{error:#}")))?,
        })
    }

    fn new_password(&self, project_id: i64) -> NewPassword {
        let password = project_password(project_id);
        NewPassword {
            password_sha256: password_hash(&password),
            token_sha256: token_hash(PROJECT, &password),
            password,
        }
    }
}

/// Id of a query in ClickHouse. It has the project, so that nobody stops queries of another one.
fn clickhouse_id(project_id: i64, query_id: Uuid) -> String {
    format!("project_{project_id}_{query_id}")
}

/// Passes the pieces of an answer on until it ends, or nobody takes them any more.
async fn pass_on(mut rows: ProjectAnswer, sender: mpsc::Sender<Piece>) {
    loop {
        let next = tokio::select! {
            next = rows.next() => next,
            () = sender.closed() => return,
        };
        let piece = match next {
            Ok(Some(piece)) => Ok(piece),
            Ok(None) => return,
            Err(error) => Err(io::Error::other(error.reason().to_owned())),
        };
        let is_last = piece.is_err();
        if sender.send(piece).await.is_err() || is_last {
            return;
        }
    }
}

/// Meaning of an error for the customer.
fn classified(error: &QueryError) -> QueryFailure {
    let Some(code) = error.code else {
        return QueryFailure::Unavailable;
    };
    let of_clickhouse = || ClickHouseError {
        code,
        name: error.name().map(str::to_owned),
        message: error.reason().to_owned(),
        position: error.position(),
    };
    match code {
        // Limits of time, memory, rows, bytes, and of the statement itself.
        158 | 159 | 160 | 161 | 162 | 167 | 168 | 191 | 241 | 307 | 396 => {
            QueryFailure::LimitExceeded(of_clickhouse())
        }
        201 => QueryFailure::QuotaExceeded,
        202 => QueryFailure::Busy,
        216 => QueryFailure::IdInUse,
        394 => QueryFailure::Stopped,
        // Users, the network, the server's state.
        192..=195 | 209 | 210 | 242 | 243 | 516 | 745 | 999 => QueryFailure::Unavailable,
        _ => QueryFailure::Refused(of_clickhouse()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(code: Option<u32>) -> QueryError {
        let text = "Code: 62. DB::Exception: Syntax error: failed at position 3 (x). (SYNTAX_ERROR) (version 1)";
        QueryError {
            code,
            ..QueryError::without_code(text)
        }
    }

    #[test]
    fn errors_of_clickhouse_are_the_querys_or_the_servers() {
        let of = |code| classified(&error(code));
        assert!(matches!(of(None), QueryFailure::Unavailable));
        assert!(matches!(of(Some(516)), QueryFailure::Unavailable));
        assert!(matches!(of(Some(202)), QueryFailure::Busy));
        assert!(matches!(of(Some(394)), QueryFailure::Stopped));
        assert!(matches!(of(Some(159)), QueryFailure::LimitExceeded(_)));
        assert!(matches!(of(Some(497)), QueryFailure::Refused(_)));
        let QueryFailure::Refused(refused) = of(Some(62)) else {
            panic!("a syntax error is the query's");
        };
        let expected = ClickHouseError {
            code: 62,
            name: Some("SYNTAX_ERROR".to_owned()),
            message: "Syntax error: failed at position 3 (x).".to_owned(),
            position: Some(3),
        };
        assert_eq!(refused, expected);
    }
}
