//! Liveness, readiness and metrics, on both listeners.

use crate::client::Client;
use crate::test_env::{TestEnv, batch};
use metrics_exporter_prometheus::PrometheusBuilder;
use millrace_ingest::{HealthServer, Readiness};
use serde_json::json;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn readiness_names_what_is_wrong_on_both_listeners() {
    let prometheus = PrometheusBuilder::new().install_recorder().unwrap();
    let env = TestEnv::start();
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let health = HealthServer::start(any, env.readiness.clone(), prometheus, None).unwrap();
    let mut clients = [env.client(), Client::connect(health.addr())];
    let broken = Arc::new(AtomicBool::new(false));
    let check = Arc::clone(&broken);
    env.readiness.require("log", move || {
        check
            .load(Ordering::Acquire)
            .then(|| "the disk is gone".to_owned())
    });
    for client in &mut clients {
        assert_eq!(client.request("GET", "/_health/live", &[], b"").status, 200);
        let ready = client.request("GET", "/_health/ready", &[], b"");
        assert_eq!(
            (ready.status, ready.json()),
            (200, json!({"status": "ready"}))
        );
    }
    broken.store(true, Ordering::Release);
    for client in &mut clients {
        let ready = client.request("GET", "/_health/ready", &[], b"");
        assert_eq!((ready.status, ready.code().as_str()), (503, "not_ready"));
        let problems = json!([{"name": "log", "detail": "the disk is gone"}]);
        assert_eq!(ready.json()["problems"], problems);
        assert_eq!(
            client.request("HEAD", "/_health/ready", &[], b"").status,
            503
        );
        assert_eq!(client.request("GET", "/_health/live", &[], b"").status, 200);
    }
    assert_eq!(clients[1].request("POST", "/metrics", &[], b"").status, 405);
    assert_eq!(clients[1].request("POST", "/nothing", &[], b"").status, 404);
    check_metrics(&env, &mut clients[1]);
}

#[test]
fn connections_without_an_end_keep_no_probe_out_and_are_bounded() {
    let readiness = Readiness::default();
    let recorder = PrometheusBuilder::new().build_recorder();
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let health = HealthServer::start(any, readiness, recorder.handle(), None).unwrap();
    let mut idle: Vec<TcpStream> = Vec::new();
    for _ in 0..200 {
        let mut stream = TcpStream::connect(health.addr()).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\n").unwrap();
        idle.push(stream);
        // Accepted one after the other.
        let mut probe = Client::connect(health.addr());
        let answer = probe.request("GET", "/_health/live", &[], b"");
        assert_eq!(answer.status, 200);
    }
    // The oldest ended when others came; the newest is waited for.
    for stream in &mut idle[..100] {
        assert_eq!(stream.read(&mut [0; 64]).unwrap_or(0), 0);
    }
    let newest = idle.last_mut().unwrap();
    newest.write_all(b"Host: a\r\n\r\n").unwrap();
    let mut answer = [0; 12];
    newest.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");
}

#[test]
fn a_scrape_is_answered_however_many_others_ask_right_after_it() {
    const SCRAPE: &[u8] = b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n";
    let recorder = PrometheusBuilder::new().build_recorder();
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let health = HealthServer::start(any, Readiness::default(), recorder.handle(), None).unwrap();
    let ask = || {
        let mut stream = TcpStream::connect(health.addr()).unwrap();
        stream.write_all(SCRAPE).unwrap();
        stream
    };
    // More than may be open at a time come after each, and more than pages are rendered.
    for _ in 0..20 {
        let mut scrape = ask();
        let others: Vec<TcpStream> = (0..100).map(|_| ask()).collect();
        let mut answer = [0; 12];
        scrape.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200");
        drop(others);
    }
}

/// Checks the metrics. In one test with the above, because a process has one recorder.
fn check_metrics(env: &TestEnv, health: &mut Client) {
    assert_eq!(env.post("/batch/", batch(&["a", "b"])).status, 200);
    let bad = format!(
        r#"{{"api_key":"{}","batch":[{{"distinct_id":"d"}},{{"event":"e","distinct_id":"d"}}]}}"#,
        crate::test_env::KEY
    );
    assert_eq!(env.post("/batch/", bad).status, 200);
    let answer = health.request("GET", "/metrics", &[], b"");
    assert!(
        answer
            .header("content-type")
            .unwrap()
            .starts_with("text/plain")
    );
    let text = String::from_utf8(answer.body).unwrap();
    for name in [
        "millrace_ingest_requests_total{path=\"/batch\",status=\"200\"}",
        "millrace_ingest_events_total{outcome=\"accepted\",code=\"\"}",
        "millrace_ingest_events_total{outcome=\"rejected\",code=\"missing_event\"}",
        "millrace_ingest_body_bytes_total",
        "millrace_ingest_stage_seconds",
        "millrace_ingest_connections",
        "millrace_ready 0",
    ] {
        assert!(text.contains(name), "{name} is not in\n{text}");
    }
}
