//! Settings of the user's profile.
//!
//! The engine of the tests has no other profile, so a gateway adds the setting to each request.

use crate::fixture::Database;
use crate::proxy::{answer_of, behind, read_request};
use crate::stale_answers::Question;
use millrace_clickhouse::{ClickHouse, Settings};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

/// Settings of a gateway before another server; it adds `setting` to each request.
async fn with_profile(settings: &Settings, setting: &'static str) -> Settings {
    behind(settings, move |client, server| add(client, server, setting)).await
}

async fn add(mut client: TcpStream, server: String, setting: &str) {
    let Some(mut request) = read_request(&mut client).await else {
        return;
    };
    let at = request.windows(2).position(|it| it == b"/?").unwrap() + 2;
    drop(request.splice(at..at, format!("{setting}&").into_bytes()));
    let answer = answer_of(server, &request).await;
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
