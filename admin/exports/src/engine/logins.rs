//! Logins of projects in ClickHouse, with whose rights customers' queries run.
//!
//! The parts of a query are checked and rewritten (`crate::query`). The login is a second net: what
//! might get through the first one still sees the rows of its project only.

use async_trait::async_trait;
use millrace_clickhouse::{ProjectLogin, QueryError};
use std::fmt;

/// Logins of projects.
#[async_trait]
pub trait ProjectLogins: fmt::Debug + Send + Sync {
    /// Login that reads the tables and sees the rows of one project; `None`: the server has no such
    /// users.
    ///
    /// # Errors
    ///
    /// ClickHouse cannot be asked.
    async fn login(&self, project_id: i64) -> Result<Option<ProjectLogin>, QueryError>;
}
