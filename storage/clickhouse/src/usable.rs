//! Checks that ClickHouse can be used, and advises if it cannot.
//!
//! One statement checks all at once: an insert of no rows into a table needs the server, the user,
//! the database and the rights to read and to write.

use crate::settings::quoted_name;
use crate::{ClickHouse, MigrateError, QueryError, QueryErrorKind, Settings};
use hyper::{Request, StatusCode};
use hyper_util::client::legacy::{self, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use std::time::Duration;
use tokio::time::timeout;
use uuid::Uuid;

/// Longest time of the statement.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Purpose that ClickHouse is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Events are stored.
    Events,
    /// Persons and groups are copied, and rows are read for exports.
    Persons,
}

impl Purpose {
    /// Table that is written to, and one of its columns.
    const fn table(self) -> (&'static str, &'static str) {
        match self {
            Self::Events => ("events", "uuid"),
            Self::Persons => ("persons", "id"),
        }
    }
}

/// Reason why ClickHouse cannot be used, for an operator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{advice} ({words})")]
pub struct Unusable {
    /// Kind of the error.
    pub kind: QueryErrorKind,
    /// Description of the error, with advice that names settings; it stays the same for as long as
    /// the error lasts.
    pub advice: String,
    /// Message of the failed server or library.
    pub words: String,
}

impl ClickHouse {
    /// Checks that the server can be used, and makes missing tables.
    ///
    /// # Errors
    /// The reason why the server cannot be used, with advice.
    pub async fn check_usable(&self, purpose: Purpose) -> Result<(), Unusable> {
        if self.has_tables(purpose).await? {
            return Ok(());
        }
        let migrated = self.migrate().await;
        migrated.map_err(|error| self.settings.unmigrated(&error))
    }

    /// Checks that the server can be used, and changes nothing; returns false if tables are missing,
    /// whatever else may be wrong then.
    ///
    /// # Errors
    /// The reason why the server cannot be used, with advice.
    pub async fn has_tables(&self, purpose: Purpose) -> Result<bool, Unusable> {
        let (table, column) = purpose.table();
        let table = format!("{}.{table}", quoted_name(&self.settings.database));
        let nothing = format!(
            "INSERT INTO {table} ({column}) SELECT {column} FROM {table} WHERE 0 \
             SETTINGS async_insert = 0"
        );
        let asked = timeout(ANSWER_MAX, async {
            self.execute_proven(&nothing, &[]).await?;
            self.ask_each_shard().await
        })
        .await;
        let error = match asked {
            Ok(Ok(())) => return Ok(true),
            Ok(Err(error)) if error.schema_is_missing() => return Ok(false),
            Ok(Err(error)) => self.with_status(error).await,
            Err(_) => QueryError::without_code(format!("no answer within {ANSWER_MAX:?}")),
        };
        Err(self.settings.explain(&error))
    }

    /// Runs a statement that succeeds only if the answer names it: a gateway's page is answered
    /// with 200 as well.
    pub(crate) async fn execute_proven(
        &self,
        sql: &str,
        settings: &[(&'static str, String)],
    ) -> Result<(), QueryError> {
        let query_id = Uuid::new_v4().to_string();
        let mut parameters = vec![("query_id", query_id.as_str())];
        parameters.extend(settings.iter().map(|(name, value)| (*name, value.as_str())));
        let to = (&*self.settings, self.hosts.url(self.hosts.current()));
        let answered = self.poster.post_statement(to, &parameters, sql);
        let proven = self
            .within_deadline(answered)
            .await?
            .check_query_id(&query_id);
        proven.map_err(|words| QueryError {
            code: None,
            kind: QueryErrorKind::NotClickHouse,
            message: words,
        })
    }

    /// Adds the HTTP status to the error of a server that is not ClickHouse: a proxy's page need
    /// not contain it.
    pub(crate) async fn with_status(&self, error: QueryError) -> QueryError {
        if error.kind != QueryErrorKind::NotClickHouse {
            return error;
        }
        let status = timeout(ANSWER_MAX, self.settings.status()).await;
        match status {
            Ok(Some(status)) if !error.message.contains(status.as_str()) => QueryError {
                message: format!("{status}: {}", error.message),
                ..error
            },
            _ => error,
        }
    }
}

impl Settings {
    /// Asks for the status of the answer to an empty request.
    async fn status(&self) -> Option<StatusCode> {
        let client = legacy::Client::builder(TokioExecutor::new());
        let asked = Request::post(&self.url).body(String::new()).ok()?;
        let answer = match &self.tls {
            Some(tls) => client.build(tls.connector()).request(asked).await,
            None => client.build(HttpConnector::new()).request(asked).await,
        };
        Some(answer.ok()?.status())
    }

    /// Explains an error to an operator.
    #[must_use]
    pub fn explain(&self, error: &QueryError) -> Unusable {
        Unusable {
            kind: error.kind,
            advice: self.advice(error),
            words: error.message.clone(),
        }
    }

    fn advice(&self, error: &QueryError) -> String {
        let (url, user) = (&self.url, &self.user);
        match (error.code, error.kind) {
            (Some(192..=194 | 516), _) => format!(
                "ClickHouse at {url} refuses the user {user} or their password; set clickhouse_user and \
                 clickhouse_password to what it knows"
            ),
            (Some(195), _) => format!(
                "ClickHouse at {url} does not let the user {user} in from this machine; allow its \
                 address there"
            ),
            (Some(164), _) => format!(
                "ClickHouse at {url} lets the user {user} read only; give them a profile without \
                 `readonly`, or name another user in clickhouse_user"
            ),
            (Some(497), _) => format!(
                "ClickHouse at {url} has not granted the user {user} a right that Millrace needs; grant \
                 what it names"
            ),
            (Some(60 | 81), _) => format!(
                "ClickHouse at {url} lacks the database {} or a table in it; `millrace migrate` \
                 creates them",
                self.database
            ),
            (Some(_), QueryErrorKind::Misconfigured) => format!(
                "ClickHouse at {url} has other tables or settings than Millrace needs; correct what \
                 it names"
            ),
            (_, QueryErrorKind::Tls(advice)) => {
                format!("there is no TLS to ClickHouse at {url}: {advice}")
            }
            (_, QueryErrorKind::Cluster) => format!(
                "the hosts of the cluster at {url} cannot be used together; correct remote_servers on \
                 them, or clickhouse_url, clickhouse_cluster and clickhouse_replication"
            ),
            (_, QueryErrorKind::OtherCatalog) => format!(
                "the rows in ClickHouse at {url} are those of another catalog, whose projects have the same \
                 numbers; give the database_url of that catalog, or an empty ClickHouse in clickhouse_url"
            ),
            (None, QueryErrorKind::Misconfigured) => {
                format!("clickhouse_url is {url}, which cannot be asked; correct it")
            }
            (None, QueryErrorKind::NotClickHouse) => format!(
                "what answers at {url} is not ClickHouse; check the address, port and path of clickhouse_url, and \
                 what stands before ClickHouse"
            ),
            (Some(_), _) => format!("ClickHouse at {url} cannot do what it is asked for now"),
            (None, _) if self.wants_tls(error) => format!(
                "ClickHouse at {url} does not answer by plain HTTP; if that port takes TLS, begin \
                 clickhouse_url with https://"
            ),
            (None, _) => {
                format!(
                    "ClickHouse does not answer; check clickhouse_url, and that it is up at {url}"
                )
            }
        }
    }

    /// Returns true if the server may want TLS and was asked without: it hangs up, sends bytes that
    /// are no HTTP, or says so.
    fn wants_tls(&self, error: &QueryError) -> bool {
        let is_plain = self.url.starts_with("http://");
        is_plain && (error.kind == QueryErrorKind::NoHttp || error.message.contains("HTTPS"))
    }

    fn unmigrated(&self, error: &MigrateError) -> Unusable {
        if matches!(error, MigrateError::Newer { .. }) {
            return Unusable {
                kind: QueryErrorKind::Misconfigured,
                advice: "the schema in ClickHouse is of another version".to_owned(),
                words: error.to_string(),
            };
        }
        let Some(source) = error.query_error() else {
            return self.explain(&error.clone().into_query());
        };
        let why = self.explain(source);
        Unusable {
            advice: format!("the tables in ClickHouse cannot be created: {}", why.advice),
            ..why
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_has_advice_for_the_operator() {
        use QueryErrorKind::{
            Cluster, Misconfigured, NoConnection, NoHttp, NotClickHouse, Other, OtherCatalog, Tls,
        };
        let table = [
            ("http", Some(516), Misconfigured, "clickhouse_password"),
            ("http", Some(192), Misconfigured, "clickhouse_user"),
            ("http", Some(195), Misconfigured, "from this machine"),
            ("http", Some(164), Misconfigured, "read only"),
            ("http", Some(497), Misconfigured, "grant what it names"),
            ("http", Some(81), Misconfigured, "millrace migrate"),
            ("http", Some(47), Misconfigured, "other tables"),
            ("http", Some(241), Other, "cannot do"),
            (
                "https",
                None,
                Tls("renew it"),
                "no TLS to ClickHouse at https://db:8443: renew it",
            ),
            ("http", None, Cluster, "correct remote_servers"),
            ("http", None, OtherCatalog, "database_url of that catalog"),
            ("http", None, NoConnection, "that it is up"),
            ("http", None, NoHttp, "begin clickhouse_url with https://"),
            ("https", None, NoHttp, "that it is up"),
            ("http", None, NotClickHouse, "path of clickhouse_url"),
        ];
        for (scheme, code, kind, words) in table {
            let settings = Settings::new(format!("{scheme}://db:8443"), "me", "secret");
            let error = QueryError {
                code,
                kind,
                message: "its words".to_owned(),
            };
            let message = settings.explain(&error).to_string();
            assert!(message.contains(words), "{code:?} {kind:?}: {message}");
            assert!(message.contains("its words"), "{message}");
            assert!(message.contains("db:8443"), "{message}");
            assert!(!message.contains("secret"), "{message}");
        }
    }
}
