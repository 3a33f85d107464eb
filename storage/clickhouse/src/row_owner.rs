//! Owner of the rows: the catalog whose projects they are of. Each catalog numbers its projects
//! from 1, so that with another catalog, projects would have the rows of foreign ones.
//!
//! ClickHouse keeps the ids of the catalogs that have used it, of which the first owns the rows.
//! It is looked up before anything else is asked or sent, and without an owner, as in a ClickHouse
//! of an earlier version, the catalog that asks becomes it. While another one owns the rows,
//! everything fails, as it does while hosts define a cluster differently. Where no project has a
//! row, the catalog that asks becomes the owner in any case.

use crate::dialect::Dialect;
use crate::hosts::Host;
use crate::nonce::Nonce;
use crate::schema::{CATALOG_IDS, catalog_ids};
use crate::settings::quoted_text;
use crate::{ClickHouse, PersonTable, QueryError, QueryErrorKind, Replication, RowOwner};
use clickhouse::error::Error;
use clickhouse::query::Query;
use millrace_rows::Table;
use serde::Deserialize;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use tokio::time::timeout;
use uuid::Uuid;

/// Longest time of a question, whose answer is one row.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// Setting of a read that sees what every replica has, in ClickHouse Cloud. With a quorum it would
/// not see ids, which are stored without one.
const SEQUENTIAL: &str = "select_sequential_consistency";

/// Statement without an answer, as of a success.
const NOTHING: &str = "SELECT 1 FORMAT Null";
/// True once the log has an owner: several clients of a process may find none at the same time.
static IS_TOLD: AtomicBool = AtomicBool::new(false);

/// First of the ids that are kept.
#[derive(clickhouse::Row, Deserialize)]
struct FirstId {
    nonce: String,
    /// Number of ids; without one the first means nothing.
    found: u64,
    #[serde(with = "clickhouse::serde::uuid")]
    first_id: Uuid,
}

impl ClickHouse {
    /// Checks that the rows are of the catalog of the settings, once. Without such a catalog
    /// nothing is checked.
    ///
    /// # Errors
    /// [`QueryErrorKind::OtherCatalog`] if they are of another one, or the host cannot be asked.
    pub(crate) async fn must_own_rows(&self, host: Host) -> Result<(), QueryError> {
        let Some(owner) = self.settings.owner else {
            return Ok(());
        };
        let owned = self.owned.get_or_try_init(|| self.own_rows(host, owner));
        let Err(error) = owned.await else {
            return Ok(());
        };
        let error = self.unless_unproven(host, error).await;
        if error.kind != QueryErrorKind::OtherCatalog && error.is_of_the_host() {
            self.leave(host).await;
        }
        Err(error)
    }

    /// Returns the error of an answer, or, if it cannot be read as it is not ClickHouse's, that of
    /// a gateway: it may answer everything with a page and status 200.
    async fn unless_unproven(&self, host: Host, error: QueryError) -> QueryError {
        let may_be_unreadable = [QueryErrorKind::Other, QueryErrorKind::NotClickHouse];
        if error.code.is_some() || !may_be_unreadable.contains(&error.kind) {
            return error;
        }
        let query_id = Uuid::new_v4().to_string();
        let to = (&*self.settings, self.hosts.url(host));
        let parameters = [("query_id", query_id.as_str())];
        let asked = self.poster.post_statement(to, &parameters, NOTHING);
        match timeout(ANSWER_MAX, asked).await {
            Ok(Ok(answered)) => match answered.check_query_id(&query_id) {
                Ok(()) => error,
                Err(words) => QueryError {
                    code: None,
                    kind: QueryErrorKind::NotClickHouse,
                    message: words,
                },
            },
            _ => error,
        }
    }

    async fn own_rows(&self, host: Host, owner: RowOwner) -> Result<(), QueryError> {
        let mut first = self.first_catalog_id(host).await;
        if first.as_ref().is_err_and(QueryError::schema_is_missing) {
            self.make_catalog_ids(host).await?;
            // Other shards may have had the table, and an id.
            first = self.first_catalog_id(host).await;
        } else if first
            .as_ref()
            .is_err_and(|error| self.a_shard_may_lack_table(error))
            && self.make_catalog_ids(host).await.is_ok()
        {
            first = self.first_catalog_id(host).await;
        }
        let (first, own) = (first?, owner.catalog_id);
        if first == Some(own) {
            return Ok(());
        }
        let has_rows = self.has_rows(host).await?;
        if let Some(other) = first.filter(|_| has_rows) {
            return Err(is_of_another(other, own));
        }
        self.keep_catalog_id(host, own, first.is_some()).await?;
        // Another catalog may have been as fast.
        if let Some(other) = self.first_catalog_id(host).await?.filter(|id| *id != own) {
            return Err(is_of_another(other, own));
        }
        if !IS_TOLD.swap(true, Relaxed) {
            self.tell_of_owner(host, owner, has_rows);
        }
        Ok(())
    }

    fn tell_of_owner(&self, host: Host, owner: RowOwner, has_rows: bool) {
        let (url, catalog) = (self.hosts.url(host), owner.catalog_id);
        if has_rows || !owner.has_events {
            tracing::info!(url, %catalog, "ClickHouse belongs to this catalog from now on");
            return;
        }
        tracing::warn!(
            url,
            %catalog,
            "ClickHouse has no rows, though projects have sent events before: those are in the ClickHouse that was used \
             until now and do not move by themselves; the steps are in deploy/guide/growing.md"
        );
    }

    async fn first_catalog_id(&self, host: Host) -> Result<Option<Uuid>, QueryError> {
        let sql = format!(
            "SELECT count() AS found, assumeNotNull(argMin(id, claimed_at)) AS first_id FROM {}",
            self.of_all_shards(CATALOG_IDS)
        );
        let nonce = Nonce::new();
        let query = self.unchecked_query(host, &nonce.put_into(&sql));
        let answer = timeout(ANSWER_MAX, query.fetch_one()).await;
        let kept: FirstId = answer.unwrap_or(Err(Error::TimedOut))?;
        nonce.check(&kept.nonce)?;
        Ok((kept.found > 0).then_some(kept.first_id))
    }

    /// Tells whether any project has a row in any table. Tables need not exist.
    async fn has_rows(&self, host: Host) -> Result<bool, QueryError> {
        let of_projects = Table::ALL.into_iter().map(Table::name);
        let of_persons = PersonTable::ALL.into_iter().map(PersonTable::name);
        let names = of_projects.chain(of_persons);
        let names: Vec<String> = names
            .map(|name| quoted_text(&self.local_name(name)))
            .collect();
        let sql = format!(
            "SELECT assumeNotNull(toUInt64(sum(ifNull(total_rows, 0)))) AS rows FROM {tables} \
             WHERE database = {database} AND name IN ({names})",
            tables = self.on_every_host("tables"),
            database = quoted_text(&self.settings.database),
            names = names.join(", "),
        );
        let nonce = Nonce::new();
        let query = self.unchecked_query(host, &nonce.put_into(&sql));
        let answer = timeout(ANSWER_MAX, query.fetch_one()).await;
        let (answered, rows): (String, u64) = answer.unwrap_or(Err(Error::TimedOut))?;
        nonce.check(&answered)?;
        Ok(rows > 0)
    }

    /// Returns true if a shard other than the one that was asked may lack the table: that is
    /// reported as a shard that cannot be reached.
    fn a_shard_may_lack_table(&self, error: &QueryError) -> bool {
        // ALL_CONNECTION_TRIES_FAILED, NO_REMOTE_SHARD_AVAILABLE
        self.settings.sharded().is_some() && matches!(error.code, Some(279 | 519))
    }

    async fn make_catalog_ids(&self, host: Host) -> Result<(), QueryError> {
        let dialect = Dialect::of(&self.settings);
        for statement in [dialect.create_database(), catalog_ids(&dialect)] {
            self.execute_unchecked(host, &statement).await?;
        }
        Ok(())
    }

    /// Keeps an id: the first, or one before the first, whose catalog's rows are gone.
    async fn keep_catalog_id(
        &self,
        host: Host,
        id: Uuid,
        is_before_first: bool,
    ) -> Result<(), QueryError> {
        let (claimed_at, from) = match is_before_first {
            false => ("now64(6)", String::new()),
            true => (
                "min(claimed_at) - toIntervalSecond(1)",
                format!(" FROM {}", self.of_all_shards(CATALOG_IDS)),
            ),
        };
        let table = self.source_named(CATALOG_IDS);
        let sql = format!(
            "INSERT INTO {table} (id, claimed_at) SELECT toUUID('{id}'), {claimed_at}{from} \
             SETTINGS async_insert = 0"
        );
        self.execute_unchecked(host, &sql).await
    }

    /// Builds a query of a host, though it is not known yet whose the rows are.
    fn unchecked_query(&self, host: Host, sql: &str) -> Query {
        let client = self.client.clone().with_url(self.hosts.url(host));
        let query = client.with_validation(true).query_raw(sql);
        let is_cloud = self.settings.replication() == Some(Replication::Cloud);
        let settings = self.settings.of_reads().into_iter();
        let settings = settings.filter(|(name, _)| is_cloud || *name != SEQUENTIAL);
        settings.fold(query, |query, (name, value)| {
            query.with_setting(name, value)
        })
    }

    /// Executes a statement on the host, or on each that no `ON CLUSTER` reaches, though it is not
    /// known yet whose the rows are.
    async fn execute_unchecked(&self, host: Host, sql: &str) -> Result<(), QueryError> {
        let urls: Vec<&str> = match self.settings.replication() {
            Some(Replication::None) => self.hosts.urls().iter().map(String::as_str).collect(),
            _ => vec![self.hosts.url(host)],
        };
        for url in urls {
            let client = self.client.clone().with_url(url);
            self.before_deadline(client.query_raw(sql).execute())
                .await?;
        }
        Ok(())
    }
}

fn is_of_another(first: Uuid, own: Uuid) -> QueryError {
    QueryError {
        code: None,
        kind: QueryErrorKind::OtherCatalog,
        message: format!(
            "ClickHouse has rows of the projects of catalog {first}, and this is catalog {own}"
        ),
    }
}
