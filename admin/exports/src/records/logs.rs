//! Log lines of exports and their runs, for people.

use super::{ExportLogs, ExportPlace, of};
use millrace_catalog::entities::batch_export_logs::{self as logs, LogLevel};
use millrace_catalog::entities::batch_exports as exports;
use millrace_catalog::{CatalogError, Page, PageRequest, UtcTime};
use sea_orm::prelude::Uuid;
use sea_orm::sea_query::Expr;
use sea_orm::{
    ActiveValue, ColumnTrait, DatabaseTransaction, DbBackend, DbErr, EntityTrait, PaginatorTrait,
    QueryFilter, QueryOrder, QuerySelect, Select,
};

/// Longest line, and longest error of a run, in bytes: a destination may answer texts of any
/// length.
const MESSAGE_BYTES_MAX: usize = 4 * 1024;

/// Filter of log lines.
#[derive(Clone, Debug, Default)]
pub struct ExportLogFilter {
    /// Only lines of this run.
    pub run_id: Option<Uuid>,
    /// Only lines later than this.
    pub after: Option<UtcTime>,
    /// Only lines earlier than this.
    pub before: Option<UtcTime>,
    /// Only lines of these levels; none: all.
    pub levels: Vec<LogLevel>,
    /// Only lines that contain this, whatever the case of ASCII letters.
    pub search: Option<String>,
}

/// Log line of a run.
#[derive(Clone, Debug)]
pub struct NewExportLog {
    /// Severity of the line.
    pub level: LogLevel,
    /// Text for people; no secrets.
    pub message: String,
}

impl ExportLogs<'_> {
    /// Lists the lines of an export, newest first; `None` if there is no such export.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn list(
        self,
        place: ExportPlace,
        export_id: Uuid,
        filter: &ExportLogFilter,
        page: PageRequest,
    ) -> Result<Option<Page<logs::Model>>, CatalogError> {
        let read = async {
            let export = of(place).filter(exports::Column::Id.eq(export_id));
            if export.one(self.0.reader()).await?.is_none() {
                return Ok(None);
            }
            let query = filtered(export_id, filter, self.0.reader().get_database_backend());
            let count = query.clone().count(self.0.reader()).await?;
            let rows = query
                .order_by_desc(logs::Column::LoggedAt)
                .order_by_desc(logs::Column::Id)
                .offset(page.offset)
                .limit(page.limit)
                .all(self.0.reader())
                .await?;
            Ok(Some(Page { count, rows }))
        };
        read.await.map_err(|error: DbErr| self.0.error(&error))
    }

    /// Writes log lines of a run.
    ///
    /// # Errors
    ///
    /// The run is gone, or any database error.
    pub async fn write(
        self,
        export_id: Uuid,
        run_id: Uuid,
        lines: Vec<NewExportLog>,
    ) -> Result<(), CatalogError> {
        if lines.is_empty() {
            return Ok(());
        }
        let now = self.0.now();
        let rows = lines.into_iter().map(|line| {
            let run_id = Some(run_id);
            row(export_id, run_id, now, line.level, line.message)
        });
        let insert = logs::Entity::insert_many(rows);
        let written = insert.exec_without_returning(self.0.writer()).await;
        written.map(drop).map_err(|error| self.0.error(&error))
    }

    /// Writes a line within the transaction of the change that it reports.
    pub(super) async fn log(
        self,
        within: &DatabaseTransaction,
        export_id: Uuid,
        run_id: Option<Uuid>,
        level: LogLevel,
        message: &str,
    ) -> Result<(), DbErr> {
        let row = row(export_id, run_id, self.0.now(), level, message.to_owned());
        let insert = logs::Entity::insert(row);
        insert.exec_without_returning(within).await.map(drop)
    }
}

fn row(
    export_id: Uuid,
    run_id: Option<Uuid>,
    logged_at: UtcTime,
    level: LogLevel,
    message: String,
) -> logs::ActiveModel {
    logs::ActiveModel {
        id: ActiveValue::NotSet,
        batch_export_id: ActiveValue::Set(export_id),
        run_id: ActiveValue::Set(run_id),
        logged_at: ActiveValue::Set(logged_at),
        level: ActiveValue::Set(level),
        message: ActiveValue::Set(beginning(message)),
    }
}

/// Truncates a message that is too long to be kept.
pub(super) fn beginning(mut message: String) -> String {
    let bytes = message.len();
    if bytes > MESSAGE_BYTES_MAX {
        message.truncate(message.floor_char_boundary(MESSAGE_BYTES_MAX));
        message.push_str(&format!("… ({bytes} bytes)"));
    }
    message
}

fn filtered(export_id: Uuid, filter: &ExportLogFilter, backend: DbBackend) -> Select<logs::Entity> {
    let mut query = logs::Entity::find().filter(logs::Column::BatchExportId.eq(export_id));
    if let Some(run_id) = filter.run_id {
        query = query.filter(logs::Column::RunId.eq(run_id));
    }
    if let Some(after) = filter.after {
        query = query.filter(logs::Column::LoggedAt.gt(after));
    }
    if let Some(before) = filter.before {
        query = query.filter(logs::Column::LoggedAt.lt(before));
    }
    if !filter.levels.is_empty() {
        query = query.filter(logs::Column::Level.is_in(filter.levels.iter().copied()));
    }
    if let Some(search) = &filter.search {
        // Both then know the case of ASCII letters alone.
        let contains = match backend {
            DbBackend::Postgres => r#"strpos(lower("message" COLLATE "C"), $1) > 0"#,
            _ => r#"instr(lower("message"), ?) > 0"#,
        };
        let search = search.to_ascii_lowercase();
        query = query.filter(Expr::cust_with_values(contains, [search]));
    }
    query
}
