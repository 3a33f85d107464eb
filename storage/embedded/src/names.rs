//! Names of the engine's users, and of the views that users of projects read.

/// User of operators.
pub const ADMIN: &str = "admin";
/// User for reading the rows of all projects.
pub const READER: &str = "reader";
/// User for reading the rows of the project that its password belongs to.
pub const PROJECT: &str = "project";
/// User who runs the statements of the API for a project; sees what [`PROJECT`] sees.
pub const QUERY: &str = "project_query";
/// User who reads the tables for customers' queries of exports. Its rows are filtered in the tables
/// themselves.
pub const EXPORT: &str = "project_export";
/// User who reads the tables for the views of projects, and whose rows are filtered in the tables
/// themselves. Nobody can log in as it.
pub const VIEWS: &str = "project_views";
/// Database of the views that [`PROJECT`] reads.
pub const PROJECT_DATABASE: &str = "project";
/// Tables and views of the database `millrace` that have a view of their name in
/// [`PROJECT_DATABASE`]. Each has a column `team_id`.
pub const PROJECT_VIEWS: [&str; 7] = [
    "events",
    "persons",
    "person_distinct_ids",
    "groups",
    "rejected_events",
    "persons_current",
    "events_with_persons",
];
/// Table in [`PROJECT_DATABASE`] that maps hashes of tokens to projects.
pub const PROJECT_TOKENS: &str = "tokens";
/// Settings profile of the server's own user in an engine that `millrace clickhouse` runs by
/// itself. By that a process elsewhere knows that nobody gives users of projects their passwords.
pub const ALONE: &str = "alone";
/// Setting that the login server hands a token to the engine in. It has no effect otherwise: the
/// cache of results is never used.
pub(crate) const TOKEN_SETTING: &str = "query_cache_tag";
/// Name of the login server in the configuration.
pub(crate) const LOGIN_SERVER: &str = "millrace";
