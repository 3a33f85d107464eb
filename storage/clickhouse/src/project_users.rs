//! Users of projects on a server of the operator's own, made by SQL: the same rights and row
//! filters as those of the embedded engine's users.
//!
//! Each project has users of its own there. A setting without an effect, which is constant for the
//! user, carries the project's id. The views run as one definer, whose row filters compare that
//! setting with each row: a filter of a table is evaluated before the conditions of a statement, so
//! that an error of one tells nothing of rows that are filtered out.

use crate::project_views::view_statement;
use crate::property_columns::StoredColumn;
use crate::settings::{quoted_name, quoted_text};
use crate::{ClickHouse, ProjectViews, QueryError};

/// Role of all users of projects.
const ROLE: &str = "millrace_project";
/// Name of the row policies.
const POLICY: &str = "millrace_project";
/// Name of the quota.
const QUOTA: &str = "millrace_projects";
/// Setting that carries the project's id.
const SETTING: &str = "query_cache_tag";

/// Users of projects. All names are the program's own.
#[derive(Clone, Copy, Debug)]
pub struct ProjectUsers<'a> {
    /// Database of the views.
    pub database: &'a str,
    /// Names of the views, which are those of their tables.
    pub views: &'a [&'a str],
    /// User with whose rights the views read the tables.
    pub definer: &'a str,
}

/// Limits of a user's statements.
#[derive(Clone, Copy, Debug)]
pub struct UserLimits {
    /// Most memory of a statement, in bytes.
    pub memory_bytes_max: u64,
    /// Longest statement, in seconds.
    pub seconds_max: u64,
    /// Statements at a time.
    pub statements_max: u64,
    /// Rows of a result; `None`: any number.
    pub result_rows_max: Option<u64>,
}

impl ClickHouse {
    /// Makes what all users of projects need: views, their definer, row policies, a role, a quota.
    /// Safe to repeat.
    ///
    /// # Errors
    /// If the server cannot be asked or refuses: its user needs the right to manage access.
    pub async fn prepare_users(&self, users: &ProjectUsers<'_>) -> Result<(), QueryError> {
        let properties = self.stored_columns().await?;
        for sql in self.statements_with(users, &properties) {
            self.execute(&sql).await?;
        }
        Ok(())
    }

    /// Makes a user who sees the rows of one project, or replaces it. `password_sha256` is in
    /// hexadecimal digits.
    ///
    /// # Errors
    /// As [`ClickHouse::prepare_users`], which comes first.
    pub async fn make_project_user(
        &self,
        users: &ProjectUsers<'_>,
        name: &str,
        project_id: i64,
        password_sha256: &str,
        limits: UserLimits,
    ) -> Result<(), QueryError> {
        let statements = self.statements_for_user(users, name, project_id, password_sha256, limits);
        for sql in statements {
            self.execute(&sql).await?;
        }
        Ok(())
    }

    /// Statements of [`ClickHouse::make_project_user`].
    #[must_use]
    pub fn statements_for_user(
        &self,
        users: &ProjectUsers<'_>,
        name: &str,
        project_id: i64,
        password_sha256: &str,
        limits: UserLimits,
    ) -> [String; 2] {
        let (on_cluster, user, role) = (self.on_cluster(), quoted_name(name), quoted_name(ROLE));
        let settings = user_settings(project_id, limits);
        [
            format!(
                "CREATE USER OR REPLACE {user}{on_cluster} IDENTIFIED WITH sha256_hash BY {hash} \
                 DEFAULT DATABASE {database} SETTINGS {settings}",
                hash = quoted_text(password_sha256),
                database = quoted_name(users.database),
            ),
            format!("GRANT{on_cluster} {role} TO {user}"),
        ]
    }

    /// Lists users by the beginnings of their names.
    ///
    /// # Errors
    /// If the server cannot be asked or refuses.
    pub async fn users_named(&self, beginning: &str) -> Result<Vec<String>, QueryError> {
        let sql = format!(
            "SELECT name FROM system.users WHERE startsWith(name, {}) ORDER BY name",
            quoted_text(beginning)
        );
        self.within_deadline(self.client().query_raw(&sql).fetch_all())
            .await
    }

    /// Makes a user who reads the rows of all projects, or gives it another password.
    ///
    /// # Errors
    /// If the server cannot be asked or refuses.
    pub async fn make_reader(&self, name: &str, password_sha256: &str) -> Result<(), QueryError> {
        let (on_cluster, user) = (self.on_cluster(), quoted_name(name));
        let database = quoted_name(&self.settings.database);
        for sql in [
            format!(
                "CREATE USER OR REPLACE {user}{on_cluster} IDENTIFIED WITH sha256_hash BY {} \
                 DEFAULT DATABASE {database} SETTINGS readonly = 1 CONST",
                quoted_text(password_sha256)
            ),
            format!(
                "GRANT{on_cluster} SELECT, SHOW TABLES, SHOW COLUMNS ON {database}.* TO {user}"
            ),
        ] {
            self.execute(&sql).await?;
        }
        Ok(())
    }

    /// Removes users, where they exist.
    ///
    /// # Errors
    /// If the server cannot be asked or refuses.
    pub async fn drop_users(&self, names: &[String]) -> Result<(), QueryError> {
        let on_cluster = self.on_cluster();
        for name in names {
            let name = quoted_name(name);
            self.execute(&format!("DROP USER IF EXISTS {name}{on_cluster}"))
                .await?;
        }
        Ok(())
    }

    /// Statements of [`ClickHouse::prepare_users`], where no property is a column.
    #[must_use]
    pub fn statements_for_users(&self, users: &ProjectUsers<'_>) -> Vec<String> {
        self.statements_with(users, &[])
    }

    /// Statements of [`ClickHouse::prepare_users`] in their order: there is no right to a row
    /// before its filter.
    fn statements_with(
        &self,
        users: &ProjectUsers<'_>,
        properties: &[StoredColumn],
    ) -> Vec<String> {
        let on_cluster = self.on_cluster();
        let (source, database) = (
            quoted_name(&self.settings.database),
            quoted_name(users.database),
        );
        let (definer, role) = (quoted_name(users.definer), quoted_name(ROLE));
        let mut statements = vec![
            format!("CREATE DATABASE IF NOT EXISTS {database}{on_cluster}"),
            format!("CREATE USER IF NOT EXISTS {definer}{on_cluster} HOST NONE"),
            format!("CREATE ROLE IF NOT EXISTS {role}{on_cluster}"),
            format!("GRANT{on_cluster} SHOW TABLES, SHOW COLUMNS ON {database}.* TO {role}"),
            format!(
                "CREATE QUOTA OR REPLACE {}{on_cluster} KEYED BY user_name FOR INTERVAL 1 hour \
                 MAX queries = 100000, read_rows = 1000000000000, execution_time = 36000 TO {role}",
                quoted_name(QUOTA)
            ),
        ];
        let views = users.as_views();
        for view in users.views {
            let made = view_statement(
                &views,
                &on_cluster,
                &self.settings.database,
                view,
                properties,
            );
            let view = quoted_name(view);
            statements.extend([
                format!(
                    "CREATE ROW POLICY OR REPLACE {policy}{on_cluster} ON {source}.{view} \
                     USING team_id = toInt64OrZero(getSetting('{SETTING}')) TO {definer}",
                    policy = quoted_name(POLICY),
                ),
                format!("GRANT{on_cluster} SELECT ON {source}.{view} TO {definer}"),
                made,
                format!("GRANT{on_cluster} SELECT ON {database}.{view} TO {role}"),
            ]);
        }
        statements
    }
}

impl<'a> ProjectUsers<'a> {
    /// Views of these users; there is no table of tokens beside them.
    const fn as_views(&self) -> ProjectViews<'a> {
        ProjectViews {
            database: self.database,
            tokens: "",
            views: self.views,
            definer: self.definer,
        }
    }
}

/// Settings of a user, which no statement of it can change.
fn user_settings(project_id: i64, limits: UserLimits) -> String {
    let mut settings = vec![
        format!("{SETTING} = '{project_id}'"),
        format!("max_memory_usage = {}", limits.memory_bytes_max),
        format!("max_execution_time = {}", limits.seconds_max),
        format!(
            "max_concurrent_queries_for_user = {}",
            limits.statements_max
        ),
        "cancel_http_readonly_queries_on_client_close = 1".to_owned(),
        "readonly = 1".to_owned(),
    ];
    if let Some(rows) = limits.result_rows_max {
        settings.push(format!("max_result_rows = {rows}"));
        settings.push("result_overflow_mode = 'throw'".to_owned());
    }
    let settings = settings.iter().map(|setting| format!("{setting} CONST"));
    settings.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;

    const USERS: ProjectUsers<'_> = ProjectUsers {
        database: "project",
        views: &["events", "persons"],
        definer: "project_views",
    };

    fn statements(cluster: Option<&str>) -> Vec<String> {
        let mut settings = Settings::new("http://h", "u", "p");
        settings.cluster = cluster.map(str::to_owned);
        ClickHouse::new(&settings).statements_for_users(&USERS)
    }

    #[test]
    fn a_filter_comes_before_the_right_to_its_rows() {
        let statements = statements(None);
        let at = |part: &str| {
            let found = statements.iter().position(|sql| sql.contains(part));
            found.unwrap_or_else(|| panic!("{part}: {statements:?}"))
        };
        for table in ["events", "persons"] {
            let policy = at(&format!("ON `millrace`.`{table}` USING team_id = "));
            let right = at(&format!(
                "GRANT SELECT ON `millrace`.`{table}` TO `project_views`"
            ));
            let view = at(&format!("`project`.`{table}` DEFINER = `project_views`"));
            let role = at(&format!(
                "GRANT SELECT ON `project`.`{table}` TO `millrace_project`"
            ));
            assert!(
                policy < right && right < view && view < role,
                "{statements:?}"
            );
        }
    }

    #[test]
    fn every_statement_of_a_cluster_runs_on_all_hosts() {
        for sql in statements(Some("main")) {
            assert!(sql.contains(" ON CLUSTER 'main'"), "{sql}");
        }
        for sql in statements(None) {
            assert!(!sql.contains("CLUSTER"), "{sql}");
        }
    }

    #[test]
    fn the_settings_of_a_user_are_constant() {
        let limits = UserLimits {
            memory_bytes_max: 1 << 30,
            seconds_max: 300,
            statements_max: 8,
            result_rows_max: Some(5),
        };
        let settings = Settings::new("http://h", "u", "p");
        let [user, grant] =
            ClickHouse::new(&settings).statements_for_user(&USERS, "project_7", 7, "ab", limits);
        let (head, settings) = user.split_once(" SETTINGS ").unwrap();
        let expected = "CREATE USER OR REPLACE `project_7` IDENTIFIED WITH sha256_hash BY 'ab' DEFAULT DATABASE `project`";
        assert_eq!(head, expected);
        assert!(
            settings.starts_with("query_cache_tag = '7' CONST, "),
            "{user}"
        );
        let mut settings = settings.split(", ");
        assert!(
            settings.all(|setting| setting.ends_with(" CONST")),
            "{user}"
        );
        assert_eq!(grant, "GRANT `millrace_project` TO `project_7`");
    }
}
