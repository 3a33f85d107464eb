//! Where ClickHouse is.

use crate::{InsertQuorum, Tls};
use std::fmt;
use std::time::Duration;

/// A server or cluster, and the database in it.
#[derive(Clone)]
pub struct Settings {
    /// The HTTP interface, like `http://127.0.0.1:8123`.
    pub url: String,
    /// Authorities that may vouch for the server, if `url` begins with `https://`.
    pub tls: Option<Tls>,
    /// Who we are there.
    pub user: String,
    /// Never shown by `Debug`.
    pub password: String,
    /// The database that holds our tables; created when it is missing.
    pub database: String,
    /// The name of a cluster: tables are then replicated and created on all of its hosts. The URL
    /// must lead to the replicas of one shard, as tokens are kept by shard.
    pub cluster: Option<String>,
    /// Replicas of a cluster that must have an insert before it is answered; `None`: one is enough, and
    /// reads may miss what another has.
    pub insert_quorum: Option<InsertQuorum>,
    /// How long an insert may take, from its last byte to the answer.
    pub insert_timeout: Duration,
    /// How long a question or a schema change may take.
    pub query_timeout: Duration,
}

impl Settings {
    /// A server, with the database `millrace` and the default timeouts.
    #[must_use]
    pub fn new(
        url: impl Into<String>,
        user: impl Into<String>,
        password: impl Into<String>,
    ) -> Self {
        Self {
            url: url.into(),
            tls: None,
            user: user.into(),
            password: password.into(),
            database: "millrace".to_owned(),
            cluster: None,
            insert_quorum: None,
            insert_timeout: Duration::from_secs(120),
            query_timeout: Duration::from_secs(60),
        }
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("url", &self.url)
            .field("user", &self.user)
            .field("database", &self.database)
            .field("cluster", &self.cluster)
            .field("insert_quorum", &self.insert_quorum)
            .field("insert_timeout", &self.insert_timeout)
            .field("query_timeout", &self.query_timeout)
            .finish_non_exhaustive()
    }
}

/// An identifier between backticks.
#[must_use]
pub fn quoted_name(name: &str) -> String {
    format!("`{}`", escaped(name).replace('`', "\\`"))
}

/// A string literal.
#[must_use]
pub fn quoted_text(text: &str) -> String {
    format!("'{}'", escaped(text).replace('\'', "\\'"))
}

/// A NUL ends a statement, even between quotes.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\0', "\\0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_cannot_be_left_from_within() {
        assert_eq!(quoted_name("a`b\\"), "`a\\`b\\\\`");
        assert_eq!(quoted_text("a'b\\"), "'a\\'b\\\\'");
        assert_eq!(quoted_text("a\0b"), "'a\\0b'");
    }

    #[test]
    fn the_password_is_not_shown() {
        let shown = format!("{:?}", Settings::new("http://h", "u", "secret"));
        assert!(!shown.contains("secret"), "{shown}");
    }
}
