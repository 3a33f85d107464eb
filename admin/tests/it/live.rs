//! Live streams of projects, over messages that are made up. Those of ingestion are tested with the
//! program.

use crate::Fixture;
use crate::fake_live::{ENDLESS, FULL, FakeLive};
use crate::test_server::TestServer;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use millrace_catalog::{Actor, Level};
use millrace_live::{Fate, LiveFilter};
use millrace_organizations::Sessions;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

on_both!(
    messages_are_sent_as_server_sent_events,
    filters_and_the_last_id_are_passed_on,
    only_administrators_see_addresses,
    a_stream_without_a_place_or_a_source_is_refused,
);
on_both!(
    threads: a_stream_ends_with_the_access_of_its_caller,
    a_stream_ends_with_the_session_of_its_viewer,
    streams_of_one_user_are_limited,
    a_stop_ends_streams,
);

const LIVE: &str = "/api/projects/@current/live/";
/// Time that a test waits before it fails.
const LONG: Duration = Duration::from_secs(30);

/// Creates a fixture with live streams; returns both.
async fn watched() -> (Fixture, Arc<FakeLive>) {
    let live = Arc::new(FakeLive::default());
    let source = Arc::clone(&live);
    let fixture = Fixture::with_services(|services| services.live = Some(source)).await;
    (fixture, live)
}

async fn messages_are_sent_as_server_sent_events() {
    let (fixture, _) = watched().await;
    let answer = fixture.get(LIVE).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    for (name, value) in [
        ("content-type", "text/event-stream"),
        ("cache-control", "no-store"),
        ("x-content-type-options", "nosniff"),
        ("x-accel-buffering", "no"),
        ("etag", ""),
    ] {
        assert_eq!(answer.header(name), value, "{name}");
    }
    let text = fixture.text(LIVE).await;
    let expected = "retry: 1000\n\n\
                    event: event\nid: 7-n1\ndata: {\"event\":\"page\"}\n\n\
                    event: rate\ndata: {";
    assert!(text.starts_with(expected), "{text}");
    assert!(text.ends_with("}\n\n"), "{text}");
}

async fn filters_and_the_last_id_are_passed_on() {
    let (fixture, live) = watched().await;
    let key = format!("Bearer {}", fixture.owner_key());
    let headers = [("authorization", key.as_str()), ("last-event-id", "7-n1")];
    let query = "event=page&distinct_id=ann&fate=stored&code=c&%24lib=web&property=plan%3Dpro";
    let path = format!("{LIVE}?{query}");
    let answer = fixture.request("GET", &path, &headers, b"").await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let asked = live.take_asked().remove(0);
    let text = |text: &str| Some(text.to_owned());
    let expected = LiveFilter {
        event: text("page"),
        distinct_id: text("ann"),
        fate: Some(Fate::Stored),
        code: text("c"),
        lib: text("web"),
        properties: vec![("plan".to_owned(), "pro".to_owned())],
    };
    assert_eq!(asked.filter, expected);
    assert_eq!(asked.project_id, fixture.made.project_id);
    assert_eq!(asked.seen.as_deref(), Some("7-n1"));
    for (query, attr) in [("fate=lost", "fate"), ("property=plan", "property")] {
        let answer = fixture.get(&format!("{LIVE}?{query}")).await;
        assert_eq!(
            answer.error(),
            (400, "invalid_input", Some(attr)),
            "{query}"
        );
    }
    assert!(live.take_asked().is_empty());
}

async fn only_administrators_see_addresses() {
    let (fixture, live) = watched().await;
    let key = fixture.member("mia@example.org", Level::Member).await;
    let administrator = fixture
        .member("ada@example.org", Level::Administrator)
        .await;
    for (key, shows_ip) in [(&key, false), (&administrator, true)] {
        let answer = fixture.send("GET", LIVE, Some(key)).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(live.take_asked().remove(0).shows_ip, shows_ip);
    }
}

async fn a_stream_without_a_place_or_a_source_is_refused() {
    let (fixture, _) = watched().await;
    let full = fixture.get(&format!("{LIVE}?event={FULL}")).await;
    assert_eq!(full.error(), (429, "throttled", None));
    assert_eq!(full.header("retry-after"), "5");
    let fixture = Fixture::with_services(|services| services.live = None).await;
    assert_eq!(fixture.get(LIVE).await.status, 503);
}

/// Begins a stream without an end over a connection of its own, which ends with the sender.
async fn begin(
    server: &TestServer,
    key: &str,
) -> (http1::SendRequest<Empty<Bytes>>, http::Response<Incoming>) {
    begin_with(server, ("authorization", &format!("Bearer {key}"))).await
}

/// Begins such a stream with the header of a credential.
async fn begin_with(
    server: &TestServer,
    (name, value): (&str, &str),
) -> (http1::SendRequest<Empty<Bytes>>, http::Response<Incoming>) {
    let stream = TcpStream::connect(server.address).await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = http::Request::get(format!("{LIVE}?event={ENDLESS}"))
        .header("host", "localhost")
        .header(name, value)
        .body(Empty::new())
        .unwrap();
    let response = sender.send_request(request).await.unwrap();
    (sender, response)
}

/// Reads a stream to its end.
async fn read(response: http::Response<Incoming>) -> String {
    let body = timeout(LONG, response.into_body().collect()).await;
    let body = body.expect("it has no end").unwrap().to_bytes();
    String::from_utf8(body.to_vec()).unwrap()
}

async fn a_stream_ends_with_the_access_of_its_caller() {
    let server = TestServer::start_unthrottled().await;
    let fixture = &server.fixture;
    let organization = fixture.made.organization_id;
    let member = fixture
        .member_of(organization, "mia@example.org", Level::Member)
        .await;
    let removed = fixture.key_of("mia@example.org", &["*"]).await;
    let staying = fixture.key(&["event:read"]).await;
    let (_sender, watching) = begin(&server, &removed).await;
    let (_other, mut others) = begin(&server, &staying).await;
    assert_eq!(watching.status(), 200);
    assert_eq!(others.status(), 200);
    let path = format!("/api/organizations/@current/members/{}/", member.uuid);
    let answer = fixture
        .send("DELETE", &path, Some(fixture.owner_key()))
        .await;
    assert_eq!(answer.status, 204, "{answer:?}");
    let since = Instant::now();
    let text = read(watching).await;
    assert!(text.contains("event: event"), "{text}");
    assert!(since.elapsed() < Duration::from_secs(10));
    // The others go on: they have frames, and no end.
    let goes_on = async { while others.frame().await.is_some() {} };
    let ended = timeout(Duration::from_secs(3), goes_on).await;
    assert!(ended.is_err(), "it ended");
    server.stop().await;
}

async fn a_stream_ends_with_the_session_of_its_viewer() {
    let server = TestServer::start_unthrottled().await;
    let fixture = &server.fixture;
    let sessions = Sessions::new(&fixture.catalog);
    let system = Actor::system();
    let link = sessions
        .create_link(&system, &fixture.made.owner_email)
        .await;
    let opened = sessions
        .sign_in(link.unwrap().token.expose(), "")
        .await
        .unwrap();
    let cookie = format!("millrace={}", opened.token.expose());
    let (_sender, watching) = begin_with(&server, ("cookie", &cookie)).await;
    assert_eq!(watching.status(), 200);
    let path = format!("/api/sessions/{}/", opened.record.id);
    let ended = fixture
        .send("DELETE", &path, Some(fixture.owner_key()))
        .await;
    assert_eq!(ended.status, 204, "{ended:?}");
    let since = Instant::now();
    read(watching).await;
    assert!(since.elapsed() < Duration::from_secs(10));
    server.stop().await;
}

async fn streams_of_one_user_are_limited() {
    let server = TestServer::start_unthrottled().await;
    let key = server.fixture.owner_key();
    let mut watching = Vec::new();
    for _ in 0..4 {
        let (sender, response) = begin(&server, key).await;
        assert_eq!(response.status(), 200);
        watching.push((sender, response));
    }
    let (_sender, refused) = begin(&server, key).await;
    assert_eq!(refused.status(), 429);
    let body = refused.into_body().collect().await.unwrap().to_bytes();
    let error: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(error["code"], "throttled");
    // Once clients have gone, there are places for others.
    watching.clear();
    let begun = Instant::now();
    while begin(&server, key).await.1.status() != 200 {
        assert!(begun.elapsed() < LONG, "the places are still taken");
    }
    server.stop().await;
}

async fn a_stop_ends_streams() {
    let server = TestServer::start_unthrottled().await;
    let (_sender, response) = begin(&server, server.fixture.owner_key()).await;
    let (text, ()) = tokio::join!(read(response), server.stop());
    assert!(text.contains("event: event"), "{text}");
}
