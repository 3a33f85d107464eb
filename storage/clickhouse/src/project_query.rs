//! Statements of customers, run with the rights of their project's user.
//!
//! The statement is the customer's own text. What it may read, and how much of it, is decided by
//! the rights, row filters and limits of the user in ClickHouse: nothing here reads the text. The
//! answer is streamed; its beginning is held back by ClickHouse, so that a statement that fails
//! early fails as a whole, and a short answer has the figures of the whole statement.

use crate::answer::failure_text;
use crate::post::{EXCEPTION_CODE, QUERY_ID, header};
use crate::query_id::has_id;
use crate::running_query::RunningQuery;
use crate::settings::quoted_text;
use crate::tail::Tail;
use crate::{ClickHouse, QueryError, Settings};
use bytes::Bytes;
use clickhouse::error::Error;
use hyper::StatusCode;
use hyper::body::{Body, Incoming};
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Most bytes of an error that are read.
const ERROR_BYTES_MAX: usize = 64 << 10;
const FORMAT: &str = "x-clickhouse-format";
const DATABASE: &str = "x-clickhouse-database";
const SUMMARY: &str = "x-clickhouse-summary";

/// Login for the rows of one project.
#[derive(Clone)]
pub struct ProjectLogin {
    /// Name of the user.
    pub user: String,
    /// Password; never shown by `Debug`.
    pub password: String,
    /// Database that names in statements are of.
    pub database: &'static str,
}

/// Statement of a customer.
#[derive(Clone, Copy, Debug)]
pub struct ProjectStatement<'a> {
    /// Text of the statement.
    pub sql: &'a str,
    /// Format of ClickHouse's that the answer has if the statement names none.
    pub format: &'static str,
    /// Id by which the statement can be found and stopped; a new one for each.
    pub query_id: &'a str,
    /// Bytes of the answer that ClickHouse holds back.
    pub held_bytes: usize,
    /// Longest time until the answer has ended.
    pub duration_max: Duration,
}

/// Progress of a running statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryProgress {
    /// Rows read so far.
    pub read_rows: u64,
    /// Rows to read in all, as ClickHouse estimates them.
    pub total_rows: u64,
}

/// Answer of a statement. Dropped before its end, it stops the statement.
pub struct ProjectAnswer {
    running: RunningQuery,
    body: Incoming,
    tail: Tail,
    deadline: Instant,
    is_complete: bool,
    format: String,
    summary: Option<String>,
}

impl ClickHouse {
    /// Runs a statement for a project and returns its answer as soon as it begins.
    ///
    /// # Errors
    /// If the server cannot be asked, refuses the user or the statement, does not begin to answer
    /// in time, or has rows of another catalog, whose project of this number is a foreign one.
    pub async fn query_as(
        &self,
        login: &ProjectLogin,
        statement: &ProjectStatement<'_>,
    ) -> Result<ProjectAnswer, QueryError> {
        let settings = Settings {
            user: login.user.clone(),
            password: login.password.clone(),
            ..Settings::clone(&self.settings)
        };
        self.may_ask(self.hosts.current()).await?;
        let held = statement.held_bytes.to_string();
        let parameters = [
            ("query_id", statement.query_id),
            ("buffer_size", held.as_str()),
        ];
        let headers = [(FORMAT, statement.format), (DATABASE, login.database)];
        let deadline = Instant::now() + statement.duration_max;
        let mut running = RunningQuery::new(self, statement.query_id);
        let (poster, host) = (&self.poster, self.hosts.current());
        let to = (&settings, self.hosts.url(host));
        let begun = poster.begin_statement(to, &parameters, &headers, statement.sql);
        let response = timeout_at(deadline, begun).await;
        let response = response.unwrap_or(Err(Error::TimedOut));
        let response = response.map_err(QueryError::from);
        let is_of_the_host = response.as_ref().is_err_and(QueryError::is_of_the_host);
        if is_of_the_host {
            self.leave(host).await;
        }
        let (head, body) = response?.into_parts();
        let code = header(&head.headers, EXCEPTION_CODE);
        if head.status != StatusCode::OK || code.is_some() {
            running.end();
            let text = beginning(body, deadline).await;
            let text = failure_text(head.status, code.as_deref(), &text);
            return Err(Error::BadResponse(text).into());
        }
        if header(&head.headers, QUERY_ID).as_deref() != Some(statement.query_id) {
            return Err(QueryError::without_code(
                "success was answered, but not by ClickHouse about this statement",
            ));
        }
        Ok(ProjectAnswer {
            running,
            body,
            tail: Tail::default(),
            deadline,
            is_complete: false,
            format: header(&head.headers, FORMAT).unwrap_or_default(),
            summary: header(&head.headers, SUMMARY),
        })
    }

    /// Lists the ids of statements of these users that have run for longer than that, or, of the
    /// users in `cancelled`, that do so although they were told to end.
    ///
    /// # Errors
    /// If the server cannot be asked.
    pub async fn overdue_statements(
        &self,
        users: &[&str],
        cancelled: &[&str],
        seconds: u64,
    ) -> Result<Vec<String>, QueryError> {
        let condition = overdue(users, cancelled, seconds);
        let sql =
            format!("SELECT query_id FROM system.processes WHERE {condition} ORDER BY query_id");
        self.within_deadline(self.client().query_raw(&sql).fetch_all())
            .await
    }

    /// Tells those statements to end. Not by their ids, which whoever logs in chooses.
    ///
    /// # Errors
    /// If the server cannot be asked.
    pub async fn stop_overdue_statements(
        &self,
        users: &[&str],
        cancelled: &[&str],
        seconds: u64,
    ) -> Result<(), QueryError> {
        let condition = overdue(users, cancelled, seconds);
        self.execute(&format!("KILL QUERY WHERE {condition} ASYNC"))
            .await
    }

    /// Asks for the progress of a statement; `None` if it does not run.
    ///
    /// # Errors
    /// If the server cannot be asked.
    pub async fn query_progress(
        &self,
        query_id: &str,
    ) -> Result<Option<QueryProgress>, QueryError> {
        let processes = self.on_every_host("processes");
        let condition = has_id(query_id);
        let sql = format!(
            "SELECT toUInt64(count()) AS n, toUInt64(sum(read_rows)) AS done, \
             toUInt64(sum(total_rows_approx)) AS total FROM {processes} WHERE {condition}"
        );
        let asked = self.proving().query_raw(&sql);
        let (count, read_rows, total_rows): (u64, u64, u64) =
            self.within_deadline(asked.fetch_one()).await?;
        Ok((count > 0).then_some(QueryProgress {
            read_rows,
            total_rows,
        }))
    }
}

// === impl ProjectAnswer ===

impl ProjectAnswer {
    /// Name of the answer's format.
    #[must_use]
    pub fn format(&self) -> &str {
        &self.format
    }

    /// ClickHouse's figures as JSON: of the whole statement, if its answer was not longer than what
    /// is held back, otherwise of its beginning.
    #[must_use]
    pub fn summary(&self) -> Option<&str> {
        self.summary.as_deref()
    }

    /// Returns the next bytes, cut anywhere; `None` after the last.
    ///
    /// # Errors
    /// If the statement fails in the middle of its answer, the server is gone, or the time is over.
    pub async fn next(&mut self) -> Result<Option<Bytes>, QueryError> {
        loop {
            if let Some(piece) = self.tail.release() {
                return Ok(Some(piece));
            }
            if self.is_complete {
                return Ok(self.tail.pop());
            }
            let frame = timeout_at(self.deadline, frame(&mut self.body)).await;
            match frame.unwrap_or(Some(Err(Error::TimedOut))) {
                Some(Ok(piece)) => self.tail.push(piece),
                Some(Err(error)) => {
                    // The connection breaks after the message that tells why.
                    let reported = self.tail.exception().map(Error::BadResponse);
                    return Err(reported.unwrap_or(error).into());
                }
                None => {
                    self.running.end();
                    if let Some(text) = self.tail.exception() {
                        return Err(Error::BadResponse(text).into());
                    }
                    self.is_complete = true;
                }
            }
        }
    }
}

/// Condition of [`ClickHouse::overdue_statements`]. `user` is who logged in; a client of the native
/// protocol chooses `initial_user`.
fn overdue(users: &[&str], cancelled: &[&str], seconds: u64) -> String {
    let list = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| quoted_text(name)).collect();
        names.join(", ")
    };
    format!(
        "elapsed > {seconds} AND (user IN ({}) OR is_cancelled AND user IN ({}))",
        list(users),
        list(cancelled),
    )
}

/// Next data of a body; empty for other frames.
async fn frame(body: &mut Incoming) -> Option<Result<Bytes, Error>> {
    let frame = poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await?;
    Some(match frame {
        Ok(frame) => Ok(frame.into_data().unwrap_or_default()),
        Err(error) => Err(Error::Network(error.into())),
    })
}

/// Beginning of the body of an error.
async fn beginning(mut body: Incoming, deadline: Instant) -> Vec<u8> {
    let mut text = Vec::new();
    while text.len() < ERROR_BYTES_MAX
        && let Ok(Some(Ok(piece))) = timeout_at(deadline, frame(&mut body)).await
    {
        text.extend_from_slice(&piece);
    }
    text
}

impl fmt::Debug for ProjectLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProjectLogin")
            .field("user", &self.user)
            .field("database", &self.database)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ProjectAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProjectAnswer")
            .field("format", &self.format)
            .field("is_complete", &self.is_complete)
            .finish_non_exhaustive()
    }
}
