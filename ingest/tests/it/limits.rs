//! Section 2: limits.

use crate::client::request;
use crate::encodings::{deflate, gzip, lz64};
use crate::test_env::{KEY, TestEnv, batch, event};
use millrace_rows::Lane;
use serde_json::json;
use std::io::Write;

#[test]
fn a_body_over_the_limit_is_413_and_the_answer_arrives() {
    let env = TestEnv::with(|options| options.server.limits.body_bytes_max = 100_000);
    // All of it is sent before anything is read, as most clients do.
    let body = vec![b' '; 8 << 20];
    let mut client = env.client();
    let answer = client.post("/batch/", &[], &body);
    assert_eq!(
        (answer.status, answer.code().as_str()),
        (413, "payload_too_large")
    );
    assert_eq!(answer.header("connection"), Some("close"));
    assert!(client.is_closed());
    let mut client = env.client();
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
    let env = TestEnv::start();
    let mut client = env.client();
    client.send(b"POST /batch/ HTTP/1.1\r\nHost: t\r\nContent-Length: 20971521\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!(client.read().status, 413);
}

#[test]
fn a_body_at_the_limit_is_accepted() {
    let env = TestEnv::start();
    let mut body = batch(&["e"]).into_bytes();
    body.resize(20 << 20, b' ');
    assert_eq!(env.post("/batch/", &body).status, 200);
    body.push(b' ');
    assert_eq!(env.post("/batch/", &body).status, 413);
}

/// Returns hexadecimal digits that hardly compress.
fn noise(digits: usize) -> String {
    let mut state = 1_u64;
    let mut digit = || {
        // Knuth's constants for a generator of 64 bits.
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        char::from(b"0123456789abcdef"[(state >> 60) as usize])
    };
    (0..digits).map(|_| digit()).collect()
}

#[test]
fn a_bomb_in_any_encoding_is_413_and_names_the_limit_that_it_passes() {
    const LIMIT_BYTES: usize = 8 << 20;
    let env = TestEnv::with(|options| options.server.limits.decoded_bytes_max = LIMIT_BYTES);
    let with_key = |key: &str| {
        let mut text = format!(r#"{{"api_key":"{key}","batch":["#).into_bytes();
        text.resize(LIMIT_BYTES + 1, b' ');
        text
    };
    let brotli = |plain: &[u8]| {
        let mut writer = brotli::CompressorWriter::new(Vec::new(), 4096, 9, 22);
        writer.write_all(plain).unwrap();
        writer.into_inner()
    };
    let zstd = |plain: &[u8]| zstd::encode_all(plain, 3).unwrap();
    type Encode<'a> = (&'a str, &'a dyn Fn(&[u8]) -> Vec<u8>);
    let (bare, headed) = (
        |plain: &[u8]| deflate(plain, false),
        |plain: &[u8]| deflate(plain, true),
    );
    let encodings: [Encode<'_>; 5] = [
        ("gzip", &gzip),
        ("deflate", &bare),
        ("deflate", &headed),
        ("br", &brotli),
        ("zstd", &zstd),
    ];
    let mut client = env.client();
    for (encoding, encode) in encodings {
        // Behind so much that does not compress, the limit of all is the one that is passed.
        let long = [with_key(KEY), noise(300_000).into_bytes()].concat();
        let table = [
            (with_key(KEY), "body_too_complex"),
            (with_key("phc_nobodys"), "body_too_complex"),
            (vec![b' '; LIMIT_BYTES], "body_too_complex"),
            (long, "payload_too_large"),
        ];
        for (plain, code) in table {
            let body = encode(&plain);
            let answer = client.post("/e/", &[("Content-Encoding", encoding)], &body);
            let got = (answer.status, answer.code());
            let bytes = body.len();
            assert_eq!(got, (413, code.to_owned()), "{encoding}, {bytes} bytes");
        }
    }
    assert_eq!(
        client.post("/e/", &[], batch(&["after"]).as_bytes()).status,
        200
    );
}

/// LZ64 has a third of the limit, as its decoder takes three times as long for a byte as others.
#[test]
fn lz64_may_decode_to_no_more_than_brotli() {
    const LIMIT_BYTES: usize = 2 << 20;
    let env = TestEnv::with(|options| options.server.limits.decoded_bytes_max = LIMIT_BYTES);
    let with_key = |key: &str, text: &str| format!(r#"{{"api_key":"{key}","batch":[{text}"#);
    // The one is repeated in hundreds of times what is sent, the other in some fifty times.
    let (digits, lines) = (
        |bytes: usize| "0123456789".repeat(bytes / 10),
        |bytes: usize| noise(2_000).repeat(bytes / 2_000),
    );
    let table = [
        (digits(512 << 10), "body_too_complex"),
        (
            with_key("phc_nobodys", &digits(64 << 10)),
            "body_too_complex",
        ),
        (with_key(KEY, &digits(1_100 << 10)), "body_too_complex"),
        (
            with_key(KEY, &lines(LIMIT_BYTES + 4_000)),
            "payload_too_large",
        ),
        (with_key(KEY, &digits(1_000 << 10)), "invalid_json"),
    ];
    let mut client = env.client();
    for (plain, code) in table {
        let body = lz64(plain.as_bytes());
        let answer = client.post("/e/", &[("Content-Encoding", "lz64")], &body);
        let status = if code == "invalid_json" { 400 } else { 413 };
        let (sent, bytes) = (body.len(), plain.len());
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (status, code),
            "{sent} bytes of {bytes}"
        );
    }
    // The same limit holds within a form.
    let data: String =
        form_urlencoded::byte_serialize(&lz64(digits(512 << 10).as_bytes())).collect();
    let answer = client.post(
        "/e/",
        &[("Content-Type", "application/x-www-form-urlencoded")],
        format!("compression=lz64&data={data}").as_bytes(),
    );
    assert_eq!(answer.status, 413);
}

#[test]
fn a_body_that_decodes_to_much_is_accepted_with_a_known_key() {
    let env = TestEnv::start();
    let one = r#"{"event":"e","distinct_id":"d"},"#;
    let noisy = json!({"event": "e", "properties": {"x": noise(4_000)}, "distinct_id": "d"});
    let events = |count: usize| format!("{}{noisy}", one.repeat(count - 1));
    let first = format!(r#"{{"api_key":"{KEY}","batch":[{}]}}"#, events(20_000));
    let last = format!(r#"{{"batch":[{}],"api_key":"{KEY}"}}"#, events(20_000));
    let nobodys = first.replace(KEY, "phc_nobodys");
    for (body, status) in [(first, 200), (last, 200), (nobodys, 413)] {
        let sent = gzip(body.as_bytes());
        let ratio = body.len() / sent.len();
        assert!((70..180).contains(&ratio), "{ratio}");
        let mut client = env.client();
        let answer = client.post("/batch/", &[("Content-Encoding", "gzip")], &sent);
        assert_eq!(answer.status, status, "{}", answer.code());
    }
    assert_eq!(env.rows().events.len(), 40_000);
}

/// Bodies above 512 KiB are parsed in the offload pool, and decoded there, too, if they are long as
/// sent.
#[test]
fn a_large_body_is_parsed_as_a_small_one_is() {
    let env = TestEnv::start();
    let padding = noise(6_000_000);
    let event = |number: usize| {
        let padding = &padding[number * 100_000..(number + 1) * 100_000];
        json!({"event": format!("e{number}"), "distinct_id": "d",
            "properties": {"padding": padding, "number": number}})
    };
    for count in [8, 60] {
        let batch: Vec<_> = (0..count).map(event).collect();
        let good = json!({"api_key": KEY, "batch": batch}).to_string();
        let nan = good.replacen("\"number\":1,", "\"number\":NaN,", 1);
        let broken = good.replacen("}]}", "}}}", 1);
        let unknown = good.replace(KEY, "phc_nobodys");
        let table = [
            (&good, 200, ""),
            (&nan, 200, ""),
            (&broken, 400, "invalid_json"),
            (&unknown, 401, "unknown_api_key"),
        ];
        for (body, status, code) in table {
            assert!(body.len() > count * 100_000);
            for sent in [body.as_bytes().to_vec(), gzip(body.as_bytes())] {
                let encoding = if sent.len() < body.len() { "gzip" } else { "" };
                let mut client = env.client();
                let answer = client.post("/batch/", &[("Content-Encoding", encoding)], &sent);
                assert_eq!(answer.status, status, "{code}");
                if status != 200 {
                    assert_eq!(answer.code(), code);
                }
            }
        }
    }
    assert_eq!(env.rows().events.len(), 4 * (8 + 60));
}

#[test]
fn a_body_with_more_than_100_000_repairs_is_413() {
    let env = TestEnv::start();
    let body = |count: usize, piece: &str| {
        let list = piece.repeat(count);
        format!(
            r#"{{"api_key":"{KEY}","batch":[{{"event":"e","distinct_id":"d","properties":{{"a":[{list}1]}}}}]}}"#
        )
    };
    for piece in ["NaN,", "-Infinity,"] {
        assert_eq!(env.post("/batch/", body(100_000, piece)).status, 200);
        let answer = env.post("/batch/", body(100_001, piece));
        let got = (answer.status, answer.code());
        assert_eq!(got, (413, "body_too_complex".to_owned()), "{piece}");
    }
    let halves = |count: usize| {
        let mut text = body(0, "").into_bytes();
        let at = text.len() - 6;
        let pair = b"\xed\xa0\xbc\xed\xbe\x89".repeat(count);
        text.splice(at..at, [b"\"", &pair[..], b"\","].concat());
        text
    };
    assert_eq!(env.post("/batch/", halves(100_000)).status, 200);
    let answer = env.post("/batch/", halves(100_001));
    assert_eq!(
        (answer.status, answer.code().as_str()),
        (413, "body_too_complex")
    );
}

#[test]
fn nesting_over_128_is_refused_however_long_it_goes_on() {
    let env = TestEnv::start();
    let nested = |depth: usize| {
        // Five are open around it: batch object, batch, event, properties, and its own.
        let inner = format!("{}{}", "[".repeat(depth - 4), "]".repeat(depth - 4));
        let event = format!(r#"{{"event":"e","distinct_id":"d","properties":{{"a":{inner}}}}}"#);
        format!(r#"{{"api_key":"{KEY}","batch":[{event}]}}"#)
    };
    assert_eq!(env.post("/batch/", nested(128)).status, 200);
    for body in [nested(129), "[".repeat(1 << 20)] {
        let answer = env.post("/batch/", &body);
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (400, "json_too_deep")
        );
    }
}

#[test]
fn an_event_over_1_mib_is_rejected_alone() {
    let env = TestEnv::start();
    let mut large = event("large");
    large["properties"]["text"] = "x".repeat(1 << 20).into();
    let body = json!({"api_key": KEY, "batch": [event("small"), large]}).to_string();
    let json = env.post("/batch/", body).json();
    assert_eq!(json["rejected"][0]["code"], "event_too_large");
    let detail = json["rejected"][0]["detail"].to_string();
    assert!(detail.contains("1048576 bytes"), "{detail}");
    assert_eq!(env.rows().names(), ["small"]);
}

#[test]
fn events_over_50_000_are_413() {
    let env = TestEnv::start();
    let one = r#"{"event":"e","distinct_id":"d"},"#;
    let body = |count: usize| {
        let events = one.repeat(count);
        format!(
            r#"{{"api_key":"{KEY}","batch":[{}]}}"#,
            events.trim_end_matches(',')
        )
    };
    let answer = env.post("/batch/", body(50_001));
    assert_eq!(
        (answer.status, answer.code().as_str()),
        (413, "too_many_events")
    );
    assert_eq!(env.post("/batch/", body(50_000)).status, 200);
    assert_eq!(env.rows().events.len(), 50_000);
}

#[test]
fn a_head_over_64_kib_or_100_fields_is_431() {
    let env = TestEnv::start();
    let long = "x".repeat(64 << 10);
    let answer = env
        .client()
        .post("/batch/", &[("X-Long", &long)], batch(&["e"]).as_bytes());
    assert_eq!(
        (answer.status, answer.code().as_str()),
        (431, "headers_too_large")
    );
    let many = vec![("X-Many", "y"); 150];
    let answer = env
        .client()
        .post("/batch/", &many, batch(&["e"]).as_bytes());
    assert_eq!(
        (answer.status, answer.code().as_str()),
        (431, "headers_too_large")
    );
    let huge = "x".repeat(1 << 20);
    let mut client = env.client();
    client.send(&request("GET", "/", &[("X-Huge", &huge)], b""));
    assert_eq!(client.read().code(), "headers_too_large");
}

#[test]
fn bodies_over_the_process_budget_are_503_with_retry_after() {
    let env = TestEnv::with(|options| options.server.limits.in_flight_bytes_max = 1 << 20);
    let mut body = batch(&["e"]).into_bytes();
    body.resize(2 << 20, b' ');
    let answer = env.post("/batch/", &body);
    assert_eq!((answer.status, answer.code().as_str()), (503, "overloaded"));
    assert!(answer.header("retry-after").is_some());
    assert_eq!(env.post("/batch/", batch(&["e"])).status, 200);
}

#[test]
fn rows_that_no_insert_can_hold_are_413_and_leave_neither_rows_nor_reserved_bytes() {
    let env = TestEnv::with(|options| {
        options.pipeline.insert_bytes_max = 100_000;
        options.pipeline.queue_bytes_max = 1 << 20;
        options.server.limits.in_flight_bytes_max = 4 << 20;
    });
    let of_events = |count: usize| {
        let mut large = event("large");
        large["properties"]["text"] = "x".repeat(40_000).into();
        json!({"api_key": KEY, "batch": vec![large; count]}).to_string()
    };
    let body = of_events(3);
    // Had each kept its bytes, the limits would be reached.
    for number in 0..50 {
        let answer = env.post("/batch/", &body);
        let got = (answer.status, answer.code());
        assert_eq!(got, (413, "batch_too_large".to_owned()), "{number}");
        assert_eq!(env.pipeline.queue_requests(Lane::Live), 0, "{number}");
    }
    let rows = env.rows();
    assert_eq!((rows.events.len(), rows.rejected.len()), (0, 0));
    assert_eq!(env.post("/batch/", of_events(2)).status, 200);
    assert_eq!(env.rows().events.len(), 2);
}

#[test]
fn a_body_of_nothing_but_white_space_is_empty_however_long_it_is() {
    let env = TestEnv::start();
    for bytes in [0, 1, 100, 3 << 20, 5 << 20] {
        let response = env.post("/batch/", vec![b' '; bytes]);
        let got = (response.status, response.code());
        assert_eq!(got, (400, "empty_body".to_owned()), "{bytes}");
    }
}

#[test]
fn connections_over_the_limit_get_a_503() {
    let env = TestEnv::with(|options| options.server.limits.connections_per_address_max = 2);
    let body = batch(&["e"]);
    let mut open = [env.client(), env.client()];
    for client in &mut open {
        assert_eq!(client.post("/batch/", &[], body.as_bytes()).status, 200);
    }
    let answer = env.client().read();
    assert_eq!(
        (answer.status, answer.code().as_str()),
        (503, "too_many_connections")
    );
    assert!(answer.header("retry-after").is_some());
}

#[test]
fn a_full_log_is_503_and_nothing_is_lost_or_half_stored() {
    let env = TestEnv::with(|options| {
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
        let answer = env.post(
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
    assert_eq!(env.rows().events.len(), acknowledged);
}
