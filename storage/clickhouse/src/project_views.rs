//! Access of projects to their rows: views that one user of the server reads for all projects, and
//! the table that maps the hash of a project's token to the project.
//!
//! The server's configuration has the row filters of that user, and those of the definer of the
//! views in the tables. The user has no right to the tables, as functions such as `mergeTreeIndex`
//! show the keys of all rows there.

use crate::settings::{quoted_name, quoted_text};
use crate::{ClickHouse, QueryError};

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

impl ClickHouse {
    /// Lets the holder of a token see the rows of a project, and nobody else any more. Views that
    /// are missing or out of date are made.
    ///
    /// # Errors
    /// If the server cannot be asked or refuses.
    pub async fn open_project(
        &self,
        views: &ProjectViews<'_>,
        project_id: i64,
        token_hash: &str,
    ) -> Result<(), QueryError> {
        let database = &self.settings.database;
        for sql in statements(views, database, project_id, token_hash) {
            self.execute(&sql).await?;
        }
        Ok(())
    }
}

/// Statements in their order: whoever had an earlier token loses the rows first.
fn statements(
    views: &ProjectViews<'_>,
    source: &str,
    project_id: i64,
    token_hash: &str,
) -> Vec<String> {
    let (database, source) = (quoted_name(views.database), quoted_name(source));
    let tokens = format!("{database}.{}", quoted_name(views.tokens));
    let mut statements = vec![
        format!("CREATE DATABASE IF NOT EXISTS {database}"),
        format!(
            "CREATE TABLE IF NOT EXISTS {tokens} (hash String, team_id Int64) ENGINE = MergeTree ORDER BY hash \
             SETTINGS fsync_after_insert = 1, fsync_part_directory = 1"
        ),
        format!(
            "ALTER TABLE {tokens} DELETE WHERE team_id = {project_id} SETTINGS mutations_sync = 1"
        ),
    ];
    for view in views.views {
        let view = quoted_name(view);
        statements.push(format!(
            "CREATE OR REPLACE VIEW {database}.{view} DEFINER = {definer} SQL SECURITY DEFINER \
             AS SELECT * FROM {source}.{view}",
            definer = quoted_name(views.definer),
        ));
    }
    statements.push(format!(
        "INSERT INTO {tokens} SETTINGS async_insert = 0 VALUES ({hash}, {project_id})",
        hash = quoted_text(token_hash),
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
        let statements = statements(&views, "millrace", 7, "AB");
        let at = |part: &str| {
            let found = statements.iter().position(|sql| sql.contains(part));
            found.unwrap_or_else(|| panic!("{part}: {statements:?}"))
        };
        assert!(
            at("DELETE WHERE team_id = 7") < at("('AB', 7)"),
            "{statements:?}"
        );
        assert!(
            at("`project`.`events` DEFINER = `project_views` SQL SECURITY DEFINER") < at("'AB'")
        );
        assert!(at("SELECT * FROM `millrace`.`persons`") < at("'AB'"));
    }
}
