//! Settings of the connection to ClickHouse.

use crate::{InsertQuorum, Replication, Tls};
use std::fmt;
use std::time::Duration;
use uuid::Uuid;

/// Catalog whose projects own the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowOwner {
    /// Id of the catalog.
    pub catalog_id: Uuid,
    /// True if its projects have sent events before: a ClickHouse without rows lacks them.
    pub has_events: bool,
}

/// A server or cluster, and the database in it.
#[derive(Clone)]
pub struct Settings {
    /// Address of the HTTP interface, like `http://127.0.0.1:8123`.
    pub url: String,
    /// Addresses of other hosts of the cluster, of which the next one serves when one fails.
    pub other_urls: Vec<String>,
    /// Authorities that may vouch for the server, if `url` begins with `https://`.
    pub tls: Option<Tls>,
    /// User name.
    pub user: String,
    /// Password; never shown by `Debug`.
    pub password: String,
    /// Database of our tables; created when it is missing.
    pub database: String,
    /// Name of a cluster: rows are then spread over its shards, and tables created on all of its
    /// hosts.
    pub cluster: Option<String>,
    /// Replication of the cluster's tables; without a cluster it means nothing.
    pub replication: Replication,
    /// Replicas of a cluster that must have an insert before it is answered; `None`: one is enough,
    /// and reads may miss what another has.
    pub insert_quorum: Option<InsertQuorum>,
    /// Catalog whose projects own the rows: with those of another one, everything fails. `None`:
    /// nobody looks whose they are.
    pub owner: Option<RowOwner>,
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
            other_urls: Vec::new(),
            tls: None,
            user: user.into(),
            password: password.into(),
            database: "millrace".to_owned(),
            cluster: None,
            replication: Replication::default(),
            insert_quorum: None,
            owner: None,
            insert_timeout: Duration::from_secs(120),
            query_timeout: Duration::from_secs(60),
        }
    }
}

impl Settings {
    /// Replication of the tables; `None` of one server.
    pub(crate) fn replication(&self) -> Option<Replication> {
        self.cluster.as_ref().map(|_| self.replication)
    }

    /// Returns the cluster over whose shards rows are spread, if there is one.
    pub(crate) fn sharded(&self) -> Option<&str> {
        let cluster = self.cluster.as_deref();
        cluster.filter(|_| self.replication != Replication::Cloud)
    }

    /// Returns true if a replicated table records a token and its part in one step.
    pub(crate) fn tokens_are_atomic(&self) -> bool {
        let replication = self.replication();
        replication.is_some_and(|replication| replication != Replication::None)
    }

    /// Returns true if a read of all shards may be answered by a replica that lacks stored rows.
    pub(crate) fn replicas_may_be_behind(&self) -> bool {
        self.sharded().is_some() && self.tokens_are_atomic() && self.insert_quorum.is_none()
    }

    /// ClickHouse's settings of statements to tables whose rows are spread over shards.
    pub(crate) fn of_shards(&self) -> Vec<(&'static str, String)> {
        match self.sharded() {
            None => Vec::new(),
            Some(_) => vec![
                // The default answers once the rows are in a file of the host that took them.
                ("distributed_foreground_insert", "1".to_owned()),
                // A profile may have it, and rows of a shard that is down would be missing.
                ("skip_unavailable_shards", "0".to_owned()),
            ],
        }
    }

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
    /// refuses, or fetches them first in ClickHouse Cloud, and no shard is left out.
    pub(crate) fn of_reads(&self) -> Vec<(&'static str, &'static str)> {
        let is_cloud = self.replication() == Some(Replication::Cloud);
        let mut settings = Vec::new();
        if self.insert_quorum.is_some() || is_cloud {
            settings.push(("select_sequential_consistency", "1"));
        }
        if self.sharded().is_some() {
            settings.push(("skip_unavailable_shards", "0"));
            // A subquery over all shards in a query over all shards is answered once, for all.
            settings.push(("distributed_product_mode", "global"));
            // A profile may have it, and a count would be that of one shard.
            settings.push(("distributed_group_by_no_merge", "0"));
            // A profile may have them. Rows of a person would be missing that were stored before a
            // shard was added, or reads without a distinct id would be refused.
            settings.push(("optimize_skip_unused_shards", "0"));
            settings.push(("force_optimize_skip_unused_shards", "0"));
        }
        settings
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("url", &self.url)
            .field("other_urls", &self.other_urls)
            .field("user", &self.user)
            .field("database", &self.database)
            .field("cluster", &self.cluster)
            .field("replication", &self.replication)
            .field("insert_quorum", &self.insert_quorum)
            .field("owner", &self.owner)
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
    fn replicas_without_a_quorum_may_be_behind() {
        let quorum = Some(InsertQuorum::Majority);
        for (cluster, replication, insert_quorum, expected) in [
            (Some("main"), Replication::Keeper, None, true),
            (Some("main"), Replication::Database, None, true),
            (Some("main"), Replication::Keeper, quorum, false),
            (Some("main"), Replication::None, None, false),
            (Some("main"), Replication::Cloud, None, false),
            (None, Replication::Keeper, None, false),
        ] {
            let settings = Settings {
                cluster: cluster.map(str::to_owned),
                replication,
                insert_quorum,
                ..Settings::new("http://h", "u", "p")
            };
            assert_eq!(settings.replicas_may_be_behind(), expected, "{settings:?}");
        }
    }

    #[test]
    fn reads_of_shards_count_rows_of_all_whatever_the_profile_says() {
        let of_one = Settings::new("http://h", "u", "p");
        assert!(of_one.of_reads().is_empty());
        let of_shards = Settings {
            cluster: Some("main".to_owned()),
            ..of_one
        };
        let set = of_shards.of_reads();
        for name in [
            "skip_unavailable_shards",
            "distributed_group_by_no_merge",
            "optimize_skip_unused_shards",
            "force_optimize_skip_unused_shards",
        ] {
            assert!(set.contains(&(name, "0")), "{name}");
        }
    }

    #[test]
    fn the_password_is_not_shown() {
        let shown = format!("{:?}", Settings::new("http://h", "u", "secret"));
        assert!(!shown.contains("secret"), "{shown}");
    }
}
