//! The ClickHouse client: schema, inserts that are stored once, and the questions that decide
//! whether an insert whose answer was lost is there.
//!
//! | Module | Holds |
//! |---|---|
//! | `settings` | [`Settings`]: where ClickHouse is |
//! | `tls` | [`Tls`]: whose certificates are taken; advice where one is not |
//! | `usable` | is ClickHouse as it must be for us; what to do where it is not |
//! | `schema`, `migrate` | the tables, as numbered migrations, and how they are applied |
//! | `insert` | [`Insert`]: one block of one month, under a token |
//! | `post` | rows on their way, and whether whoever answers is ClickHouse |
//! | `quorum` | [`InsertQuorum`]: how many replicas must have an insert; reads that see it |
//! | `presence` | is a block there, is an insert still running, did the server restart |
//! | `shared_question` | one question of many askers, asked once at a time |
//! | `select`, `tail` | [`RowStream`]: the rows of a SELECT as bytes, however many |
//! | `persons` | [`PersonTable`]: persons and groups as the catalog has them; views of them |
//! | `forget` | what events said of persons, once it was applied long ago |
//! | `rejected`, `purge`, `backup` | for the operator: refused events, deleted projects, copies |
//! | `error`, `query_error` | [`InsertError`], [`QueryError`]: what an answer means for the rows |
//!
//! Constraints:
//! - An insert is one block of one partition: the engine stores it as one part, all or nothing.
//! - Nothing here retries. What may be retried is said by [`InsertOutcome`]; the shipper decides.
//! - Identifiers and literals come from [`Settings`] and from numbers and uuids, never from
//!   clients; they are quoted all the same. A SELECT that is given whole is its author's.

#![forbid(unsafe_code)]

mod backup;
mod copied;
mod error;
mod forget;
mod insert;
mod migrate;
mod persons;
mod post;
mod presence;
mod purge;
mod query_error;
mod quorum;
mod rejected;
mod schema;
mod select;
mod settings;
mod shared_question;
mod tail;
mod tls;
mod usable;
mod work;

pub use backup::{CopyId, CopyState};
pub use error::{InsertError, InsertOutcome};
pub use insert::{Body, INSERT_BYTES_MAX, INSERT_ROWS_MAX, Insert};
pub use migrate::MigrateError;
pub use persons::PersonTable;
pub use presence::{Found, PRESENCE_KEYS_MAX};
pub use purge::{Deletion, TeamRows};
pub use query_error::{QueryError, QueryErrorKind};
pub use quorum::{InsertQuorum, QuorumError};
pub use rejected::{RejectedEvent, RejectedFilter};
pub use select::{ReadOptions, RowStream};
pub use settings::{Settings, quoted_name, quoted_text};
pub use tls::{Tls, TlsError};
pub use usable::{Purpose, Unusable};

use clickhouse::{Client, Compression};
use post::Poster;
use shared_question::SharedQuestion;
use std::fmt;
use std::sync::Arc;
use uuid::Uuid;

/// A ClickHouse server (or cluster) and the database in it. Clones share connections.
#[derive(Clone)]
pub struct ClickHouse {
    /// Sends statements without a default database, so that the database may be missing.
    client: Client,
    /// Sends inserts.
    poster: Poster,
    settings: Arc<Settings>,
    /// Asks for the server's run.
    runs: Arc<SharedQuestion<Uuid>>,
}

impl ClickHouse {
    /// A client for the server that `settings` name. Does not connect yet.
    #[must_use]
    pub fn new(settings: &Settings) -> Self {
        // Blocks are compressed before they come here, and answers are small: the crate's own
        // compression would only compress the blocks again.
        let client = match &settings.tls {
            Some(tls) => tls.client(),
            None => Client::default(),
        };
        let client = client
            .with_url(settings.url.as_str())
            .with_user(settings.user.as_str())
            .with_password(settings.password.as_str())
            .with_product_info("millrace", env!("CARGO_PKG_VERSION"))
            .with_compression(Compression::None)
            .with_validation(false);
        Self {
            client,
            poster: Poster::new(settings),
            settings: Arc::new(settings.clone()),
            runs: Arc::new(SharedQuestion::new()),
        }
    }

    /// Whether retries under one token are enough, because the engine stores the token and the
    /// part in one step: so on replicated tables, not on plain ones.
    #[must_use]
    pub fn tokens_are_atomic(&self) -> bool {
        self.settings.cluster.is_some()
    }

    /// Answers if the server is up and knows us.
    ///
    /// # Errors
    /// If it cannot be reached or refuses the user.
    pub async fn ping(&self) -> Result<(), QueryError> {
        match self.fetch_u64("SELECT toUInt64(1)").await {
            Err(error) => Err(self.with_status(error).await),
            Ok(_) => Ok(()),
        }
    }

    /// The server's version, like `26.7.2.1`.
    ///
    /// # Errors
    /// If the server cannot be asked.
    pub async fn version(&self) -> Result<String, QueryError> {
        self.within_deadline(self.client.query_raw("SELECT version()").fetch_one())
            .await
    }

    /// Seconds since the server started.
    ///
    /// # Errors
    /// If the server cannot be asked.
    pub async fn uptime_seconds(&self) -> Result<u64, QueryError> {
        self.fetch_u64("SELECT toUInt64(uptime())").await
    }

    /// Asks for a number that rows may depend on: the answer has its column's type with it, which a
    /// gateway's page has not.
    pub(crate) async fn fetch_u64(&self, sql: &str) -> Result<u64, QueryError> {
        self.within_deadline(self.proving().query_raw(sql).fetch_one())
            .await
    }

    /// A client that looks at the names and types of what it is answered.
    pub(crate) fn proving(&self) -> Client {
        self.client.clone().with_validation(true)
    }

    pub(crate) async fn execute(&self, sql: &str) -> Result<(), QueryError> {
        self.within_deadline(self.client.query_raw(sql).execute())
            .await
    }

    /// Every question has a deadline: a server that accepts and never answers must not hold a
    /// shipper for ever.
    pub(crate) async fn within_deadline<T>(
        &self,
        question: impl Future<Output = Result<T, clickhouse::error::Error>>,
    ) -> Result<T, QueryError> {
        tokio::time::timeout(self.settings.query_timeout, question)
            .await
            .unwrap_or(Err(clickhouse::error::Error::TimedOut))
            .map_err(QueryError::from)
    }
}

impl fmt::Debug for ClickHouse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClickHouse")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
