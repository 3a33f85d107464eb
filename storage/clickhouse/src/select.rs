//! Streams the rows of a SELECT as bytes: they come in pieces as ClickHouse writes them, and are
//! buffered nowhere.
//!
//! A read must cost little, since inserts must not wait for it: few threads, a limit on memory, the
//! lowest priority. The statement may only read.

use crate::hosts::Host;
use crate::nonce::Nonce;
use crate::query_id::has_id;
use crate::settings::quoted_text;
use crate::tail::Tail;
use crate::work_budget::{WorkBudget, worked_too_long};
use crate::{ClickHouse, ProjectLogin, QueryError, Replication};
use bytes::Bytes;
use clickhouse::error::Error;
use clickhouse::query::BytesCursor;
use std::fmt;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout};

/// Options of a SELECT.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// Id by which the statement can be found and stopped; a new one for each.
    pub query_id: String,
    /// Most threads of the server.
    pub threads_max: u32,
    /// Most memory of the server, in bytes.
    pub memory_bytes_max: u64,
    /// Longest duration, including the time in which we read nothing.
    pub duration_max: Duration,
    /// Longest work, without the time in which we read nothing; after that it fails with
    /// ClickHouse's code for `duration_max`.
    pub work_max: Option<Duration>,
    /// Rows of a block that ClickHouse works on.
    pub block_rows: u32,
    /// Most rows of the result; it fails with more.
    pub result_rows_max: Option<u64>,
    /// Longest silence until ClickHouse is asked whether the statement still runs.
    pub silence_max: Duration,
    /// Longest time in which we read nothing until ClickHouse gives up, if the server allows the
    /// setting.
    pub stall_max: Duration,
    /// Further settings of ClickHouse, by name.
    pub settings: Vec<(String, String)>,
    /// Login whose rows are read; `None`: the server's own user.
    pub login: Option<ProjectLogin>,
}

impl ReadOptions {
    /// Options with two threads, a gigabyte and six hours.
    #[must_use]
    pub fn new(query_id: impl Into<String>) -> Self {
        Self {
            query_id: query_id.into(),
            threads_max: 2,
            memory_bytes_max: 1 << 30,
            duration_max: Duration::from_secs(6 * 3_600),
            work_max: None,
            block_rows: 16_384,
            result_rows_max: None,
            silence_max: Duration::from_secs(60),
            stall_max: Duration::from_secs(600),
            settings: Vec::new(),
            login: None,
        }
    }

    /// Returns all options as settings of ClickHouse.
    fn settings(&self) -> Vec<(String, String)> {
        let mut settings = self.settings.clone();
        let mut set = |name: &str, value: String| settings.push((name.to_owned(), value));
        set("query_id", self.query_id.clone());
        // The embedded engine gives statements ids of its own.
        set("log_comment", self.query_id.clone());
        set("readonly", "1".to_owned());
        set(
            "cancel_http_readonly_queries_on_client_close",
            "1".to_owned(),
        );
        // 0 is no priority, 1 the highest.
        set("priority", "10".to_owned());
        set("max_threads", self.threads_max.to_string());
        set("max_memory_usage", self.memory_bytes_max.to_string());
        set(
            "max_execution_time",
            self.duration_max.as_secs().to_string(),
        );
        set("timeout_overflow_mode", "throw".to_owned());
        set("max_block_size", self.block_rows.to_string());
        set("http_send_timeout", self.stall_max.as_secs().to_string());
        if let Some(rows) = self.result_rows_max {
            set("max_result_rows", rows.to_string());
            set("result_overflow_mode", "throw".to_owned());
        }
        settings
    }
}

impl ClickHouse {
    /// Runs a SELECT, which names its FORMAT, and returns its rows as they come. Any answer with
    /// status 200 is taken for rows, and one without a body for none: where rows depend on it, the
    /// FORMAT has the names of the columns, which the caller checks, one of them a
    /// [`nonce_column`](crate::nonce_column), or the rows are counted.
    ///
    /// # Errors
    /// If the address of the server cannot be parsed; any other error comes from the stream.
    pub fn read(&self, statement: &str, options: &ReadOptions) -> Result<RowStream, QueryError> {
        let host = self.hosts.current();
        let mut client = self.client.clone().with_url(self.hosts.url(host));
        if let Some(login) = &options.login {
            client = client
                .with_user(login.user.as_str())
                .with_password(login.password.as_str());
        }
        let mut query = client.query_raw(statement);
        for (name, value) in options.settings() {
            query = query.with_setting(name, value);
        }
        let query = self.seeing_quorum(query);
        Ok(RowStream {
            clickhouse: self.clone(),
            host,
            query_id: options.query_id.clone(),
            silence_max: options.silence_max,
            work: options
                .work_max
                .map(|max| WorkBudget::new(max, options.threads_max)),
            cursor: query.fetch_bytes("TSVRaw")?,
            tail: Tail::default(),
            state: State::Running,
        })
    }

    /// Runs a SELECT whose answer is one number, and has the answer repeat a nonce.
    ///
    /// # Errors
    /// If the server cannot be asked, or answers anything else, or another query.
    pub async fn read_number(
        &self,
        statement: &str,
        options: &ReadOptions,
    ) -> Result<u64, QueryError> {
        let nonce = Nonce::new();
        let statement = nonce.put_into(statement);
        let mut stream = self.read(&format!("{statement} FORMAT TSVRaw"), options)?;
        let mut answer = Vec::new();
        while let Some(piece) = stream.next().await? {
            answer.extend_from_slice(&piece);
            if answer.len() > 100 {
                break;
            }
        }
        let answer = String::from_utf8_lossy(&answer);
        let answered = answer.trim_end().split_once('\t');
        let answered =
            answered.and_then(|(nonce, number)| Some((nonce, number.parse::<u64>().ok()?)));
        let (answered, number) = answered.ok_or_else(|| {
            QueryError::without_code(format!("the answer `{answer}` is not a number"))
        })?;
        nonce.check(answered)?;
        Ok(number)
    }

    /// Stops the statement with this id, if it still runs. Returns at once.
    ///
    /// # Errors
    /// If the server cannot be asked.
    pub async fn stop(&self, query_id: &str) -> Result<(), QueryError> {
        // `KILL` is never replicated by a database.
        let on_cluster = match (&self.settings.cluster, self.settings.replication) {
            (None, _) | (Some(_), Replication::None) => String::new(),
            (Some(cluster), _) => format!(" ON CLUSTER {}", quoted_text(cluster)),
        };
        let condition = has_id(query_id);
        self.execute_on_hosts(&format!("KILL QUERY{on_cluster} WHERE {condition} ASYNC"))
            .await
    }

    /// Returns true if the statement with this id still runs.
    ///
    /// # Errors
    /// If the server cannot be asked.
    pub async fn is_running(&self, query_id: &str) -> Result<bool, QueryError> {
        let processes = self.on_every_host("processes");
        let condition = has_id(query_id);
        let sql = format!("SELECT count() FROM {processes} WHERE {condition}");
        Ok(self.fetch_u64(&sql).await? > 0)
    }
}

/// Stream of the rows of a running SELECT. Dropped before its end, it stops the query.
pub struct RowStream {
    clickhouse: ClickHouse,
    /// Host that is asked.
    host: Host,
    query_id: String,
    silence_max: Duration,
    work: Option<WorkBudget>,
    cursor: BytesCursor,
    tail: Tail,
    state: State,
}

/// `Running => (Complete | Failed)`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Running,
    /// All bytes were received, without an error among them.
    Complete,
    Failed,
}

impl RowStream {
    /// Returns the next bytes, cut anywhere; `None` after the last. Bytes before an error are rows,
    /// but not all of them.
    ///
    /// Cancel safe: bytes that are not taken now are returned by the next call.
    ///
    /// # Errors
    /// If the query fails, also in the middle of its rows, or the server is gone. There is nothing
    /// after an error.
    pub async fn next(&mut self) -> Result<Option<Bytes>, QueryError> {
        loop {
            if let Some(piece) = self.tail.release() {
                return Ok(Some(piece));
            }
            match self.state {
                State::Complete => return Ok(self.tail.pop()),
                State::Failed => return Ok(None),
                State::Running => {}
            }
            if let Some(work) = &mut self.work
                && work.is_over(&self.clickhouse, &self.query_id).await
            {
                self.stop();
                self.state = State::Failed;
                return Err(worked_too_long());
            }
            // Nothing is sent before the first piece is asked for.
            if let Err(error) = self.clickhouse.may_ask(self.host).await {
                self.state = State::Failed;
                return Err(error);
            }
            match self.piece().await {
                Ok(Some(Some(piece))) => self.tail.push(piece),
                Ok(None) => {}
                Ok(Some(None)) => match self.tail.exception() {
                    None => self.state = State::Complete,
                    Some(text) => return Err(self.failed(Error::BadResponse(text))),
                },
                Err(error) => {
                    // The connection breaks after the message that tells why.
                    let reported = self.tail.exception().map(Error::BadResponse);
                    return Err(self.failed(reported.unwrap_or(error)));
                }
            }
        }
    }

    /// Waits for the server's next piece; `None` if it worked for too long meanwhile. The server
    /// may be silent for as long as it reports the query as running: a scan that selects no rows
    /// takes its time.
    async fn piece(&mut self) -> Result<Option<Option<Bytes>>, Error> {
        loop {
            let left = self.work.as_ref().map_or(Duration::MAX, WorkBudget::left);
            let began = Instant::now();
            let piece = timeout(self.silence_max.min(left), self.cursor.next()).await;
            if let Some(work) = &mut self.work {
                work.waited(began.elapsed());
            }
            if let Ok(piece) = piece {
                return piece.map(Some);
            }
            if self.work.as_ref().is_some_and(|work| work.left().is_zero()) {
                return Ok(None);
            }
            if matches!(self.clickhouse.is_running(&self.query_id).await, Ok(true)) {
                continue;
            }
            // Bytes that it sent before it ended may still arrive.
            return timeout(self.silence_max, self.cursor.next())
                .await
                .unwrap_or(Err(Error::TimedOut))
                .map(Some);
        }
    }

    fn failed(&mut self, error: Error) -> QueryError {
        let error = QueryError::from(error);
        if error.code.is_none() {
            self.stop();
        }
        if error.is_of_the_host() {
            self.leave();
        }
        self.state = State::Failed;
        error
    }

    /// Turns to another host, beside the caller: an error must not be lost with a caller that stops
    /// waiting.
    fn leave(&self) {
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        let (clickhouse, host) = (self.clickhouse.clone(), self.host);
        runtime.spawn(async move { clickhouse.leave(host).await });
    }

    /// Stops the query: a server may not notice that nobody reads any more.
    fn stop(&self) {
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        let (clickhouse, query_id) = (self.clickhouse.clone(), self.query_id.clone());
        runtime.spawn(async move {
            if let Err(error) = clickhouse.stop(&query_id).await {
                tracing::debug!(%error, query_id, "a query that nobody reads could not be stopped");
            }
        });
    }
}

impl Drop for RowStream {
    fn drop(&mut self) {
        if self.state == State::Running {
            self.stop();
        }
    }
}

impl fmt::Debug for RowStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowStream")
            .field("query_id", &self.query_id)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}
