//! Live stream: what a viewer is shown of requests, from the socket to the message.

use crate::test_env::{KEY, OTHER_KEY, TestEnv, batch, event};
use millrace_ingest::live_endpoint::LiveEndpoint;
use millrace_live::{LiveFilter, LiveMessage, RemoteWatch, WatchRequest};
use millrace_pipeline::Ack;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::sync::mpsc::Receiver;
use tokio::time::timeout;

/// Time that a test waits for a message before it fails.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Viewer of the project of [`KEY`].
struct Viewer {
    runtime: Runtime,
    messages: Receiver<LiveMessage>,
}

impl Viewer {
    fn of(env: &TestEnv) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        let request = WatchRequest {
            project_id: env.project_id,
            filter: LiveFilter::default(),
            shows_ip: true,
            seen: None,
        };
        let messages = runtime.block_on(env.live.watch(request)).unwrap();
        Self { runtime, messages }
    }

    /// Waits for the next event, or the next note that events are stored.
    fn next(&mut self) -> Value {
        let Self { runtime, messages } = self;
        loop {
            let next = async { timeout(TEST_TIMEOUT, messages.recv()).await };
            match runtime.block_on(next).unwrap().unwrap() {
                LiveMessage::Event { json, .. } => return serde_json::from_str(&json).unwrap(),
                LiveMessage::Stored { ids } => return json!({ "stored": ids }),
                LiveMessage::Rate(_) => {}
            }
        }
    }

    /// Waits for the next events; returns name, fate and code of each.
    fn events<const N: usize>(&mut self) -> [(String, String, Value); N] {
        std::array::from_fn(|_| {
            let event = self.next();
            let text = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
            (text("event"), text("fate"), event["code"].clone())
        })
    }
}

fn logged(name: &str) -> (String, String, Value) {
    (name.to_owned(), "logged".to_owned(), Value::Null)
}

/// Batch with an accepted event and one that has no distinct id.
fn half_rejected(name: &str) -> String {
    let mut wrong = event("wrong");
    wrong.as_object_mut().unwrap().remove("distinct_id");
    json!({"api_key": KEY, "batch": [event(name), wrong]}).to_string()
}

#[test]
fn an_accepted_event_is_shown_as_logged_then_as_stored() {
    let env = TestEnv::start();
    let mut viewer = Viewer::of(&env);
    let mut sent = event("page");
    sent["properties"] = json!({"$lib": "web", "$lib_version": "1.2.3", "n": 1});
    let body = json!({"api_key": KEY, "batch": [sent]}).to_string();
    assert_eq!(env.post("/batch/", body).status, 200);
    let shown = viewer.next();
    for (field, expected) in [
        ("fate", json!("logged")),
        ("event", json!("page")),
        ("distinct_id", json!("d")),
        ("timestamp", json!("2026-11-20T14:37:59Z")),
        ("received_at", json!("2026-11-20T14:38:00Z")),
        ("lib", json!("web")),
        ("lib_version", json!("1.2.3")),
        ("key", json!("phc_...0000")),
        ("client_ip", json!("127.0.0.1")),
        ("code", Value::Null),
        ("warnings", json!([])),
    ] {
        assert_eq!(shown[field], expected, "{field}: {shown}");
    }
    assert_eq!(shown["properties"]["n"], 1);
    env.ship();
    assert_eq!(viewer.next(), json!({ "stored": [shown["id"]] }));
}

#[test]
fn a_rejected_event_is_shown_with_what_its_client_is_told() {
    let env = TestEnv::start();
    let mut viewer = Viewer::of(&env);
    let answer = env.post("/batch/", half_rejected("right"));
    let answer: Value = serde_json::from_slice(&answer.body).unwrap();
    let told = &answer["rejected"][0];
    assert_eq!(viewer.next()["event"], "right");
    let shown = viewer.next();
    assert_eq!(
        (&shown["fate"], &shown["event"]),
        (&json!("rejected"), &json!("wrong"))
    );
    for field in ["code", "attr", "detail"] {
        assert!(told[field].is_string(), "{answer}");
        assert_eq!(shown[field], told[field], "{shown}");
    }
}

#[test]
fn warnings_are_shown_with_their_event() {
    let env = TestEnv::start();
    let mut viewer = Viewer::of(&env);
    let mut late = event("late");
    late["timestamp"] = json!("2030-01-01T00:00:00Z");
    let body = json!({"api_key": KEY, "batch": [event("a"), late]}).to_string();
    assert_eq!(env.post("/batch/", body).status, 200);
    assert_eq!(viewer.next()["warnings"], json!([]));
    assert_eq!(viewer.next()["warnings"], json!(["future_timestamp"]));
}

#[test]
fn only_events_that_are_accepted_or_rejected_are_shown() {
    let env = TestEnv::start();
    let mut viewer = Viewer::of(&env);
    let of_other = json!({"api_key": OTHER_KEY, "batch": [event("other")]}).to_string();
    assert_eq!(env.post("/batch/", of_other).status, 200);
    let dry = env.post("/batch/?dry_run=true", half_rejected("dry"));
    assert_eq!(dry.status, 200);
    let strict = env.post("/batch/?strict=true", half_rejected("strict"));
    assert_eq!(strict.status, 400);
    let [(name, fate, _)] = viewer.events::<1>();
    assert_eq!((&*name, &*fate), ("wrong", "rejected"));
    let mut named = event("named");
    named["uuid"] = json!("0191f99b-b499-70c4-9505-90a47f19f05a");
    let resent = json!({"api_key": KEY, "batch": [named]}).to_string();
    for _ in 0..2 {
        assert_eq!(env.post("/batch/", &resent).status, 200);
    }
    assert_eq!(env.post("/batch/", batch(&["last"])).status, 200);
    assert_eq!(viewer.events::<2>(), [logged("named"), logged("last")]);
}

#[test]
fn events_are_shown_as_logged_whenever_their_client_is_answered() {
    for ack in [Ack::Disk, Ack::Memory, Ack::ClickHouse] {
        let env = TestEnv::with(|options| options.pipeline.ack = ack);
        let mut viewer = Viewer::of(&env);
        let mut client = env.client();
        let body = batch(&["a", "b"]);
        client.send(&crate::client::request(
            "POST",
            "/batch/",
            &[],
            body.as_bytes(),
        ));
        assert_eq!(viewer.events::<2>(), [logged("a"), logged("b")], "{ack:?}");
        env.ship();
        assert_eq!(client.read().status, 200);
    }
}

#[test]
fn events_of_large_bodies_are_shown_too() {
    let env = TestEnv::start();
    let mut viewer = Viewer::of(&env);
    let mut large = event("large");
    large["properties"] = json!({"long": "x".repeat(600 << 10)});
    let body = json!({"api_key": KEY, "batch": [large]}).to_string();
    assert_eq!(env.post("/batch/", body).status, 200);
    let shown = viewer.next();
    assert_eq!(
        (&shown["event"], &shown["properties"]),
        (&json!("large"), &Value::Null)
    );
    assert!(shown["bytes"].as_u64().unwrap() > 600 << 10, "{shown}");
}

/// Sends a request to an endpoint; returns the lines of the answer.
fn ask(addr: SocketAddr, path: &str, token: &str, body: &[u8]) -> BufReader<TcpStream> {
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    let bytes = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {token}\r\n\
         Content-Length: {bytes}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body).unwrap();
    BufReader::new(stream)
}

#[test]
fn an_endpoint_shows_events_to_whoever_has_its_token() {
    let env = TestEnv::start();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let started = LiveEndpoint::start(any, "token".to_owned(), env.live.clone());
    let endpoint = runtime.block_on(started).unwrap();
    let watch = RemoteWatch::from(WatchRequest {
        project_id: env.project_id,
        filter: LiveFilter::default(),
        shows_ip: false,
        seen: None,
    });
    let watch = serde_json::to_vec(&watch).unwrap();
    for (path, token, body, status) in [
        ("/", "token", &watch[..], "404"),
        ("/live", "", &watch[..], "401"),
        ("/live", "toke", &watch[..], "401"),
        ("/live", "tokem", &watch[..], "401"),
        ("/live", "token", &b"{}"[..], "400"),
        ("/live", "token", &[b' '; 70 << 10][..], "413"),
    ] {
        let mut answer = String::new();
        let mut lines = ask(endpoint.addr(), path, token, body);
        lines.read_line(&mut answer).unwrap();
        assert!(answer.contains(status), "{path} {token}: {answer}");
        let _ = lines.read_to_string(&mut answer);
        assert!(!answer.contains("event"), "{answer}");
    }
    let mut lines = ask(endpoint.addr(), "/live", "token", &watch);
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    assert!(line.contains("200"), "{line}");
    assert_eq!(env.post("/batch/", batch(&["page"])).status, 200);
    let shown = loop {
        line.clear();
        assert!(lines.read_line(&mut line).unwrap() > 0, "the stream ended");
        if let Ok(LiveMessage::Event { json, .. }) = serde_json::from_str(&line) {
            break serde_json::from_str::<Value>(&json).unwrap();
        }
    };
    assert_eq!(shown["event"], "page");
    assert!(shown.get("client_ip").is_none(), "{shown}");
}
