//! Customer's database in ClickHouse, and a gateway before it.

use crate::dialler::{Loopback, loopback};
use millrace_catalog::{DestinationType, ExportModel};
use millrace_embedded::testing::shared;
use millrace_exports::ExportError;
use millrace_exports::destination::DestinationConfig;
use millrace_exports::destination::calls::RetryPolicy;
use millrace_exports::destination::clickhouse::ClickHouseTable;
use millrace_exports::destination::dialler::Dialler as _;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

pub struct Fixture {
    pub database: String,
    pub url: String,
    pub password: String,
    pub table: Option<&'static str>,
    pub model: ExportModel,
}

impl Fixture {
    /// Creates a database of this name.
    pub async fn new(database: &str) -> Self {
        let fixture = Self {
            database: database.to_owned(),
            url: shared().url.clone(),
            password: shared().password.clone(),
            table: None,
            model: ExportModel::Events,
        };
        fixture
            .execute(&format!("DROP DATABASE IF EXISTS {database}"))
            .await;
        fixture
            .execute(&format!("CREATE DATABASE {database}"))
            .await;
        fixture
    }

    /// Runs a statement, with `{db}` for the database, and returns its answer.
    pub async fn execute(&self, sql: &str) -> String {
        let engine = shared();
        let answer = Loopback
            .http_client()
            .unwrap()
            .post(&engine.url)
            .header("X-ClickHouse-User", &engine.user)
            .header("X-ClickHouse-Key", &engine.password)
            .body(sql.replace("{db}", &self.database))
            .send()
            .await
            .unwrap();
        let is_success = answer.status().is_success();
        let text = answer.text().await.unwrap();
        assert!(is_success, "{sql}: {text}");
        text.trim_end().to_owned()
    }

    pub fn opened(&self) -> Result<ClickHouseTable, ExportError> {
        let mut config = json!({ "url": self.url, "database": self.database });
        if let Some(table) = self.table {
            config["table_name"] = json!(table);
        }
        let secret = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let secrets = BTreeMap::from([
            secret("user", &shared().user),
            secret("password", &self.password),
        ]);
        self.open(&config, &secrets)
    }

    fn open(
        &self,
        config: &Value,
        secrets: &BTreeMap<String, String>,
    ) -> Result<ClickHouseTable, ExportError> {
        let of = DestinationConfig {
            kind: DestinationType::ClickHouse,
            model: self.model,
            config,
            secrets,
            files_of: None,
        };
        let retry_policy = RetryPolicy {
            delay_min: Duration::from_millis(20),
            delay_max: Duration::from_millis(200),
            ..RetryPolicy::default()
        };
        ClickHouseTable::open(of, loopback(), retry_policy)
    }

    /// Names of the tables of the database.
    pub async fn tables(&self) -> String {
        self.execute("SELECT arrayStringConcat(groupArray(name), ' ') FROM system.tables WHERE database = '{db}'")
            .await
    }
}

/// Starts a gateway that passes a request with this text on, once, and cuts the connection before
/// its answer. Returns its URL, and whether that has happened.
pub async fn cutting_after(text: &'static str) -> (String, Arc<AtomicBool>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let upstream = shared().url.strip_prefix("http://").unwrap().to_owned();
    let has_cut = Arc::new(AtomicBool::new(false));
    let shared_cut = Arc::clone(&has_cut);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let (upstream, has_cut) = (upstream.clone(), Arc::clone(&shared_cut));
            tokio::spawn(async move { pass(client, &upstream, text, &has_cut).await });
        }
    });
    (url, has_cut)
}

async fn pass(mut client: TcpStream, upstream: &str, text: &str, has_cut: &AtomicBool) {
    let Ok(mut server) = TcpStream::connect(upstream).await else {
        return;
    };
    let (mut request, mut answer) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    loop {
        tokio::select! {
            read = client.read(&mut request) => {
                let Ok(count @ 1..) = read else { return };
                if server.write_all(&request[..count]).await.is_err() {
                    return;
                }
                let sent = String::from_utf8_lossy(&request[..count]).into_owned();
                if sent.contains(text) && !has_cut.swap(true, Ordering::Relaxed) {
                    return;
                }
            }
            read = server.read(&mut answer) => {
                let Ok(count @ 1..) = read else { return };
                if client.write_all(&answer[..count]).await.is_err() {
                    return;
                }
            }
        }
    }
}
