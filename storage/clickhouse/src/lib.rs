//! The ClickHouse client: schema, inserts that are stored once, and the queries that decide whether
//! an insert whose answer was lost is stored.
//!
//! | Module | Holds |
//! |---|---|
//! | `settings` | [`Settings`]: address, user, database, owner and timeouts |
//! | `tls` | [`Tls`]: trusted certificate authorities; advice on failed handshakes |
//! | `usable` | checks that ClickHouse can be used; advice if it cannot |
//! | `schema`, `migrate` | the tables, as numbered migrations, and how they are applied |
//! | `dialect`, `replication` | statements of one server and of a cluster |
//! | `shards` | tables of a cluster that grows: renamed, and copied to new shards |
//! | `hosts` | addresses of a cluster's hosts, of which another one serves when one fails |
//! | `definitions` | compares the hosts' definitions of the cluster before anything is sent |
//! | `row_owner` | looks up, before anything is sent, of which catalog's projects the rows are |
//! | `insert`, `insert_body` | [`Insert`]: one block of one month, under a token |
//! | `post`, `answer` | sends rows, and checks that ClickHouse answers; text of failed answers |
//! | `quorum` | [`InsertQuorum`]: number of replicas that must have an insert; reads that see it |
//! | `presence`, `present_keys`, `wanted_rows` | looks up stored rows and running inserts |
//! | `boot_id` | the server's boot id, or that of all shards together |
//! | `nonce` | random text of a query, which its answer has to repeat; [`nonce_column`] |
//! | `event_versions` | [`EventVersion`]: looks up events that later ones may have replaced |
//! | `single_flight` | one query of many callers, run once at a time |
//! | `query_id` | condition that finds a running statement |
//! | `select`, `tail` | [`RowStream`]: the rows of a SELECT as a stream of bytes |
//! | `person_table` | [`PersonTable`]: tables of persons and groups |
//! | `persons` | persons and groups as the catalog has them; views of them |
//! | `retention` | drops person updates that were applied long ago |
//! | `project_views`, `project_users` | [`ProjectViews`], [`ProjectUsers`]: access of a project to its rows |
//! | `property_columns` | columns of single properties: added, removed, filled ([`PastRows`]) |
//! | `project_query`, `running_query` | [`ProjectAnswer`]: answers of customers' statements; their end |
//! | `rejected_events`, `rejected_filter`, `rejected_groups` | rejected events, and those that were sent again |
//! | `stats` | [`StatsRow`]: numbers of events by project and time |
//! | `purge`, `backup` | for the operator: deleted projects, backups |
//! | `error`, `query_error` | [`InsertError`], [`QueryError`]: the meaning of errors for rows and operators |
//!
//! Constraints:
//! - An insert is one block of one partition: the engine stores it as one part, all or nothing.
//! - Nothing here retries. [`InsertOutcome`] tells whether a retry is safe; the shipper decides.
//! - Identifiers and literals come from [`Settings`] and from numbers and uuids, never from
//!   clients, but for the paths of property columns and the code that rejected events are looked
//!   for by; all are quoted. A SELECT that is given whole is its author's responsibility.

#![forbid(unsafe_code)]

mod answer;
mod backup;
mod boot_id;
mod definitions;
mod dialect;
mod error;
mod event_versions;
mod hosts;
mod insert;
mod insert_body;
mod migrate;
mod nonce;
mod person_presence;
mod person_table;
mod persons;
mod post;
mod presence;
mod present_keys;
mod project_query;
mod project_users;
mod project_views;
mod property_columns;
mod purge;
mod query_error;
mod query_id;
mod quorum;
mod rejected_events;
mod rejected_filter;
mod rejected_groups;
mod replication;
mod retention;
mod row_owner;
mod running_query;
mod schema;
mod select;
mod settings;
mod shards;
mod single_flight;
mod stats;
mod tail;
mod tls;
mod usable;
mod wanted_rows;
mod work_budget;

pub use backup::{CopyId, CopyState};
pub use error::{InsertError, InsertOutcome};
pub use event_versions::{EventIdentity, EventVersion};
pub use insert::{INSERT_BYTES_MAX, INSERT_ROWS_MAX, Insert};
pub use insert_body::{Body, BodyFormat};
pub use migrate::{MigrateError, schema_statements};
pub use nonce::nonce_column;
pub use person_table::PersonTable;
pub use presence::{PRESENCE_KEYS_MAX, PresenceCount};
pub use present_keys::PlacedKey;
pub use project_query::{ProjectAnswer, ProjectLogin, ProjectStatement, QueryProgress};
pub use project_users::{ProjectUsers, UserLimits};
pub use project_views::{ProjectToken, ProjectViews};
pub use property_columns::{PastRows, QueriedProperty, SampledProperty};
pub use purge::{Deletion, ProjectRows};
pub use query_error::{QueryError, QueryErrorKind};
pub use quorum::{InsertQuorum, QuorumError};
pub use rejected_events::{RejectedCount, RejectedEvent};
pub use rejected_filter::RejectedFilter;
pub use rejected_groups::RejectedGroup;
pub use replication::{Replication, ReplicationError};
pub use select::{ReadOptions, RowStream};
pub use settings::{RowOwner, Settings, quoted_name, quoted_text};
pub use stats::{
    DAY_SECONDS, HOUR_SECONDS, LargestProject, MINUTE_SECONDS, StatsDetail, StatsGrouping,
    StatsKind, StatsProgress, StatsQuery, StatsRow,
};
pub use tls::{Tls, TlsError};
pub use usable::{Purpose, Unusable};

use clickhouse::query::Query;
use clickhouse::{Client, Compression};
use hosts::Hosts;
use nonce::Nonce;
use post::Poster;
use single_flight::SingleFlight;
use std::fmt;
use std::sync::Arc;
use tokio::sync::OnceCell;
use uuid::Uuid;

/// A ClickHouse server (or cluster) and the database in it. Clones share connections.
#[derive(Clone)]
pub struct ClickHouse {
    /// Sends statements without a default database, so that the database may be missing. It has no
    /// address yet.
    client: Client,
    /// Addresses to send to, shared by clones.
    hosts: Arc<Hosts>,
    /// Sends inserts.
    poster: Poster,
    settings: Arc<Settings>,
    /// Asks for the server's boot id.
    boot_ids: Arc<SingleFlight<Uuid>>,
    /// Set once the rows are known to be of the catalog of the settings.
    owned: Arc<OnceCell<()>>,
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
            .with_user(settings.user.as_str())
            .with_password(settings.password.as_str())
            .with_product_info("millrace", env!("CARGO_PKG_VERSION"))
            .with_compression(Compression::None)
            .with_validation(false);
        Self {
            client,
            hosts: Arc::new(Hosts::of(settings)),
            poster: Poster::new(settings),
            settings: Arc::new(settings.clone()),
            boot_ids: Arc::new(SingleFlight::new()),
            owned: Arc::new(OnceCell::new()),
        }
    }

    /// Returns true if retries under one token are enough, because the engine stores the token and
    /// the part in one step: true of replicated tables, not of plain ones.
    #[must_use]
    pub fn tokens_are_atomic(&self) -> bool {
        self.settings.tokens_are_atomic()
    }

    /// Returns true if rows are spread over shards: an insert may be stored on one and not on
    /// another.
    #[must_use]
    pub fn is_sharded(&self) -> bool {
        self.settings.sharded().is_some()
    }

    /// Returns true if the address is a cluster's: statements may run on any of its hosts.
    #[must_use]
    pub fn is_cluster(&self) -> bool {
        self.settings.cluster.is_some()
    }

    /// Checks that the server is up and accepts the user.
    ///
    /// # Errors
    /// If it cannot be reached or refuses the user.
    pub async fn ping(&self) -> Result<(), QueryError> {
        match self.fetch_u64("SELECT toUInt64(1)").await {
            Err(error) => Err(self.with_status(error).await),
            Ok(_) => Ok(()),
        }
    }

    /// Asks for the server's version, like `26.7.2.1`.
    ///
    /// # Errors
    /// If the server cannot be asked.
    pub async fn version(&self) -> Result<String, QueryError> {
        self.within_deadline(self.client().query_raw("SELECT version()").fetch_one())
            .await
    }

    /// Asks for the seconds since the server started.
    ///
    /// # Errors
    /// If the server cannot be asked.
    pub async fn uptime_seconds(&self) -> Result<u64, QueryError> {
        self.fetch_u64("SELECT toUInt64(uptime())").await
    }

    /// Asks for the server's clock, in microseconds since 1970.
    ///
    /// # Errors
    /// If the server cannot be asked.
    pub async fn now_micros(&self) -> Result<u64, QueryError> {
        self.fetch_u64("SELECT toUInt64(toUnixTimestamp64Micro(now64(6)))")
            .await
    }

    /// Returns true if the user has this settings profile.
    ///
    /// # Errors
    /// If the server cannot be asked.
    pub async fn has_profile(&self, name: &str) -> Result<bool, QueryError> {
        let name = quoted_text(name);
        let sql = format!("SELECT toUInt64(has(currentProfiles(), {name}))");
        Ok(self.fetch_u64(&sql).await? > 0)
    }

    /// Asks for a number that decides about rows: the answer names its column's type, which a
    /// gateway's page does not, repeats the query's nonce, which an old answer does not, and counts
    /// what reached the quorum.
    pub(crate) async fn fetch_u64(&self, sql: &str) -> Result<u64, QueryError> {
        let nonce = Nonce::new();
        let query = self.proving().query_raw(&nonce.put_into(sql));
        let answer = self.seeing_quorum(query).fetch_one();
        let (answered, number): (String, u64) = self.within_deadline(answer).await?;
        nonce.check(&answered)?;
        Ok(number)
    }

    /// Has a query see all rows that reached the quorum, if one is set, and those of all shards: a
    /// replica that lacks some refuses.
    pub(crate) fn seeing_quorum(&self, query: Query) -> Query {
        let settings = self.settings.of_reads().into_iter();
        settings.fold(query, |query, (name, value)| {
            query.with_setting(name, value)
        })
    }

    /// Returns a client of the host that is asked now.
    pub(crate) fn client(&self) -> Client {
        let host = self.hosts.current();
        self.client.clone().with_url(self.hosts.url(host))
    }

    /// Returns a client that checks the names and types of the columns that it is answered.
    pub(crate) fn proving(&self) -> Client {
        self.client().with_validation(true)
    }

    pub(crate) async fn execute(&self, sql: &str) -> Result<(), QueryError> {
        self.within_deadline(self.client().query_raw(sql).execute())
            .await
    }

    /// Executes a statement that changes tables or stops statements, on each host that no
    /// `ON CLUSTER` reaches.
    pub(crate) async fn execute_on_hosts(&self, sql: &str) -> Result<(), QueryError> {
        if self.settings.replication() != Some(Replication::None) {
            return self.execute(sql).await;
        }
        for url in self.hosts.urls() {
            let client = self.client.clone().with_url(url);
            self.before_deadline(client.query_raw(sql).execute())
                .await?;
        }
        Ok(())
    }

    /// Runs a query of the host that is asked now within its deadline, and turns to another host if
    /// that one fails. Nothing is asked while the rows are of another catalog.
    pub(crate) async fn within_deadline<T>(
        &self,
        query: impl Future<Output = Result<T, clickhouse::error::Error>>,
    ) -> Result<T, QueryError> {
        let host = self.hosts.current();
        self.may_ask(host).await?;
        let answered = self.before_deadline(query).await;
        let is_of_the_host = answered.as_ref().is_err_and(QueryError::is_of_the_host);
        if is_of_the_host {
            self.leave(host).await;
        }
        answered
    }

    /// Runs a query within its deadline: a server that accepts and never answers must not hold a
    /// shipper for ever.
    pub(crate) async fn before_deadline<T>(
        &self,
        query: impl Future<Output = Result<T, clickhouse::error::Error>>,
    ) -> Result<T, QueryError> {
        tokio::time::timeout(self.settings.query_timeout, query)
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
