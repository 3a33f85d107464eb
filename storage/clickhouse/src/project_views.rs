//! Access of projects to their rows: views that one user of the server reads for all projects, and
//! the table that maps the hash of a project's token to the project.
//!
//! The server's configuration has the row filters of that user, and those of the definer of the
//! views in the tables. The user has no right to the tables, as functions such as `mergeTreeIndex`
//! show the keys of all rows there.

use crate::settings::{quoted_name, quoted_text};
use crate::{ClickHouse, QueryError};
use serde::Deserialize;

/// Views for projects. All names are the program's own.
#[derive(Clone, Copy, Debug)]
pub struct ProjectViews<'a> {
    /// Database of the views.
    pub database: &'a str,
    /// Table of tokens in it.
    pub tokens: &'a str,
    /// Names of the views, which are those of their tables.
    pub views: &'a [&'a str],
    /// User who reads the tables for the views, and whose rows are filtered there.
    pub definer: &'a str,
}

/// Row of the table of tokens.
#[derive(clickhouse::Row, Clone, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProjectToken {
    /// The project.
    pub team_id: i64,
    /// Hash of the token.
    pub hash: String,
}

impl ClickHouse {
    /// Lets the holder of a token see the rows of a project. With `kept`, nobody else sees them any
    /// more but the holders of those tokens. Views that are missing or out of date are made.
    ///
    /// # Errors
    /// If the server cannot be asked or refuses.
    pub async fn open_project(
        &self,
        views: &ProjectViews<'_>,
        token: &ProjectToken,
        kept: Option<&[ProjectToken]>,
    ) -> Result<(), QueryError> {
        for sql in statements(views, &self.settings.database, token, kept) {
            self.execute(&sql).await?;
        }
        Ok(())
    }

    /// Takes the rows of some projects away from all holders of tokens.
    ///
    /// # Errors
    /// If the server cannot be asked or refuses.
    pub async fn close_projects(
        &self,
        views: &ProjectViews<'_>,
        project_ids: &[i64],
    ) -> Result<(), QueryError> {
        if project_ids.is_empty() {
            return Ok(());
        }
        let ids: Vec<String> = project_ids.iter().map(i64::to_string).collect();
        let sql = format!(
            "ALTER TABLE {} DELETE WHERE team_id IN ({}) SETTINGS mutations_sync = 1",
            tokens(views),
            ids.join(", "),
        );
        match self.execute(&sql).await {
            Err(error) if error.schema_is_missing() => Ok(()),
            closed => closed,
        }
    }

    /// Lists all tokens, in order; none if there is no table of them yet.
    ///
    /// # Errors
    /// If the server cannot be asked.
    pub async fn project_tokens(
        &self,
        views: &ProjectViews<'_>,
    ) -> Result<Vec<ProjectToken>, QueryError> {
        let table = tokens(views);
        let sql = format!("SELECT team_id, hash FROM {table} ORDER BY team_id, hash");
        let query = self.proving().query_raw(&sql);
        match self.within_deadline(query.fetch_all()).await {
            Err(error) if error.schema_is_missing() => Ok(Vec::new()),
            listed => listed,
        }
    }

    /// Returns true if the holder of a token sees the rows of a project.
    ///
    /// # Errors
    /// If the server cannot be asked.
    pub async fn has_token(
        &self,
        views: &ProjectViews<'_>,
        token: &ProjectToken,
    ) -> Result<bool, QueryError> {
        let sql = format!(
            "SELECT count() FROM {} WHERE hash = {} AND team_id = {}",
            tokens(views),
            quoted_text(&token.hash),
            token.team_id,
        );
        match self.fetch_u64(&sql).await {
            Err(error) if error.schema_is_missing() => Ok(false),
            counted => Ok(counted? > 0),
        }
    }
}

/// Columns of a table or view, as projects see them: none is `LowCardinality`.
///
/// Filtered rows of such a column keep the dictionary of the whole part, with the values of all
/// projects, and functions are executed on all of it: errors tell of values of others. `toString`
/// keeps the dictionary as well; a cast makes texts of the filtered rows.
pub(crate) fn visible_columns(view: &str) -> &'static str {
    match view {
        "events" | "events_with_persons" => "* REPLACE (CAST(event, 'String') AS event)",
        "groups" => "* REPLACE (CAST(group_type, 'String') AS group_type)",
        "rejected_events" => "* REPLACE (CAST(code, 'String') AS code)",
        _ => "*",
    }
}

fn tokens(views: &ProjectViews<'_>) -> String {
    format!(
        "{}.{}",
        quoted_name(views.database),
        quoted_name(views.tokens)
    )
}

/// Statements in their order: whoever had an earlier token loses the rows first.
fn statements(
    views: &ProjectViews<'_>,
    source: &str,
    token: &ProjectToken,
    kept: Option<&[ProjectToken]>,
) -> Vec<String> {
    let (database, source, tokens) = (
        quoted_name(views.database),
        quoted_name(source),
        tokens(views),
    );
    let (project_id, hash) = (token.team_id, quoted_text(&token.hash));
    let mut statements = vec![
        format!("CREATE DATABASE IF NOT EXISTS {database}"),
        format!(
            "CREATE TABLE IF NOT EXISTS {tokens} (hash String, team_id Int64) ENGINE = MergeTree ORDER BY hash \
             SETTINGS fsync_after_insert = 1, fsync_part_directory = 1"
        ),
    ];
    if let Some(kept) = kept {
        let kept = kept.iter().map(|token| quoted_text(&token.hash));
        let hashes: Vec<String> = std::iter::once(hash.clone()).chain(kept).collect();
        statements.push(format!(
            "ALTER TABLE {tokens} DELETE WHERE team_id = {project_id} AND hash NOT IN ({}) \
             SETTINGS mutations_sync = 1",
            hashes.join(", "),
        ));
    }
    for view in views.views {
        let (columns, view) = (visible_columns(view), quoted_name(view));
        statements.push(format!(
            "CREATE OR REPLACE VIEW {database}.{view} DEFINER = {definer} SQL SECURITY DEFINER \
             AS SELECT {columns} FROM {source}.{view}",
            definer = quoted_name(views.definer),
        ));
    }
    // Twice by two processes at once: that shows no row twice.
    statements.push(format!(
        "INSERT INTO {tokens} SELECT {hash}, {project_id} WHERE {hash} NOT IN (SELECT hash FROM {tokens}) \
         SETTINGS async_insert = 0"
    ));
    statements
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_earlier_token_is_deleted_before_the_new_one_is_stored() {
        let views = ProjectViews {
            database: "project",
            tokens: "tokens",
            views: &["events", "persons"],
            definer: "project_views",
        };
        let token = |hash: &str| ProjectToken {
            team_id: 7,
            hash: hash.to_owned(),
        };
        let kept = [token("CD"), token("EF")];
        let statements = statements(&views, "millrace", &token("AB"), Some(&kept));
        let at = |part: &str| {
            let found = statements.iter().position(|sql| sql.contains(part));
            found.unwrap_or_else(|| panic!("{part}: {statements:?}"))
        };
        assert!(
            at("DELETE WHERE team_id = 7 AND hash NOT IN ('AB', 'CD', 'EF')")
                < at("SELECT 'AB', 7"),
            "{statements:?}"
        );
        assert!(
            at("`project`.`events` DEFINER = `project_views` SQL SECURITY DEFINER")
                < at("SELECT 'AB'")
        );
        assert!(at("SELECT * FROM `millrace`.`persons`") < at("SELECT 'AB'"));
    }
}
