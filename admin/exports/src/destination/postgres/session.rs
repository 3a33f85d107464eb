//! Connections to a server.

use super::bounded::Bounded;
use super::failure;
use super::request_budget::{Budgeted, BudgetedTls, RequestBudget};
use super::server::{Dialect, Server};
use super::tls;
use crate::destination::dialler::Dialler;
use crate::error::ExportError;
use bytes::Bytes;
use millrace_dial::addresses::is_public;
use std::net::IpAddr;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_postgres::config::SslMode;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Config, CopyInSink, Error, Row};

/// Connection to a server; it ends when this is dropped, and its transaction is rolled back.
pub(super) struct Session {
    pub(super) client: Client,
    connection: JoinHandle<()>,
    budget: RequestBudget,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

/// Parameter of a statement.
pub(super) type Param<'a> = &'a (dyn ToSql + Sync);

impl Session {
    /// Connects and logs in.
    pub(super) async fn open(server: &Server, dialler: &dyn Dialler) -> Result<Self, ExportError> {
        let limit = server.limits.connect;
        let stream = tokio::time::timeout(limit, dialler.connect(&server.host, server.port)).await;
        let stream = stream.map_err(|_| failure::timed_out(server))??;
        let peer = stream
            .peer_addr()
            .map_err(|_| failure::connection_lost(server))?
            .ip();
        // Statements are small, and each is waited for.
        stream
            .set_nodelay(true)
            .map_err(|_| failure::connection_lost(server))?;
        let mut tls = tls::connector(!server.has_self_signed_cert)?;
        let tls = MakeTlsConnect::<Bounded<TcpStream>>::make_tls_connect(&mut tls, &server.host);
        let tls =
            tls.map_err(|_| ExportError::permanent("The host is not the name of a server."))?;
        let config = config(server, peer);
        let budget = RequestBudget::unlimited();
        let stream = Budgeted::new(Bounded::new(stream), budget.clone());
        let opened = config.connect_raw(stream, BudgetedTls(tls));
        let opened = tokio::time::timeout(limit, opened).await;
        let opened = opened.map_err(|_| failure::timed_out(server))?;
        let (client, connection) = opened.map_err(|error| failure::of_login(server, &error))?;
        let connection = tokio::spawn(async move {
            // Callers that wait for an answer see the end of the connection.
            let _ = connection.await;
        });
        let session = Self {
            client,
            connection,
            budget,
        };
        session.run(server, &settings(server)).await?;
        Ok(session)
    }

    /// Runs statements without parameters that touch no rows.
    pub(super) async fn run(&self, server: &Server, sql: &str) -> Result<(), ExportError> {
        let done = self.client.batch_execute(sql);
        within(server, server.limits.statement, done).await
    }

    /// Runs a statement that touches a run's rows; returns their number.
    pub(super) async fn change(
        &self,
        server: &Server,
        sql: &str,
        params: &[Param<'_>],
    ) -> Result<u64, ExportError> {
        let typed = typed(params);
        let done = self.client.execute_typed(sql, &typed);
        within(server, server.limits.publish, done).await
    }

    /// Runs a query.
    pub(super) async fn query(
        &self,
        server: &Server,
        sql: &str,
        params: &[&str],
    ) -> Result<Vec<Row>, ExportError> {
        let texts_bytes = sql.len() + params.iter().map(|text| text.len()).sum::<usize>();
        let params: Vec<_> = params.iter().map(|text| text as Param<'_>).collect();
        let typed = typed(&params);
        let done = self.client.query_typed(sql, &typed);
        self.without_type_queries(server, texts_bytes, done).await
    }

    /// Begins a COPY into the server.
    pub(super) async fn copy_in(
        &self,
        server: &Server,
        sql: &str,
    ) -> Result<CopyInSink<Bytes>, ExportError> {
        let done = self.client.copy_in(sql);
        self.without_type_queries(server, sql.len(), done).await
    }

    /// Makes a request of the driver, unless it needs to look up a type.
    async fn without_type_queries<T>(
        &self,
        server: &Server,
        texts_bytes: usize,
        done: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, ExportError> {
        let done = within(server, server.limits.statement, done);
        let done = self.budget.within(texts_bytes, done).await;
        done.map_err(|error| match self.budget.is_exceeded() {
            true => failure::unknown_types(server),
            false => error,
        })
    }
}

/// Passes parameters as texts: statements need no look-up of types, which Redshift lacks.
fn typed<'a>(params: &[Param<'a>]) -> Vec<(Param<'a>, Type)> {
    let typed = params.iter().map(|text| (*text, Type::VARCHAR));
    typed.collect()
}

/// Waits for a statement within a time limit.
pub(super) async fn within<T>(
    server: &Server,
    limit: Duration,
    done: impl Future<Output = Result<T, Error>>,
) -> Result<T, ExportError> {
    let done = tokio::time::timeout(limit, done).await;
    let done = done.map_err(|_| failure::timed_out(server))?;
    done.map_err(|error| failure::of_statement(server, &error))
}

fn config(server: &Server, peer: IpAddr) -> Config {
    let mut config = Config::new();
    config
        .user(&server.user)
        .password(&server.password)
        .dbname(&server.database)
        .application_name("millrace")
        // In private networks, which the operator has to allow, servers often have no TLS.
        .ssl_mode(match is_public(peer) {
            true => SslMode::Require,
            false => SslMode::Prefer,
        });
    config
}

/// Session settings: the server itself stops statements that exceed our time limits.
pub(super) fn settings(server: &Server) -> String {
    let limits = &server.limits;
    let publish = limits.publish.as_millis();
    match server.dialect {
        Dialect::Postgres => format!(
            "SET statement_timeout = {publish}; SET lock_timeout = {lock}; \
             SET idle_in_transaction_session_timeout = {publish}; \
             SET TimeZone = 'UTC'; SET DateStyle = 'ISO'",
            lock = limits.lock.as_millis(),
        ),
        Dialect::Redshift { .. } => format!("SET statement_timeout TO {publish}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{SslMode, config};
    use crate::destination::postgres::TimeLimits;
    use crate::destination::postgres::server::{Dialect, Server};
    use crate::destination::settings::Settings;
    use crate::destination::table::EVENTS;
    use serde_json::json;
    use std::collections::BTreeMap;

    #[test]
    fn connections_over_the_internet_require_tls() {
        let settings = json!({"host": "h", "database": "d"});
        let secrets = ["user", "password"].map(|name| (name.to_owned(), "canary".to_owned()));
        let secrets = BTreeMap::from(secrets);
        let settings = Settings::new(&settings, &secrets);
        let server =
            Server::of(&settings, Dialect::Postgres, &EVENTS, TimeLimits::default()).unwrap();
        let table = [
            ("8.8.8.8", SslMode::Require),
            ("2606:4700::1111", SslMode::Require),
            ("::ffff:8.8.8.8", SslMode::Require),
            ("10.1.2.3", SslMode::Prefer),
            ("127.0.0.1", SslMode::Prefer),
            ("fd00::1", SslMode::Prefer),
        ];
        for (peer, mode) in table {
            let config = config(&server, peer.parse().unwrap());
            assert_eq!(config.get_ssl_mode(), mode, "{peer}");
        }
        assert!(!format!("{server:?}").contains("canary"));
    }
}
