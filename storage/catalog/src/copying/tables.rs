//! Tables of the catalog, parents before their children, and the copy of each, page by page.

use super::error::CopyError;
use crate::catalog::Catalog;
use crate::entities::{
    activity_counts, activity_log, batch_export_backfills, batch_export_latest_runs,
    batch_export_logs, batch_export_runs, batch_exports, catalog_ids, catalog_versions,
    clickhouse_users, deleted_batch_exports, deleted_organizations, deleted_plugins,
    deleted_projects, group_types, groups, historical_migrations, idempotency_bytes,
    idempotency_keys, import_leases, import_quotas, ingest_nodes, leases, node_endpoints,
    node_reports, organization_domains, organization_invites, organization_memberships,
    organizations, person_backlogs, person_distinct_ids, person_new_ids, person_progress,
    personal_api_keys, persons, plugin_configs, plugin_source_files, plugins, projects,
    property_columns, proxy_records, rejected_event_resends, role_memberships, roles,
    secret_key_fingerprints, sessions, sign_in_links, unused_users, users, withdrawn_plugins,
};
use sea_orm::sea_query::{Expr, ExprTrait, SimpleExpr};
use sea_orm::{
    ColumnTrait, DatabaseTransaction, EntityTrait, IntoActiveModel, IntoSimpleExpr, Iterable,
    ModelTrait, PrimaryKeyToColumn, QueryFilter, QueryOrder, QuerySelect, Value,
};

/// Tables that have rows in a new catalog, or get them by a trigger while others are copied.
const FILLED: [&str; 5] = [
    "activity_counts",
    "catalog_ids",
    "catalog_versions",
    "leases",
    "person_progress",
];

/// Lists the tables in the order of their copy, for a copy of all and for the tests.
macro_rules! in_order {
    ($($table:ident),+ $(,)?) => {
        impl RowCopy<'_> {
            /// Copies the rows of all tables, and returns their number.
            pub(super) async fn run(mut self) -> Result<u64, CopyError> {
                $(self.copy::<$table::Entity>().await?;)+
                Ok(self.rows)
            }
        }

        #[cfg(test)]
        fn names() -> Vec<&'static str> {
            use sea_orm::EntityName;
            vec![$($table::Entity.table_name()),+]
        }
    };
}

in_order!(
    organizations,
    users,
    projects,
    organization_domains,
    organization_memberships,
    roles,
    role_memberships,
    organization_invites,
    personal_api_keys,
    sessions,
    sign_in_links,
    unused_users,
    activity_log,
    activity_counts,
    idempotency_keys,
    idempotency_bytes,
    catalog_ids,
    catalog_versions,
    secret_key_fingerprints,
    leases,
    proxy_records,
    property_columns,
    rejected_event_resends,
    plugins,
    plugin_source_files,
    plugin_configs,
    withdrawn_plugins,
    batch_exports,
    batch_export_backfills,
    batch_export_runs,
    batch_export_logs,
    batch_export_latest_runs,
    deleted_organizations,
    deleted_projects,
    deleted_plugins,
    deleted_batch_exports,
    persons,
    person_distinct_ids,
    group_types,
    groups,
    person_progress,
    person_backlogs,
    person_new_ids,
    ingest_nodes,
    node_endpoints,
    node_reports,
    historical_migrations,
    import_quotas,
    import_leases,
    clickhouse_users,
);

/// Copy under way.
pub(super) struct RowCopy<'a> {
    from: (&'a Catalog, &'a DatabaseTransaction),
    to: (&'a Catalog, &'a DatabaseTransaction),
    /// Rows so far.
    rows: u64,
}

impl<'a> RowCopy<'a> {
    pub(super) const fn new(
        from: (&'a Catalog, &'a DatabaseTransaction),
        to: (&'a Catalog, &'a DatabaseTransaction),
    ) -> Self {
        Self { from, to, rows: 0 }
    }

    async fn copy<E>(&mut self) -> Result<(), CopyError>
    where
        E: EntityTrait,
        E::Model: IntoActiveModel<E::ActiveModel>,
    {
        let ((from, read), (to, write)) = (self.from, self.to);
        self.clear::<E>().await?;
        let rows_max = page_rows(E::default().table_name());
        let keys: Vec<E::Column> = E::PrimaryKey::iter()
            .map(PrimaryKeyToColumn::into_column)
            .collect();
        let mut last: Option<Vec<Value>> = None;
        loop {
            let mut query = E::find();
            if let Some(last) = last {
                query = query.filter(behind(&keys, last));
            }
            for key in &keys {
                query = query.order_by_asc(*key);
            }
            let page = query.limit(rows_max).all(read).await;
            let page = page.map_err(|error| from.error(&error))?;
            let Some(end) = page.last() else {
                return Ok(());
            };
            last = Some(keys.iter().map(|key| end.get(*key)).collect());
            self.rows += page.len() as u64;
            let rows = page.into_iter().map(IntoActiveModel::into_active_model);
            let rows: Vec<E::ActiveModel> = rows.collect();
            let inserted = E::insert_many(rows).exec_without_returning(write).await;
            inserted.map_err(|error| to.error(&error))?;
        }
    }

    /// Removes the rows of a new catalog. Any other one is refused.
    async fn clear<E: EntityTrait>(&self) -> Result<(), CopyError> {
        let (to, write) = self.to;
        let table = E::default().table_name();
        if !FILLED.contains(&table) {
            let found = E::find().limit(1).all(write).await;
            return match found.map_err(|error| to.error(&error))?.is_empty() {
                true => Ok(()),
                false => Err(CopyError::NotEmpty {
                    location: to.location.to_string(),
                    table,
                }),
            };
        }
        let cleared = E::delete_many().exec(write).await;
        cleared.map_err(|error| to.error(&error))?;
        Ok(())
    }
}

/// Rows of a page: few where a row may have megabytes, and no more values than a statement of
/// SQLite may have, 32 766.
fn page_rows(table: &str) -> u64 {
    match table {
        "plugin_source_files" => 10,
        "persons" | "groups" => 100,
        _ => 500,
    }
}

/// Condition of rows behind one in the order of these columns.
fn behind<C: ColumnTrait>(columns: &[C], last: Vec<Value>) -> SimpleExpr {
    let columns = columns.iter().map(|column| column.into_simple_expr());
    let values = last.into_iter().map(Expr::value);
    Expr::tuple(columns).gt(Expr::tuple(values))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{DatabaseKind, TestDatabase};

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn all_tables_are_copied() {
        let database = TestDatabase::of(DatabaseKind::Sqlite).await;
        let tables = "SELECT name FROM sqlite_master WHERE type = 'table' \
             AND name NOT IN ('seaql_migrations', 'sqlite_sequence')";
        let mut found = database.first_column(tables).await.unwrap();
        found.sort_unstable();
        let mut copied = names();
        copied.sort_unstable();
        assert_eq!(found, copied);
    }
}
