//! Section 2: limits.

use crate::client::request;
use crate::encodings::gzip;
use crate::stand::{KEY, Stand, batch, event};
use serde_json::json;
use std::io::Write;

#[test]
fn a_body_over_the_limit_is_413_and_the_answer_arrives() {
    let stand = Stand::with(|options| options.server.limits.body_bytes_max = 100_000);
    // All of it is sent before anything is read, as most clients do.
    let body = vec![b' '; 8 << 20];
    let mut client = stand.client();
    let answer = client.post("/batch/", &[], &body);
    assert_eq!(
        (answer.status, answer.code().as_str()),
        (413, "payload_too_large")
    );
    assert_eq!(answer.header("connection"), Some("close"));
    assert!(client.is_closed());
    let mut client = stand.client();
    let mut chunked =
        b"POST /batch/ HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    for _ in 0..20 {
        chunked.extend_from_slice(b"2710\r\n");
        chunked.extend_from_slice(&[b' '; 10_000]);
        chunked.extend_from_slice(b"\r\n");
    }
    client.send(&chunked);
    assert_eq!(client.read().status, 413);
}

#[test]
fn a_declared_length_over_the_limit_is_refused_before_the_body() {
    let stand = Stand::start();
    let mut client = stand.client();
    client.send(b"POST /batch/ HTTP/1.1\r\nHost: t\r\nContent-Length: 20971521\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!(client.read().status, 413);
}

#[test]
fn a_body_at_the_limit_is_taken() {
    let stand = Stand::start();
    let mut body = batch(&["e"]).into_bytes();
    body.resize(20 << 20, b' ');
    assert_eq!(stand.post("/batch/", &body).status, 200);
    body.push(b' ');
    assert_eq!(stand.post("/batch/", &body).status, 413);
}

#[test]
fn bombs_are_413_in_every_encoding() {
    let stand = Stand::with(|options| options.server.limits.decoded_bytes_max = 256 << 10);
    let zeros = vec![b' '; 512 << 10];
    let brotli = {
        let mut writer = brotli::CompressorWriter::new(Vec::new(), 4096, 9, 22);
        writer.write_all(&zeros).unwrap();
        writer.into_inner()
    };
    let lz64 = lz_str::compress_to_base64(std::str::from_utf8(&zeros).unwrap()).into_bytes();
    let mut client = stand.client();
    let table = [
        ("gzip", gzip(&zeros)),
        ("br", brotli),
        ("zstd", zstd::encode_all(&zeros[..], 3).unwrap()),
        ("lz64", lz64),
    ];
    for (encoding, body) in table {
        let answer = client.post("/e/", &[("Content-Encoding", encoding)], &body);
        let got = (answer.status, answer.code());
        assert_eq!(got, (413, "payload_too_large".to_owned()), "{encoding}");
    }
    assert_eq!(
        client.post("/e/", &[], batch(&["after"]).as_bytes()).status,
        200
    );
}

#[test]
fn nesting_over_128_is_refused_however_long_it_goes_on() {
    let stand = Stand::start();
    let nested = |depth: usize| {
        // Five are open around it: batch object, batch, event, properties, and its own.
        let inner = format!("{}{}", "[".repeat(depth - 4), "]".repeat(depth - 4));
        let event = format!(r#"{{"event":"e","distinct_id":"d","properties":{{"a":{inner}}}}}"#);
        format!(r#"{{"api_key":"{KEY}","batch":[{event}]}}"#)
    };
    assert_eq!(stand.post("/batch/", nested(128)).status, 200);
    for body in [nested(129), "[".repeat(1 << 20)] {
        let answer = stand.post("/batch/", &body);
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (400, "json_too_deep")
        );
    }
}

#[test]
fn an_event_over_1_mib_is_rejected_alone() {
    let stand = Stand::start();
    let mut large = event("large");
    large["properties"]["text"] = "x".repeat(1 << 20).into();
    let body = json!({"api_key": KEY, "batch": [event("small"), large]}).to_string();
    let json = stand.post("/batch/", body).json();
    assert_eq!(json["rejected"][0]["code"], "event_too_large");
    assert_eq!(stand.rows().names(), ["small"]);
}

#[test]
fn events_over_50_000_are_413() {
    let stand = Stand::start();
    let one = r#"{"event":"e","distinct_id":"d"},"#;
    let body = |count: usize| {
        let events = one.repeat(count);
        format!(
            r#"{{"api_key":"{KEY}","batch":[{}]}}"#,
            events.trim_end_matches(',')
        )
    };
    let answer = stand.post("/batch/", body(50_001));
    assert_eq!(
        (answer.status, answer.code().as_str()),
        (413, "too_many_events")
    );
    assert_eq!(stand.post("/batch/", body(50_000)).status, 200);
    assert_eq!(stand.rows().events.len(), 50_000);
}

#[test]
fn a_head_over_64_kib_or_100_fields_is_431() {
    let stand = Stand::start();
    let long = "x".repeat(64 << 10);
    let answer = stand
        .client()
        .post("/batch/", &[("X-Long", &long)], batch(&["e"]).as_bytes());
    assert_eq!(
        (answer.status, answer.code().as_str()),
        (431, "headers_too_large")
    );
    let many = vec![("X-Many", "y"); 150];
    let answer = stand
        .client()
        .post("/batch/", &many, batch(&["e"]).as_bytes());
    assert_eq!(
        (answer.status, answer.code().as_str()),
        (431, "headers_too_large")
    );
    let huge = "x".repeat(1 << 20);
    let mut client = stand.client();
    client.send(&request("GET", "/", &[("X-Huge", &huge)], b""));
    assert_eq!(client.read().code(), "headers_too_large");
}

#[test]
fn bodies_over_the_process_budget_are_503_with_retry_after() {
    let stand = Stand::with(|options| options.server.limits.in_flight_bytes_max = 1 << 20);
    let mut body = batch(&["e"]).into_bytes();
    body.resize(2 << 20, b' ');
    let answer = stand.post("/batch/", &body);
    assert_eq!((answer.status, answer.code().as_str()), (503, "overloaded"));
    assert!(answer.header("retry-after").is_some());
    assert_eq!(stand.post("/batch/", batch(&["e"])).status, 200);
}

#[test]
fn connections_over_the_limit_are_told_503() {
    let stand = Stand::with(|options| options.server.limits.connections_per_address_max = 2);
    let body = batch(&["e"]);
    let mut open = [stand.client(), stand.client()];
    for client in &mut open {
        assert_eq!(client.post("/batch/", &[], body.as_bytes()).status, 200);
    }
    let answer = stand.client().read();
    assert_eq!(
        (answer.status, answer.code().as_str()),
        (503, "too_many_connections")
    );
    assert!(answer.header("retry-after").is_some());
}

#[test]
fn a_full_log_is_503_and_nothing_is_lost_or_half_stored() {
    let stand = Stand::with(|options| {
        options.pipeline.log_bytes_max = 1 << 20;
        options.pipeline.segment_bytes = 256 << 10;
    });
    let mut random = 1_u64;
    let mut acknowledged = 0;
    let refused = loop {
        let text: String = (0..40_000)
            .map(|_| {
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                char::from(b'a' + (random >> 33) as u8 % 26)
            })
            .collect();
        let mut large = event("large");
        large["properties"]["text"] = text.into();
        let answer = stand.post(
            "/batch/",
            json!({"api_key": KEY, "batch": [large]}).to_string(),
        );
        if answer.status != 200 {
            break answer;
        }
        acknowledged += 1;
        assert!(acknowledged < 1_000, "the log never fills");
    };
    assert_eq!((refused.status, refused.code().as_str()), (503, "log_full"));
    assert_eq!(refused.json()["type"], "server_error");
    assert!(refused.header("retry-after").is_some());
    assert_eq!(stand.rows().events.len(), acknowledged);
}
