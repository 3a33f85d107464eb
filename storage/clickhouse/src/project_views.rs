//! Access of projects to their rows: views that one user of the server reads for all projects, and
//! the table that maps the hash of a project's token to the project.
//!
//! The server's configuration has the row filters of that user, and those of the definer of the
//! views in the tables. The user has no right to the tables, as functions such as `mergeTreeIndex`
//! show the keys of all rows there.

use crate::property_columns::StoredColumn;
use crate::settings::{quoted_name, quoted_text};
use crate::{ClickHouse, QueryError};
use millrace_rows::Table;
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
        let properties = self.stored_columns().await?;
        for sql in statements(views, (&self.settings.database, &properties), token, kept) {
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

    /// Has the view of events show these property columns, if there is one and it shows others.
    /// Returns true if it was made anew.
    ///
    /// # Errors
    /// If the server cannot be asked or refuses.
    pub(crate) async fn refresh_event_view(
        &self,
        views: &ProjectViews<'_>,
        properties: &[StoredColumn],
    ) -> Result<bool, QueryError> {
        let events = Table::Events.name();
        let sql = format!(
            "SELECT name FROM system.columns WHERE database = {} AND table = {} ORDER BY position",
            quoted_text(views.database),
            quoted_text(events),
        );
        let shown = self.proving().query_raw(&sql).fetch_all();
        let shown: Vec<String> = self.within_deadline(shown).await?;
        let mut expected: Vec<&str> = event_columns().collect();
        expected.extend(properties.iter().map(|column| column.name.as_str()));
        if shown.is_empty() || expected == shown {
            return Ok(false);
        }
        let source = &self.settings.database;
        let view = view_statement(views, &self.on_cluster(), source, events, properties);
        self.execute(&view).await.map(|()| true)
    }
}

/// Columns of `events` without its property columns.
fn event_columns() -> impl Iterator<Item = &'static str> {
    let target = Table::Events.insert_target();
    let columns = target.split(['(', ')']).nth(1).unwrap_or_default();
    columns.split(',')
}

/// Columns of a table or view, as projects see them: none is `LowCardinality`.
///
/// Filtered rows of such a column keep the dictionary of the whole part, with the values of all
/// projects, and functions are executed on all of it: errors tell of values of others. `toString`
/// keeps the dictionary as well; a cast makes texts of the filtered rows.
///
/// Columns of events are listed one by one: a property column that is added between the look at its
/// type and the making of the view would be shown with its dictionary.
fn visible_columns(view: &str, properties: &[StoredColumn]) -> String {
    let text = |name: &str| format!("CAST({name}, 'String') AS {name}");
    let all_but = |name: &str| format!("* REPLACE ({})", text(name));
    match view {
        "events" => {
            let own = event_columns().map(|name| match name {
                "event" => text(name),
                _ => name.to_owned(),
            });
            let properties = properties.iter().map(|column| match column.is_dictionary {
                true => text(&quoted_name(&column.name)),
                false => quoted_name(&column.name),
            });
            own.chain(properties).collect::<Vec<_>>().join(", ")
        }
        "events_with_persons" => all_but("event"),
        "groups" => all_but("group_type"),
        "rejected_events" => all_but("code"),
        _ => "*".to_owned(),
    }
}

/// Statement that makes a view for projects, or replaces it.
pub(crate) fn view_statement(
    views: &ProjectViews<'_>,
    on_cluster: &str,
    source: &str,
    view: &str,
    properties: &[StoredColumn],
) -> String {
    format!(
        "CREATE OR REPLACE VIEW {database}.{name}{on_cluster} DEFINER = {definer} \
         SQL SECURITY DEFINER AS SELECT {columns} FROM {source}.{name}",
        database = quoted_name(views.database),
        name = quoted_name(view),
        definer = quoted_name(views.definer),
        columns = visible_columns(view, properties),
        source = quoted_name(source),
    )
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
    (source, properties): (&str, &[StoredColumn]),
    token: &ProjectToken,
    kept: Option<&[ProjectToken]>,
) -> Vec<String> {
    let (database, tokens) = (quoted_name(views.database), tokens(views));
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
        statements.push(view_statement(views, "", source, view, properties));
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
        let source = ("millrace", &[][..]);
        let statements = statements(&views, source, &token("AB"), Some(&kept));
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

    #[test]
    fn a_view_of_events_casts_dictionaries_and_lists_its_columns() {
        let views = ProjectViews {
            database: "project",
            tokens: "tokens",
            views: &["events"],
            definer: "project_views",
        };
        let column = |name: &str, is_dictionary| StoredColumn {
            name: name.to_owned(),
            comment: String::new(),
            is_dictionary,
            is_everywhere: true,
        };
        let properties = [column("property_1", false), column("property_2", true)];
        let own = "uuid, CAST(event, 'String') AS event, properties, timestamp, team_id, \
                   distinct_id, created_at, historical_migration";
        let cast = "CAST(`property_2`, 'String') AS `property_2`";
        for (properties, columns) in [
            (&[][..], own.to_owned()),
            (&properties[..], format!("{own}, `property_1`, {cast}")),
        ] {
            let statement = view_statement(&views, "", "millrace", "events", properties);
            let expected = format!(
                "CREATE OR REPLACE VIEW `project`.`events` DEFINER = `project_views` \
                 SQL SECURITY DEFINER AS SELECT {columns} FROM `millrace`.`events`"
            );
            assert_eq!(statement, expected);
        }
    }
}
