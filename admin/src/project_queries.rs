//! Queries of projects in ClickHouse, as the API needs them of whoever runs them.
//!
//! The API knows no ClickHouse: it may run in another process, and with any server. It checks who
//! asks, counts queries and streams answers. What a query may read is decided in ClickHouse.

use async_trait::async_trait;
use bytes::Bytes;
use std::fmt;
use std::io;
use tokio::sync::mpsc;
use uuid::Uuid;

/// Longest query, in bytes.
pub const QUERY_BYTES_MAX: usize = 256 << 10;
/// Most rows of an answer.
pub const ANSWER_ROWS_MAX: u64 = 1_000_000;
/// Most bytes of an answer.
pub const ANSWER_BYTES_MAX: u64 = 256 << 20;

/// Runs the queries of projects, and makes their users.
#[async_trait]
pub trait ProjectQueries: fmt::Debug + Send + Sync {
    /// Runs a query with the rights of its project, and returns its answer as soon as that begins.
    /// A query whose answer, or whose future, is dropped is stopped.
    ///
    /// # Errors
    ///
    /// The query is refused, or ClickHouse cannot be asked.
    async fn run(&self, query: ProjectQuery) -> Result<QueryAnswer, QueryFailure>;

    /// Stops a query of a project; returns false if it does not run.
    ///
    /// # Errors
    ///
    /// ClickHouse cannot be asked.
    async fn stop(&self, project_id: i64, query_id: Uuid) -> Result<bool, QueryFailure>;

    /// Returns false while a query of a project is known to run, whether anybody waits for it or
    /// not.
    async fn has_ended(&self, _project_id: i64, _query_id: Uuid) -> bool {
        true
    }

    /// Name and address with which the user of a project logs in.
    ///
    /// # Errors
    ///
    /// ClickHouse has no such users, or is not known yet.
    async fn login_place(&self, project_id: i64) -> Result<LoginPlace, QueryFailure>;

    /// Makes a new password for the user of a project. It holds once its hashes are in the catalog
    /// and whoever runs ClickHouse has read them.
    fn new_password(&self, project_id: i64) -> NewPassword;
}

/// Query of a project.
#[derive(Clone, Debug)]
pub struct ProjectQuery {
    /// The project.
    pub project_id: i64,
    /// Id of the query; a new one for each.
    pub query_id: Uuid,
    /// Text of the query.
    pub sql: String,
    /// Format of the answer.
    pub format: QueryFormat,
}

/// Format of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryFormat {
    /// One JSON object with columns, rows and figures.
    Json,
    /// A line of JSON for each row.
    Ndjson,
    /// CSV with names of columns in the first line.
    Csv,
    /// Parquet.
    Parquet,
    /// Stream of Arrow.
    Arrow,
}

impl QueryFormat {
    /// All formats.
    pub const ALL: [Self; 5] = [
        Self::Json,
        Self::Ndjson,
        Self::Csv,
        Self::Parquet,
        Self::Arrow,
    ];

    /// Name of the format in ClickHouse.
    #[must_use]
    pub const fn clickhouse_name(self) -> &'static str {
        match self {
            Self::Json => "JSON",
            Self::Ndjson => "JSONEachRow",
            Self::Csv => "CSVWithNames",
            Self::Parquet => "Parquet",
            Self::Arrow => "ArrowStream",
        }
    }

    /// Media type, as in `Accept`.
    #[must_use]
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Ndjson => "application/x-ndjson",
            Self::Csv => "text/csv",
            Self::Parquet => "application/vnd.apache.parquet",
            Self::Arrow => "application/vnd.apache.arrow.stream",
        }
    }

    /// Value of `Content-Type`.
    #[must_use]
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Csv => "text/csv; charset=utf-8; header=present",
            other => other.media_type(),
        }
    }
}

/// Piece of an answer.
pub type Piece = io::Result<Bytes>;

/// Answer of a query.
#[derive(Debug)]
pub struct QueryAnswer {
    /// Figures of ClickHouse, as JSON.
    pub summary: Option<String>,
    /// The answer, in pieces. An error in the place of a piece ends it: it is not complete.
    pub pieces: mpsc::Receiver<Piece>,
}

/// Reason why a query has no answer.
#[derive(Clone, Debug)]
pub enum QueryFailure {
    /// ClickHouse refuses the query.
    Refused(ClickHouseError),
    /// The query takes more time, memory, rows or bytes than it may.
    LimitExceeded(ClickHouseError),
    /// The query was stopped.
    Stopped,
    /// The query names a format of its own.
    FormatNamed,
    /// A query with this id runs already.
    IdInUse,
    /// The queries of this hour have used up their quota.
    QuotaExceeded,
    /// ClickHouse runs as many queries as it may.
    Busy,
    /// There are no users of single projects, for this reason.
    Unsupported(String),
    /// ClickHouse cannot be asked; the reason is logged.
    Unavailable,
}

/// Error of ClickHouse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClickHouseError {
    /// Code of the error.
    pub code: u32,
    /// Name of the error, such as `SYNTAX_ERROR`.
    pub name: Option<String>,
    /// Message for people.
    pub message: String,
    /// Position in the query, in bytes, from 1.
    pub position: Option<u32>,
}

/// Name and address of a user in ClickHouse.
#[derive(Clone, Debug)]
pub struct LoginPlace {
    /// Name to log in as.
    pub user: String,
    /// Database of the tables.
    pub database: String,
    /// Address of ClickHouse's HTTP interface, as this server reaches it.
    pub url: String,
}

/// A new password with its hashes.
#[derive(Clone)]
pub struct NewPassword {
    /// The password.
    pub password: String,
    /// SHA-256 of the password, as hexadecimal digits.
    pub password_sha256: String,
    /// Hash of the token that belongs to it.
    pub token_sha256: String,
}

impl fmt::Debug for NewPassword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewPassword").finish_non_exhaustive()
    }
}
