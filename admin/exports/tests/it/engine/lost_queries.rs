//! Tests of a customer's query that ends ClickHouse: its export tries it a few times and no more.

use super::test_env::{TestEnv, WINDOW, new_export};
use millrace_catalog::testing::{TestDatabase, on_both};
use millrace_catalog::{DestinationType, RunStatus};
use millrace_exports::engine::Notice;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use uuid::Uuid;

on_both!(a_query_that_ends_clickhouse_is_tried_three_times);

/// Text of the query that ends the server, and of no other statement.
const FATAL: &str = "fatal_4711";

/// Proxy to a ClickHouse that ends at a fatal query, and is there again at once.
struct FragileServer {
    url: String,
    /// Number of times that the server has ended.
    ended: Arc<AtomicU32>,
}

impl FragileServer {
    async fn start(env: Arc<TestEnv>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let ended = Arc::new(AtomicU32::new(0));
        let counter = Arc::clone(&ended);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(serve(client, Arc::clone(&env), Arc::clone(&counter)));
            }
        });
        Self { url, ended }
    }
}

/// Passes a connection on until its client sends the fatal query: then the server has another boot
/// id, and the connection ends without an answer.
async fn serve(client: TcpStream, env: Arc<TestEnv>, ended: Arc<AtomicU32>) {
    let address = env.settings.url.strip_prefix("http://").unwrap();
    let server = TcpStream::connect(address.trim_end_matches('/')).await;
    let (mut from_server, mut to_server) = server.unwrap().into_split();
    let (mut from_client, mut to_client) = client.into_split();
    let questions = async move {
        let (mut sent, mut piece) = (Vec::new(), vec![0; 65_536]);
        loop {
            let count = from_client.read(&mut piece).await.unwrap_or(0);
            sent.extend_from_slice(&piece[..count]);
            if String::from_utf8_lossy(&sent).contains(FATAL) {
                ended.fetch_add(1, Ordering::Relaxed);
                let restarting = tokio::task::spawn_blocking(move || env.forget_boot_ids());
                return restarting.await.unwrap();
            }
            if count == 0 || to_server.write_all(&piece[..count]).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        _ = tokio::io::copy(&mut from_server, &mut to_client) => {}
        () = questions => {}
    }
}

/// Creates an export whose query is the server's end, or an ordinary one.
async fn export(env: &TestEnv, query: &str) -> Uuid {
    let mut new = new_export(DestinationType::NoOp, &json!({}));
    new.hogql_query = Some(query.to_owned());
    env.make(new).await.id
}

async fn a_query_that_ends_clickhouse_is_tried_three_times(database: TestDatabase) {
    let env = Arc::new(TestEnv::open(&database).await);
    env.store(env.project_id, &[(1, 0, 0)]).await;
    let fatal = format!("SELECT uuid FROM events WHERE event != '{FATAL}'");
    let fatal = export(&env, &fatal).await;
    let ordinary = export(&env, "SELECT uuid FROM events").await;
    env.pass(WINDOW).await;
    let server = FragileServer::start(Arc::clone(&env)).await;
    let _process = env.start_through(&server.url);

    let runs = env.until_ended(fatal, 1).await;
    assert_eq!(runs[0].status, RunStatus::Failed, "{runs:?}");
    let error = runs[0].latest_error.clone().unwrap();
    assert!(error.contains("ClickHouse ended 3 times"), "{error}");
    assert_eq!(server.ended.load(Ordering::Relaxed), 3);
    let notices = env.until_notified().await;
    assert_eq!(notices, [(Notice::RunFailed, error)]);
    // Others have waited for the server, and complete.
    let runs = env.until_ended(ordinary, 1).await;
    assert_eq!(runs[0].status, RunStatus::Completed, "{runs:?}");

    // The next window's run has the same query.
    env.pass(2 * WINDOW).await;
    let runs = env.until_ended(fatal, 2).await;
    assert!(
        runs.iter().all(|run| run.status == RunStatus::Failed),
        "{runs:?}"
    );
    assert_eq!(server.ended.load(Ordering::Relaxed), 3);
    let runs = env.until_ended(ordinary, 2).await;
    assert!(
        runs.iter().all(|run| run.status == RunStatus::Completed),
        "{runs:?}"
    );
}
