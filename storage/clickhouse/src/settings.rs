//! Settings of the connection to ClickHouse.

use crate::{InsertQuorum, Tls};
use std::fmt;
use std::time::Duration;

/// A server or cluster, and the database in it.
#[derive(Clone)]
pub struct Settings {
    /// Address of the HTTP interface, like `http://127.0.0.1:8123`.
    pub url: String,
    /// Authorities that may vouch for the server, if `url` begins with `https://`.
    pub tls: Option<Tls>,
    /// User name.
    pub user: String,
    /// Password; never shown by `Debug`.
    pub password: String,
    /// Database of our tables; created when it is missing.
    pub database: String,
    /// Name of a cluster: tables are then replicated and created on all of its hosts. The URL must
    /// lead to the replicas of one shard, since tokens are kept by shard.
    pub cluster: Option<String>,
    /// Replicas of a cluster that must have an insert before it is answered; `None`: one is enough,
    /// and reads may miss what another has.
    pub insert_quorum: Option<InsertQuorum>,
    /// Longest time of an insert, from its last byte to the answer.
    pub insert_timeout: Duration,
    /// Longest time of a query or a schema change.
    pub query_timeout: Duration,
}

impl Settings {
    /// Settings of a server, with the database `millrace` and the default timeouts.
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

impl Settings {
    /// ClickHouse's settings of an insert.
    pub(crate) fn quorum_of_inserts(&self) -> Vec<(&'static str, String)> {
        let Some(quorum) = self.insert_quorum else {
            return Vec::new();
        };
        // Below our own deadline, so that the server does not wait on after we gave up.
        let timeout = self.insert_timeout / 2;
        vec![
            ("insert_quorum", quorum.to_string()),
            // Sequential reads only know inserts that came one after the other.
            ("insert_quorum_parallel", "0".to_owned()),
            ("insert_quorum_timeout", timeout.as_millis().to_string()),
        ]
    }

    /// ClickHouse's settings of a read that must see all stored rows: a replica that lacks some
    /// refuses.
    pub(crate) fn quorum_of_reads(&self) -> Option<(&'static str, &'static str)> {
        let has_quorum = self.insert_quorum.is_some();
        has_quorum.then_some(("select_sequential_consistency", "1"))
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

/// Quotes an identifier with backticks.
#[must_use]
pub fn quoted_name(name: &str) -> String {
    format!("`{}`", escaped(name).replace('`', "\\`"))
}

/// Quotes a string literal.
#[must_use]
pub fn quoted_text(text: &str) -> String {
    format!("'{}'", escaped(text).replace('\'', "\\'"))
}

/// Escapes backslashes and NULs: a NUL ends a statement, even between quotes.
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
