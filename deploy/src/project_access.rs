//! Logins for the rows of single projects, in the embedded ClickHouse and on servers of operators.
//!
//! Every process that may use ClickHouse can log in for every project, by passwords that are
//! computed from that of the server's own user. On an operator's server it makes a user for each
//! project when it first needs one; the embedded engine has one user for all, and a table of
//! tokens. Which of the two it is, the server tells: another process may run the engine. It tells
//! as well whether `millrace clickhouse` runs the engine by itself: then nobody reads the catalog
//! there, and the users that projects have beside the program's get no passwords.

use crate::config::{Config, Engine};
use anyhow::bail;
use millrace_clickhouse::{
    ClickHouse, ProjectAnswer, ProjectLogin, ProjectStatement, ProjectToken, ProjectUsers,
    ProjectViews, QueryError, Replication, Settings, UserLimits,
};
use millrace_embedded::{
    ALONE, EXPORT, PROJECT, PROJECT_DATABASE, PROJECT_TOKENS, PROJECT_VIEWS, QUERY, QueryKey,
    VIEWS, password_hash, project_user, token_hash,
};
use std::time::Duration;

/// Database that every server has.
const SYSTEM: &str = "system";
/// Codes of ClickHouse for a wrong password, or an unknown user: `UNKNOWN_USER`, `WRONG_PASSWORD`,
/// `AUTHENTICATION_FAILED`.
const NOT_LOGGED_IN: [u32; 3] = [192, 193, 516];
/// Code of ClickHouse for a login whose database is not there: `UNKNOWN_DATABASE`.
const UNKNOWN_DATABASE: u32 = 81;
/// Longest time of the question which kind of server it is.
const PROBE_MAX: Duration = Duration::from_secs(10);

/// Limits of the program's own statements for a project, on an operator's server. Those of the
/// embedded engine are in its configuration.
const QUERY_LIMITS: UserLimits = UserLimits {
    memory_bytes_max: 1 << 30,
    seconds_max: 300,
    statements_max: 8,
    result_rows_max: Some(millrace_admin::project_queries::ANSWER_ROWS_MAX),
};
/// Limits of a project's own user there.
pub const USER_LIMITS: UserLimits = UserLimits {
    memory_bytes_max: 1 << 30,
    seconds_max: 300,
    statements_max: 8,
    result_rows_max: None,
};

/// Reason that a project's user gets no password.
pub const NO_PASSWORDS: &str = "clickhouse_url names an engine that `millrace clickhouse` runs by itself, where nobody \
     gives users of projects their passwords; queries through the API and `millrace query` work there";

/// Users of projects on an operator's server.
pub const USERS: ProjectUsers<'static> = ProjectUsers {
    database: PROJECT_DATABASE,
    views: &PROJECT_VIEWS,
    definer: VIEWS,
};

/// Views of projects in the embedded engine.
pub const EMBEDDED_VIEWS: ProjectViews<'static> = ProjectViews {
    database: PROJECT_DATABASE,
    tokens: PROJECT_TOKENS,
    views: &PROJECT_VIEWS,
    definer: VIEWS,
};

/// Access to ClickHouse for single projects.
#[derive(Debug)]
pub struct ProjectAccess {
    clickhouse: ClickHouse,
    settings: Settings,
    key: QueryKey,
    is_embedded: bool,
    /// True for an engine that `millrace clickhouse` runs by itself.
    is_alone: bool,
    /// False if there are no users of single projects.
    has_users: bool,
}

/// Fails where ClickHouse has no users of single projects.
///
/// # Errors
/// Sources of local files reach the rows of all in the embedded engine. Over shards no test holds
/// that a user's row filters are those of each shard.
pub fn check_supported(config: &Config) -> anyhow::Result<()> {
    let is_sharded = match &config.engine {
        Engine::Embedded { shards, .. } => !shards.is_empty(),
        Engine::Server {
            cluster,
            replication,
            ..
        } => cluster.is_some() && *replication != Replication::Cloud,
    };
    if is_sharded {
        bail!(
            "rows are spread over shards (clickhouse_cluster or clickhouse_shards), where there are no users of single \
             projects"
        );
    }
    if let Engine::Embedded { sources, .. } = &config.engine
        && !sources.iter().all(|source| source.is_remote())
    {
        bail!(
            "clickhouse_sources has file or sqlite, which reach the rows of all projects, so there are no users of \
             single projects; remove these sources and start the server again"
        );
    }
    Ok(())
}

impl ProjectAccess {
    /// Access by these settings; asks a server of the configuration which kind it is.
    ///
    /// # Errors
    /// If it cannot be asked.
    pub async fn connect(config: &Config, settings: Settings) -> Result<Self, QueryError> {
        let clickhouse = ClickHouse::new(&settings);
        let key = QueryKey::of(&settings.password);
        let (is_embedded, is_alone) = match config.engine {
            Engine::Embedded { .. } => (true, false),
            Engine::Server { .. } => {
                let is_embedded = is_embedded(&clickhouse, &key).await?;
                let is_alone = is_embedded && clickhouse.has_profile(ALONE).await?;
                (is_embedded, is_alone)
            }
        };
        Ok(Self {
            clickhouse,
            settings,
            key,
            is_embedded,
            is_alone,
            has_users: check_supported(config).is_ok(),
        })
    }

    /// Returns true if these are the settings of the server.
    #[must_use]
    pub fn is_of(&self, settings: &Settings) -> bool {
        let own = &self.settings;
        (&own.url, &own.user, &own.password) == (&settings.url, &settings.user, &settings.password)
    }

    /// Returns true for an embedded engine, of whatever process.
    #[must_use]
    pub const fn is_embedded(&self) -> bool {
        self.is_embedded
    }

    /// Name by which the user of a project logs in; `None` where it gets no password.
    #[must_use]
    pub fn login_name(&self, project_id: i64) -> Option<String> {
        match (self.is_embedded, self.is_alone) {
            (false, _) => Some(project_user(project_id)),
            (true, false) => Some(PROJECT.to_owned()),
            (true, true) => None,
        }
    }

    /// Client that logs in as the server's own user.
    #[must_use]
    pub const fn clickhouse(&self) -> &ClickHouse {
        &self.clickhouse
    }

    /// Tokens of the program's own logins for a project.
    #[must_use]
    pub fn own_tokens(&self, project_id: i64) -> [ProjectToken; 2] {
        [QUERY, EXPORT].map(|user| self.own_token(project_id, user))
    }

    fn own_token(&self, project_id: i64, user: &str) -> ProjectToken {
        ProjectToken {
            team_id: project_id,
            hash: token_hash(user, &self.key.password(project_id)),
        }
    }

    /// Runs a statement with the rights of a project.
    ///
    /// # Errors
    /// If the statement is refused, or the server cannot be asked.
    pub async fn run(
        &self,
        project_id: i64,
        statement: &ProjectStatement<'_>,
    ) -> Result<ProjectAnswer, QueryError> {
        let login = self.login(project_id);
        if self.is_embedded {
            self.open(project_id, QUERY).await?;
            return self.clickhouse.query_as(&login, statement).await;
        }
        match self.clickhouse.query_as(&login, statement).await {
            Err(error) if is_unknown_user(&error) => {
                self.make_user(project_id, &login).await?;
                self.clickhouse.query_as(&login, statement).await
            }
            answered => answered,
        }
    }

    /// Login of exports for a project; `None` on an operator's server, which has no such user.
    ///
    /// # Errors
    /// If the server cannot be asked.
    pub async fn export_login(&self, project_id: i64) -> Result<Option<ProjectLogin>, QueryError> {
        if !self.is_embedded || !self.has_users {
            return Ok(None);
        }
        self.open(project_id, EXPORT).await?;
        Ok(Some(ProjectLogin {
            user: EXPORT.to_owned(),
            ..self.login(project_id)
        }))
    }

    fn login(&self, project_id: i64) -> ProjectLogin {
        ProjectLogin {
            user: match self.is_embedded {
                true => QUERY.to_owned(),
                false => query_user(project_id),
            },
            password: self.key.password(project_id),
            database: PROJECT_DATABASE,
        }
    }

    /// Opens a project to a login of the program's own. Asked for each statement: the engine may
    /// have been restored from a backup meanwhile, and would show no rows without a reason.
    async fn open(&self, project_id: i64, user: &str) -> Result<(), QueryError> {
        let token = self.own_token(project_id, user);
        let clickhouse = &self.clickhouse;
        if clickhouse.has_token(&EMBEDDED_VIEWS, &token).await? {
            return Ok(());
        }
        clickhouse.open_project(&EMBEDDED_VIEWS, &token, None).await
    }

    async fn make_user(&self, project_id: i64, login: &ProjectLogin) -> Result<(), QueryError> {
        self.clickhouse.prepare_users(&USERS).await?;
        let hash = password_hash(&login.password);
        self.clickhouse
            .make_project_user(&USERS, &login.user, project_id, &hash, QUERY_LIMITS)
            .await
    }
}

/// Asks whether the program's user of an embedded engine is there.
async fn is_embedded(clickhouse: &ClickHouse, key: &QueryKey) -> Result<bool, QueryError> {
    let login = ProjectLogin {
        user: QUERY.to_owned(),
        password: key.password(0),
        database: SYSTEM,
    };
    let query_id = uuid::Uuid::new_v4().to_string();
    let probe = ProjectStatement {
        sql: "SELECT 1",
        format: "JSONEachRow",
        query_id: &query_id,
        held_bytes: 0,
        duration_max: PROBE_MAX,
    };
    match clickhouse.query_as(&login, &probe).await {
        Ok(mut rows) => {
            while rows.next().await?.is_some() {}
            Ok(true)
        }
        // The user is there, and its database is made when the first project is opened.
        Err(error) if error.code == Some(UNKNOWN_DATABASE) => Ok(true),
        Err(error) if is_unknown_user(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Name of the program's own user for a project, on an operator's server.
#[must_use]
pub fn query_user(project_id: i64) -> String {
    format!("{QUERY}_{project_id}")
}

fn is_unknown_user(error: &QueryError) -> bool {
    error.code.is_some_and(|code| NOT_LOGGED_IN.contains(&code))
}
