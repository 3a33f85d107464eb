//! Applies the migrations that are missing.

use crate::dialect::Dialect;
use crate::schema::{MIGRATIONS, Migration};
use crate::settings::{quoted_name, quoted_text};
use crate::{ClickHouse, QueryError, QueryErrorKind, Settings};

/// Error of a migration that could not be applied.
#[derive(Clone, Debug, thiserror::Error)]
pub enum MigrateError {
    /// The list of applied migrations could not be read or made.
    #[error("cannot read which schema migrations ClickHouse has: {0}")]
    Unreadable(#[source] QueryError),
    /// A statement was refused.
    #[error("schema migration {version} ({name}) failed: {source}")]
    Failed {
        /// The migration's number.
        version: u32,
        /// Name of the migration.
        name: &'static str,
        /// Error of the statement.
        #[source]
        source: QueryError,
    },
    /// Tables of the cluster's shards could not be prepared.
    #[error("the tables of the cluster's shards cannot be prepared: {0}")]
    Shards(#[source] QueryError),
    /// Statements would not reach each host.
    #[error(
        "clickhouse_url has {addresses} addresses and the cluster {hosts} hosts; \
         with clickhouse_replication none, name each host in clickhouse_url"
    )]
    Hosts {
        /// Number of addresses that are known.
        addresses: u64,
        /// Number of hosts of the cluster.
        hosts: u64,
    },
    /// Rows of a shard would be on one of its hosts or another.
    #[error(
        "the cluster has {hosts} hosts in {shards} shards; with clickhouse_replication none each \
         shard is one host"
    )]
    Unreplicated {
        /// Number of hosts of the cluster.
        hosts: u64,
        /// Number of its shards.
        shards: u64,
    },
    /// Hosts would spread rows differently, and look for them differently.
    #[error(
        "{url} has another definition of the cluster in remote_servers than {first}: all hosts need \
         the same shards in the same order"
    )]
    Definitions {
        /// Address of the host that was asked first.
        first: String,
        /// Address of a host that differs.
        url: String,
    },
    /// Another node has shards, and this one has not.
    #[error(
        "the tables in ClickHouse are those of shards; set clickhouse_cluster and \
         clickhouse_replication as on the nodes that made them"
    )]
    OfShards,
    /// A newer Millrace has migrated the schema.
    #[error(
        "ClickHouse has schema version {found}, this Millrace knows up to {known}; \
         run the newer version"
    )]
    Newer {
        /// The newest applied migration.
        found: u32,
        /// The newest of ours.
        known: u32,
    },
}

impl MigrateError {
    /// ClickHouse's error, if there was one.
    #[must_use]
    pub fn query_error(&self) -> Option<&QueryError> {
        match self {
            Self::Unreadable(source) | Self::Shards(source) | Self::Failed { source, .. } => {
                Some(source)
            }
            Self::Hosts { .. }
            | Self::Unreplicated { .. }
            | Self::Definitions { .. }
            | Self::OfShards
            | Self::Newer { .. } => None,
        }
    }

    /// Turns an error of hosts that were compared into that of a query.
    pub(crate) fn into_query(self) -> QueryError {
        match self {
            Self::Unreadable(source) | Self::Shards(source) | Self::Failed { source, .. } => source,
            other => QueryError {
                code: None,
                kind: QueryErrorKind::Cluster,
                message: other.to_string(),
            },
        }
    }
}

/// Lists the statements that make the database, its tables and views, in their order.
#[must_use]
pub fn schema_statements(settings: &Settings) -> Vec<String> {
    let dialect = Dialect::of(settings);
    let first = [
        dialect.create_database(),
        dialect.create_schema_migrations(),
    ];
    let migrations = MIGRATIONS.iter();
    let others = migrations.flat_map(|migration| (migration.statements)(&dialect));
    first.into_iter().chain(others).collect()
}

impl ClickHouse {
    /// Makes the database and brings its tables to this version. May run at any time, also from
    /// several processes at once: every statement may be repeated.
    ///
    /// # Errors
    /// If the server cannot be asked, refuses a statement, or has a newer schema.
    pub async fn migrate(&self) -> Result<(), MigrateError> {
        let dialect = Dialect::of(&self.settings);
        self.check_cluster().await?;
        for statement in [
            dialect.create_database(),
            dialect.create_schema_migrations(),
        ] {
            self.execute_on_hosts(&statement)
                .await
                .map_err(MigrateError::Unreadable)?;
        }
        let applied = self
            .applied_migrations()
            .await
            .map_err(MigrateError::Unreadable)?;
        let known = MIGRATIONS.len() as u32;
        if let Some(&found) = applied.iter().max().filter(|&&found| found > known) {
            return Err(MigrateError::Newer { found, known });
        }
        self.rename_for_shards(&dialect).await?;
        for migration in &MIGRATIONS {
            // Executed even if it is marked as applied: somebody may have dropped a table, and the
            // statements of an existing table change nothing.
            self.apply(migration, &dialect, applied.contains(&migration.version))
                .await
                .map_err(|source| MigrateError::Failed {
                    version: migration.version,
                    name: migration.name,
                    source,
                })?;
        }
        Ok(())
    }

    async fn apply(
        &self,
        migration: &Migration,
        dialect: &Dialect,
        marked: bool,
    ) -> Result<(), QueryError> {
        for statement in (migration.statements)(dialect) {
            self.execute_on_hosts(&statement).await?;
        }
        if marked {
            return Ok(());
        }
        self.execute_on_hosts(&format!(
            "INSERT INTO {}.schema_migrations (version, name, applied_at) \
             SELECT {}, {}, now64(6) SETTINGS async_insert = 0",
            quoted_name(&self.settings.database),
            migration.version,
            quoted_text(migration.name),
        ))
        .await
    }

    async fn applied_migrations(&self) -> Result<Vec<u32>, QueryError> {
        let sql = format!(
            "SELECT DISTINCT version FROM {}",
            self.of_all_shards("schema_migrations")
        );
        self.within_deadline(self.client().query_raw(&sql).fetch_all())
            .await
    }
}
