//! Customer's database behind a gateway.

use super::gateway::Gateway;
use crate::dialler::loopback;
use millrace_catalog::testing::{TestDatabase, TestPostgres};
use millrace_catalog::{DestinationType, ExportModel};
use millrace_exports::ExportError;
use millrace_exports::destination::postgres::{Postgres, TimeLimits};
use millrace_exports::destination::{Destination, DestinationConfig};
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use tokio::sync::OnceCell;
use tokio_postgres::{Client, NoTls};
use tokio_rustls::TlsAcceptor;

/// Secrets that must not appear anywhere.
pub const USER: &str = "canary_user";
pub const PASSWORD: &str = "canary-password";
pub const WRONG_PASSWORD: &str = "canary-wrong-password";

static ROLE: OnceCell<()> = OnceCell::const_new();

pub struct Fixture {
    database: TestDatabase,
    pub gateway: Gateway,
    /// Connection of the server's operator.
    pub admin: Client,
    pub config: Map<String, Value>,
    pub limits: TimeLimits,
    pub password: String,
    pub model: ExportModel,
}

impl Fixture {
    pub async fn new() -> Self {
        Self::behind(None).await
    }

    /// Creates a database behind a gateway, with TLS if it is given.
    pub async fn behind(tls: Option<TlsAcceptor>) -> Self {
        let database = TestDatabase::postgres().await;
        let (directory, name) = socket_and_database(database.url());
        ROLE.get_or_init(|| make_role(&directory)).await;
        let admin = connect(&directory, "postgres", &name).await.unwrap();
        let own = format!("ALTER DATABASE {name} OWNER TO {USER}");
        admin.batch_execute(&own).await.unwrap();
        let gateway = Gateway::start(directory.join(".s.PGSQL.5432"), tls).await;
        let config = json!({"host": "127.0.0.1", "port": gateway.port, "database": name});
        let Value::Object(config) = config else {
            unreachable!("it is one");
        };
        Self {
            database,
            gateway,
            admin,
            config,
            limits: TimeLimits::default(),
            password: PASSWORD.to_owned(),
            model: ExportModel::Events,
        }
    }

    /// Runs statements as the operator; the customer owns the created objects.
    pub async fn execute(&self, sql: &str) {
        let sql = format!("SET ROLE {USER}; {sql}; RESET ROLE");
        self.admin.batch_execute(&sql).await.unwrap();
    }

    /// First column of a query's rows, as text.
    pub async fn texts(&self, sql: &str) -> Vec<String> {
        let rows = self.admin.simple_query(sql).await.unwrap();
        let texts = rows.iter().filter_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => {
                Some(row.get(0).unwrap_or("NULL").to_owned())
            }
            _ => None,
        });
        texts.collect()
    }

    pub async fn text(&self, sql: &str) -> String {
        self.texts(sql).await.remove(0)
    }

    pub fn set(&mut self, field: &str, value: impl Into<Value>) {
        self.config.insert(field.to_owned(), value.into());
    }

    fn secrets(&self) -> BTreeMap<String, String> {
        let secret = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        BTreeMap::from([secret("user", USER), secret("password", &self.password)])
    }

    fn opened(&self, kind: DestinationType) -> Postgres {
        let of = DestinationConfig {
            kind,
            model: self.model,
            config: &Value::Object(self.config.clone()),
            secrets: &self.secrets(),
            files_of: None,
        };
        Postgres::open(of, loopback(), self.limits).unwrap()
    }

    pub fn postgres(&self) -> Postgres {
        self.opened(DestinationType::Postgres)
    }

    /// Opens the same database as Redshift.
    pub async fn redshift(&self) -> Postgres {
        let functions = "CREATE OR REPLACE FUNCTION public.getdate() RETURNS timestamptz \
             LANGUAGE sql AS 'SELECT now()'; \
             CREATE OR REPLACE FUNCTION public.json_parse(text) RETURNS jsonb \
             LANGUAGE sql AS 'SELECT $1::jsonb'; \
             DO $$ BEGIN CREATE DOMAIN public.super AS jsonb; \
             EXCEPTION WHEN duplicate_object THEN END $$";
        self.execute(functions).await;
        self.opened(DestinationType::Redshift)
    }

    /// Opens the database as both kinds of server.
    pub async fn all(&self) -> [Box<dyn Destination>; 2] {
        [Box::new(self.postgres()), Box::new(self.redshift().await)]
    }

    /// Opens a second connection.
    pub async fn other(&self) -> Client {
        let (directory, name) = socket_and_database(self.database.url());
        connect(&directory, "postgres", &name).await.unwrap()
    }
}

/// Checks that an error has no secret in it.
pub fn clean(error: ExportError) -> ExportError {
    let shown = format!("{error:?} {error}");
    for secret in [USER, PASSWORD, WRONG_PASSWORD] {
        assert!(!shown.contains(secret), "{shown}");
    }
    error
}

/// Error of an operation that must not succeed.
pub fn refusal<T>(outcome: Result<T, ExportError>) -> ExportError {
    match outcome {
        Ok(_) => panic!("it succeeded"),
        Err(error) => clean(error),
    }
}

/// Directory of the server's socket, and name of the database.
fn socket_and_database(url: &str) -> (PathBuf, String) {
    let (_, location) = url.split_once('@').unwrap();
    let (directory, name) = location.split_once('/').unwrap();
    let directory = percent_decode_str(directory).decode_utf8().unwrap();
    (PathBuf::from(directory.into_owned()), name.to_owned())
}

async fn connect(
    directory: &PathBuf,
    user: &str,
    name: &str,
) -> Result<Client, tokio_postgres::Error> {
    let mut config = tokio_postgres::Config::new();
    config
        .host_path(directory)
        .user(user)
        .password(WRONG_PASSWORD)
        .dbname(name);
    let (client, connection) = config.connect(NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// Creates a role that needs its password, unlike the others of this cluster.
async fn make_role(directory: &PathBuf) {
    let admin = connect(directory, "postgres", "postgres").await.unwrap();
    let hba = admin.simple_query("SHOW hba_file").await.unwrap();
    let hba = hba.iter().find_map(|message| match message {
        tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    let hba = hba.unwrap();
    let rules = format!(
        "SET password_encryption = 'scram-sha-256'; \
         CREATE ROLE {USER} LOGIN PASSWORD '{PASSWORD}'; \
         COPY (VALUES ('local all {USER} scram-sha-256'), ('local all all trust')) TO '{hba}'; \
         SELECT pg_reload_conf()"
    );
    admin.batch_execute(&rules).await.unwrap();
    // The server reloads the file after a while.
    while connect(directory, USER, "postgres").await.is_ok() {
        tokio::task::yield_now().await;
    }
    let _ = TestPostgres::start();
}
