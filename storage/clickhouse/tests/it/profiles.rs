//! Settings of the user's profile.
//!
//! The engine of the tests has no other profile, so a gateway adds the setting to each request.

use crate::fixture::Database;
use crate::stale_answers::{Question, read_request};
use millrace_clickhouse::{ClickHouse, Settings};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Settings of a gateway before another server; it adds `setting` to each request.
async fn with_profile(settings: &Settings, setting: &'static str) -> Settings {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = settings.url.strip_prefix("http://").unwrap();
    let server = server.trim_end_matches('/').to_owned();
    let mut settings = settings.clone();
    settings.url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(add(client, server.clone(), setting));
        }
    });
    settings
}

async fn add(mut client: TcpStream, server: String, setting: &str) {
    let Some(mut request) = read_request(&mut client).await else {
        return;
    };
    let at = request.windows(2).position(|it| it == b"/?").unwrap() + 2;
    drop(request.splice(at..at, format!("{setting}&").into_bytes()));
    let mut server = TcpStream::connect(server).await.unwrap();
    server.write_all(&request).await.unwrap();
    let mut answer = Vec::new();
    server.read_to_end(&mut answer).await.unwrap();
    client.write_all(&answer).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_that_decide_about_rows_are_answered_where_aggregates_of_nothing_are_null() {
    let database = Database::make("profiles").await;
    let settings = with_profile(&database.settings, "aggregate_functions_null_for_empty=1").await;
    let clickhouse = ClickHouse::new(&settings);
    for question in Question::ALL {
        let asked = question.ask(&clickhouse).await;
        asked.unwrap_or_else(|error| panic!("{question:?}: {error}"));
    }
}
