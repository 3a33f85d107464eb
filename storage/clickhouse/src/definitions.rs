//! Definitions of the cluster in its hosts' `remote_servers`. Rows that one host spreads are looked
//! for by another when it fails, so all hosts need the same shards in the same order.
//!
//! They are compared before anything is sent to the cluster. A host that was away then is asked
//! before it serves in place of one that fails.

use crate::hosts::{Definition, Host};
use crate::nonce::Nonce;
use crate::settings::quoted_text;
use crate::{
    ClickHouse, InsertError, InsertOutcome, MigrateError, QueryError, QueryErrorKind, Replication,
};
use clickhouse::error::Error;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Longest time to wait for a definition, which a host has in memory.
const DEFINITION_MAX: Duration = Duration::from_secs(5);

impl ClickHouse {
    /// Checks that a host may be sent a statement: compares the hosts' definitions of the cluster,
    /// and looks up whose the rows are, unless that was done before.
    ///
    /// # Errors
    /// If no host answers, they cannot be used together, this one was away when they were compared,
    /// or the rows are of another catalog.
    pub(crate) async fn may_ask(&self, host: Host) -> Result<(), QueryError> {
        self.must_be_of_one_cluster(host).await?;
        self.must_own_rows(host).await
    }

    async fn must_be_of_one_cluster(&self, host: Host) -> Result<(), QueryError> {
        let definition = &self.hosts.definition;
        if self.settings.sharded().is_none() || definition.initialized() {
            return Ok(());
        }
        let compared = definition.get_or_try_init(|| self.one_definition()).await;
        compared.map_err(MigrateError::into_query)?;
        match self.hosts.current() == host {
            true => Ok(()),
            false => Err(QueryError::without_code("the host does not answer")),
        }
    }

    /// Checks that ClickHouse is the cluster of the settings, or the one server.
    ///
    /// # Errors
    /// If it is not, or no host answers.
    pub(crate) async fn check_cluster(&self) -> Result<(), MigrateError> {
        if self.settings.sharded().is_none() {
            return self.check_no_shard().await;
        }
        let definition = self.one_definition().await?;
        // It may be known already.
        let _ = self.hosts.definition.set(definition);
        Ok(())
    }

    /// Turns to the next host that answers and has the same definition, as one fails.
    pub(crate) async fn leave(&self, failed: Host) {
        for next in self.hosts.others(failed) {
            if self.hosts.current() != failed {
                return;
            }
            if self.can_serve(next).await {
                self.hosts.turn_to(failed, next);
                return;
            }
        }
    }

    /// Returns true if a host may serve in place of another one.
    async fn can_serve(&self, host: Host) -> bool {
        let Some(expected) = self.hosts.definition.get() else {
            return true;
        };
        let url = self.hosts.url(host);
        match self.definition_of(url).await {
            Ok(found) if found == *expected => true,
            Ok(_) => {
                if self.hosts.is_to_be_warned() {
                    tracing::warn!(
                        url,
                        "a host of ClickHouse is not asked in place of one that fails: it has \
                         another definition of the cluster in remote_servers"
                    );
                }
                false
            }
            Err(_) => false,
        }
    }

    /// Asks all hosts for their definitions at once, and checks that they are one.
    async fn one_definition(&self) -> Result<Definition, MigrateError> {
        let mut asked = JoinSet::new();
        for (place, url) in self.hosts.urls().iter().cloned().enumerate() {
            let clickhouse = self.clone();
            asked.spawn(async move {
                let answer = clickhouse.definition_of(&url).await;
                (place, url, answer)
            });
        }
        let mut answers = Vec::new();
        while let Some(answer) = asked.join_next().await {
            answers.extend(answer.ok());
        }
        answers.sort_unstable_by_key(|(place, ..)| *place);
        let (mut definitions, mut failures) = (Vec::new(), Vec::new());
        for (_, url, answer) in answers {
            match answer {
                Ok(definition) => definitions.push((url, definition)),
                Err(error) => failures.push((url, error)),
            }
        }
        let Some((_, definition)) = definitions.first().cloned() else {
            let failure = failures.into_iter().next().map(|(_, error)| error);
            let failure = failure.unwrap_or_else(|| QueryError::without_code("no host answers"));
            return Err(MigrateError::Shards(failure));
        };
        are_alike(&definitions)?;
        self.check_definition(&definition)?;
        let current = self.hosts.current();
        let mut hosts = std::iter::once(current).chain(self.hosts.others(current));
        let answers = |host: &Host| {
            definitions
                .iter()
                .any(|(url, _)| url == self.hosts.url(*host))
        };
        if let Some(serving) = hosts.find(answers)
            && serving != current
        {
            self.hosts.turn_to(current, serving);
        }
        for (url, error) in failures {
            // It is asked before it serves; without Keeper it fails the next migration.
            tracing::warn!(url, "a host cannot be asked for its shards: {error}");
        }
        Ok(definition)
    }

    async fn definition_of(&self, url: &str) -> Result<Definition, QueryError> {
        let nonce = Nonce::new();
        let sql = format!(
            "SELECT toString(arraySort(groupArray(\
             (shard_num, replica_num, shard_weight, host_name, port)))) AS text, \
             count() AS hosts, assumeNotNull(toUInt64(max(shard_num))) AS shards \
             FROM system.clusters WHERE cluster = {}",
            quoted_text(self.settings.sharded().unwrap_or_default())
        );
        let client = self.client.clone().with_url(url).with_validation(true);
        let answer = client.query_raw(&nonce.put_into(&sql)).fetch_one();
        let answer = timeout(DEFINITION_MAX, answer).await;
        let (answered, text, hosts, shards): (String, String, u64, u64) =
            answer.unwrap_or(Err(Error::TimedOut))?;
        nonce.check(&answered)?;
        Ok(Definition {
            text,
            hosts,
            shards,
        })
    }

    /// Checks that the cluster exists, and, without Keeper, that every host of it is among the
    /// addresses, since nothing else carries statements there, and is a shard of its own.
    fn check_definition(&self, definition: &Definition) -> Result<(), MigrateError> {
        let &Definition { hosts, shards, .. } = definition;
        if hosts == 0 {
            let cluster = self.settings.sharded().unwrap_or_default();
            return Err(MigrateError::Shards(unknown_cluster(cluster)));
        }
        match self.settings.replication() {
            Some(Replication::None) => are_single(hosts, shards, self.hosts.urls().len() as u64),
            _ => Ok(()),
        }
    }

    /// Checks that the tables are not those of shards: this client would read the rows of all of
    /// them for those of one server, and insert without waiting for any.
    async fn check_no_shard(&self) -> Result<(), MigrateError> {
        let sql = format!(
            "SELECT count() FROM system.tables WHERE database = {} AND name = 'events_local'",
            quoted_text(&self.settings.database)
        );
        let found = self.fetch_u64(&sql).await;
        match found.map_err(MigrateError::Unreadable)? {
            0 => Ok(()),
            _ => Err(MigrateError::OfShards),
        }
    }
}

/// Returns the error of an insert that was not sent, as hosts could not be compared, or the rows
/// are of another catalog.
pub(crate) fn unsent(error: &QueryError) -> InsertError {
    let outcome = match error.kind {
        QueryErrorKind::Misconfigured
        | QueryErrorKind::Cluster
        | QueryErrorKind::OtherCatalog
        | QueryErrorKind::Tls(_) => InsertOutcome::Misconfigured,
        _ => InsertOutcome::NotStored,
    };
    InsertError {
        outcome,
        // A code would be taken for that of the insert.
        code: None,
        message: error.to_string(),
    }
}

pub(crate) fn unknown_cluster(cluster: &str) -> QueryError {
    QueryError {
        code: None,
        kind: QueryErrorKind::Cluster,
        message: format!(
            "clickhouse_cluster is {cluster:?}, which is not in ClickHouse's remote_servers"
        ),
    }
}

/// Checks that each shard is one host, and each host an address: the hosts of a shard that nothing
/// replicates have different rows.
fn are_single(hosts: u64, shards: u64, addresses: u64) -> Result<(), MigrateError> {
    if hosts != shards {
        return Err(MigrateError::Unreplicated { hosts, shards });
    }
    if hosts != addresses {
        return Err(MigrateError::Hosts { addresses, hosts });
    }
    Ok(())
}

/// Checks that hosts, by their addresses, have one definition of the cluster.
fn are_alike(definitions: &[(String, Definition)]) -> Result<(), MigrateError> {
    let Some((first, expected)) = definitions.first() else {
        return Ok(());
    };
    match definitions.iter().find(|(_, found)| found != expected) {
        None => Ok(()),
        Some((url, _)) => Err(MigrateError::Definitions {
            first: first.clone(),
            url: url.clone(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_replicas_each_shard_is_one_host_that_is_an_address() {
        assert!(are_single(3, 3, 3).is_ok());
        let several = are_single(4, 2, 4);
        assert!(matches!(several, Err(MigrateError::Unreplicated { .. })));
        let unnamed = are_single(3, 3, 2);
        assert!(matches!(unnamed, Err(MigrateError::Hosts { .. })));
    }

    #[test]
    fn the_first_host_whose_definition_differs_is_named() {
        let (ours, swapped) = (
            "[(1,1,1,'a',9000),(2,1,1,'b',9000)]",
            "[(1,1,1,'b',9000),(2,1,1,'a',9000)]",
        );
        let table: [(&[&str], Option<&str>); 5] = [
            (&[], None),
            (&[ours], None),
            (&[ours, ours], None),
            (&[ours, ours, "[]"], Some("2")),
            (&[ours, swapped, swapped], Some("1")),
        ];
        for (texts, expected) in table {
            let definition = |(place, text): (usize, &&str)| {
                let definition = Definition {
                    text: (*text).to_owned(),
                    hosts: 2,
                    shards: 2,
                };
                (place.to_string(), definition)
            };
            let found: Vec<_> = texts.iter().enumerate().map(definition).collect();
            let differing = are_alike(&found).err().map(|error| match error {
                MigrateError::Definitions { url, .. } => url,
                other => panic!("{other}"),
            });
            assert_eq!(differing.as_deref(), expected, "{texts:?}");
        }
    }
}
