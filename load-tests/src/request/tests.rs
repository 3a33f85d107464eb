//! Requests as servers read them.

use super::*;
use crate::api::{Api, Header};
use crate::event_id::EventId;
use crate::plan::Compression;
use serde_json::Value;
use std::collections::BTreeMap;

const AT: Duration = Duration::from_secs(1_795_216_860);

fn request(plan: &Plan) -> Request {
    Request::new(plan, &plan.check().unwrap(), 0xabcd, 7).unwrap()
}

/// Body of a request, after checking that its length is the announced one.
fn body(wire: &[u8]) -> &[u8] {
    let end = wire.windows(4).position(|w| w == b"\r\n\r\n").unwrap() + 4;
    let head = std::str::from_utf8(&wire[..end]).unwrap();
    let length = head.split("Content-Length: ").nth(1).unwrap();
    assert_eq!(length.trim(), (wire.len() - end).to_string(), "{head}");
    &wire[end..]
}

fn gunzip(body: &[u8]) -> Vec<u8> {
    let mut json = vec![0; 1 << 20];
    let mut decompressor = libdeflater::Decompressor::new();
    let length = decompressor.gzip_decompress(body, &mut json).unwrap();
    json.truncate(length);
    json
}

fn check_batch(json: &[u8], batch: u32, events: u32) {
    let value: Value = serde_json::from_slice(json).unwrap();
    assert_eq!(value["api_key"], "key");
    assert_eq!(value["sent_at"], "2026-11-20T23:21:00.000Z");
    let list = value["batch"].as_array().unwrap();
    assert_eq!(list.len() as u32, events);
    for (index, event) in (0..).zip(list) {
        check_event(event, batch, index);
    }
}

fn check_event(event: &Value, batch: u32, index: u32) {
    let uuid = event["uuid"].as_str().unwrap().parse().unwrap();
    let expected = EventId {
        run: 0xabcd,
        connection: 7,
        batch,
        index,
    };
    assert_eq!(EventId::from_uuid(uuid), Some(expected));
    let timestamp = event["timestamp"].as_str().unwrap();
    assert!(timestamp.starts_with("2026-11-20T23:21:00"), "{timestamp}");
}

#[test]
fn every_batch_carries_its_own_ids_and_time() {
    for (events, bytes) in [(1, 998), (250, 998), (1000, 136), (3, 100_000)] {
        let mut plan = Plan::new("http://h", "key");
        plan.batch_events = events;
        plan.event_bytes = bytes;
        let mut request = request(&plan);
        for batch in 0..3 {
            assert_eq!(request.prepare(AT).unwrap(), batch);
            check_batch(body(request.wire()), batch, events);
        }
    }
}

#[test]
fn events_of_a_list_and_single_ones_have_a_key_each() {
    for (api, events) in [(Api::List, 3), (Api::List, 1), (Api::Event, 1)] {
        let mut plan = Plan::new("http://h", "");
        plan.keys = Keys::new(["a", "longer"].map(str::to_owned).to_vec());
        plan.connections = 1;
        plan.api = api;
        plan.batch_events = events;
        let mut request = request(&plan);
        for (batch, key) in (0..).zip(["longer", "a", "longer"]) {
            request.prepare(AT).unwrap();
            let value: Value = serde_json::from_slice(body(request.wire())).unwrap();
            let list = match value {
                Value::Array(list) if api == Api::List => list,
                event => vec![event],
            };
            assert_eq!(list.len(), events as usize);
            for (index, event) in (0..).zip(&list) {
                check_event(event, batch, index);
                assert_eq!(event["api_key"], key);
                assert_eq!(event["properties"].as_object().unwrap().len(), 25);
            }
        }
    }
}

#[test]
fn placeholders_of_own_bodies_are_filled_before_each_sending() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("body.json");
    let event = "{\"uuid\":\"{{uuid}}\",\"timestamp\":\"{{time}}\"}";
    let text = format!(
        "{{\"api_key\":\"{{{{key}}}}\",\"batch\":[{event},{event}],\
         \"sent_at\":\"{{{{time}}}}\"}}"
    );
    std::fs::write(&path, text).unwrap();
    let mut plan = Plan::new("http://h", "");
    plan.keys = Keys::new(["key", "kex"].map(str::to_owned).to_vec());
    plan.connections = 1;
    plan.bodies = vec![OwnBody::read(&path).unwrap()];
    for compression in [Compression::None, Compression::Gzip] {
        plan.compression = compression;
        let mut request = request(&plan);
        for (batch, key) in (0..).zip(["kex", "key", "kex"]) {
            assert_eq!(request.prepare(AT).unwrap(), batch);
            assert_eq!(request.events(), 2);
            let mut json = body(request.wire()).to_vec();
            if compression == Compression::Gzip {
                json = gunzip(&json);
            }
            let value: Value = serde_json::from_slice(&json).unwrap();
            assert_eq!(value["api_key"], key);
            assert_eq!(value["sent_at"], "2026-11-20T23:21:00.000Z");
            let events = value["batch"].as_array().unwrap();
            for (index, event) in (0..).zip(events) {
                check_event(event, batch, index);
            }
        }
    }
}

#[test]
fn own_headers_replace_the_type_and_follow_the_host() {
    let mut plan = Plan::new("http://h", "key");
    for (headers, expected) in [
        (
            &[][..],
            "Host: h:80\r\nContent-Type: application/json\r\nContent-Length",
        ),
        (
            &["A: b", "Content-Type: text/csv"],
            "Host: h:80\r\na: b\r\ncontent-type: text/csv\r\nContent-Length",
        ),
    ] {
        let headers = headers.iter().map(|header| Header::parse(header).unwrap());
        plan.headers = headers.collect();
        let request = request(&plan);
        let text = String::from_utf8_lossy(request.wire());
        assert!(text.starts_with(&format!("POST /batch/ HTTP/1.1\r\n{expected}")));
    }
}

#[test]
fn sizes_are_mixed_by_their_weights_and_batches_count_on() {
    let mut plan = Plan::new("http://h", "key");
    plan.mix = ["1=6", "20xsmall=3", "100=1"]
        .map(|size| RequestSize::parse(size).unwrap())
        .to_vec();
    plan.connections = 8;
    let mut request = request(&plan);
    let mut taken = BTreeMap::new();
    for batch in 0..1000 {
        assert_eq!(request.prepare(AT).unwrap(), batch);
        let json = body(request.wire());
        check_batch(json, batch, request.events());
        let bytes = json.len() / request.events() as usize;
        assert!((bytes < 500) == (request.events() == 20), "{bytes}");
        *taken.entry(request.events()).or_insert(0) += 1;
    }
    for (events, share) in [(1, 600), (20, 300), (100, 100)] {
        let taken: i32 = taken[&events];
        assert!(taken.abs_diff(share) <= 20, "{taken} of {events}");
    }
}

#[test]
fn compressed_bodies_inflate_to_the_batch() {
    let mut plan = Plan::new("http://h", "key");
    for compression in [Compression::Gzip, Compression::Zstd] {
        plan.compression = compression;
        let mut request = request(&plan);
        for batch in 0..3 {
            request.prepare(AT).unwrap();
            let body = body(request.wire());
            let json = if compression == Compression::Zstd {
                zstd::decode_all(body).unwrap()
            } else {
                gunzip(body)
            };
            check_batch(&json, batch, plan.batch_events);
        }
    }
}

#[test]
fn connections_take_the_keys_in_turn_whatever_their_length() {
    for compression in [Compression::None, Compression::Gzip] {
        let mut plan = Plan::new("http://h", "");
        plan.keys = Keys::new(
            ["a", "middle", "the-longest-key"]
                .map(str::to_owned)
                .to_vec(),
        );
        plan.connections = 8;
        plan.compression = compression;
        let mut request = request(&plan);
        for key in ["middle", "a", "the-longest-key", "middle"] {
            request.prepare(AT).unwrap();
            let mut json = body(request.wire()).to_vec();
            if compression == Compression::Gzip {
                json = gunzip(&json);
            }
            let value: Value = serde_json::from_slice(&json).unwrap();
            assert_eq!(value["api_key"], key);
            assert_eq!(value["batch"].as_array().unwrap().len(), 250);
        }
    }
}

#[test]
fn the_rejected_share_has_one_event_without_a_person() {
    let mut plan = Plan::new("http://h", "key");
    plan.batch_events = 2;
    plan.historical_share = 0.5;
    plan.rejected_share = 0.25;
    let mut request = request(&plan);
    let mut rejected = [0, 0];
    for _ in 0..400 {
        request.prepare(AT).unwrap();
        let value: Value = serde_json::from_slice(body(request.wire())).unwrap();
        let is_bad = value["batch"][0]["distinct_id"].is_null();
        assert_eq!(is_bad, request.has_rejected());
        assert!(value["batch"][1]["distinct_id"].is_string());
        let historical = value["historical_migration"] == true;
        rejected[usize::from(historical)] += usize::from(is_bad);
    }
    assert!(
        rejected.iter().all(|count| (45..55).contains(count)),
        "{rejected:?}"
    );
}

#[test]
fn the_historical_share_is_spread_evenly_over_a_year() {
    let mut plan = Plan::new("http://h", "key");
    plan.batch_events = 1;
    plan.historical_share = 0.25;
    let mut request = request(&plan);
    let (mut historical, mut months) = (Vec::new(), std::collections::BTreeSet::new());
    for batch in 0..200 {
        request.prepare(AT).unwrap();
        let value: Value = serde_json::from_slice(body(request.wire())).unwrap();
        if value["historical_migration"] == true {
            historical.push(batch);
            let timestamp = value["batch"][0]["timestamp"].as_str().unwrap();
            months.insert(timestamp[..7].to_owned());
        }
    }
    assert_eq!(
        historical,
        (0..200).filter(|n| n % 4 == 3).collect::<Vec<_>>()
    );
    assert!(
        months.iter().all(|month| month.as_str() < "2026-11"),
        "{months:?}"
    );
    assert_eq!(months.len(), 3, "every fourth batch of twelve months");
}
