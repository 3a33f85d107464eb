//! Writes the seeds of the corpora: `cargo run -p millrace-fuzz --example seeds -- <dir>`.
//!
//! libFuzzer grew the corpora from them and from the bodies that SDKs send
//! (`ingest/fixtures/sdk`), and `cargo fuzz cmin` minimised them.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a tool that cannot go on must stop"
)]

use millrace_blocks::{Compressor, store_into};
use millrace_log::testing::MemoryFs;
use millrace_log::testing::bytes::encode_frame;
use millrace_log::{Log, LogOptions, Section, SectionHeader};
use millrace_sources::{Format, Input, Options, Position};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const BODIES: [&str; 12] = [
    r#"{"api_key":"k","batch":[{"event":"e","distinct_id":"d","timestamp":"2026-11-20T15:38:18.1Z","properties":{"a":1,"$set":{"b":"c"}}},{"event":" $pageview ","distinct_id":7,"uuid":"01a1f99b-b499-70c4-9505-90a47f19f05a"}],"sent_at":"2026-11-20T14:38:18Z"}"#,
    r#"[{"event":"e","token":"k","properties":{"distinct_id":"d","$ip":"1.2.3.4","$geoip_disable":true}},{"event":null},3,"x",[],{"event":"f","$distinct_id":"g","$token":"k","offset":5000}]"#,
    r#"{"event":"e","distinct_id":"d","api_key":"k","$set":{"a":1},"$set_once":{},"$unset":["x","y"],"$groups":{"c":"g"},"properties":{"x":[{"y":"}"},NaN,-Infinity,1e999]},"historical_migration":true}"#,
    r#"{"batch":[{"event":"\u0065","distinct_id":"\ud83d\ude00","timestamp":"2026-11-20T15:38:18.1\u005a","properties":{"\u0024set":{},"s":"\ud83d\n"}}],"historical_migration":true,"token":"k"}"#,
    r#"{"batch":[{"event":"e","distinct_id":"d","timestamp":"2030-01-01","properties":null}],"token":"k"}"#,
    r#"{"batch":[{"event":"e","distinct_id":"d","uuid":"{01a1f99bb49970c4950590a47f19f05a}","options":{"cookieless_mode":true,"disable_skew_correction":true},"session_id":"s","window_id":"w"}]}"#,
    r#"{"batch":1,"batch":[{"event":"e","event":"f","distinct_id":"d","properties":{"a":1},"properties":{"$ignore_sent_at":true}}],"token":"k","sentAt":"2026-11-20T14:38:18"}"#,
    r#"{"event":"e","distinct_id":"undefined","properties":{"token":"k","distinct_id":null,"$distinct_id":"x"},"timestamp":"2026-11-20 15:38:18,5+0530","uuid":"urn:uuid:01a1f99b-b499-70c4-9505-90a47f19f05a"}"#,
    r#" { "batch" : [ { "event" : "e" , "distinct_id" : 1.5e3 , "properties" : { } } , { } ] , "token" : "k" } "#,
    r#"{"batch":[[[[[[1]]]]]],"token":"k"}"#,
    r#"{"$distinct_id":"d","$token":"k","$set":{"a":1}}"#,
    r"[]",
];
const TIMES: [&str; 16] = [
    "2026-11-20",
    "2026-11-20T15:38",
    "2026-11-20 15:38:18",
    "2026-11-20t15:38:18.123456789z",
    "2026-11-20T15:38:18,5+05:30",
    "2026-11-20T15:38:18-0530",
    "2026-11-20T15:38+03",
    "20261120T153818Z",
    "20261120t153818.25+0100",
    "2016-12-31T23:59:60.5Z",
    "2000-02-29",
    "1900-02-29",
    "1969-12-31T23:30:00-01:00",
    "9999-12-31T23:59:59.999999-23:59",
    "1970-01-01T00:00:00Z",
    "2026-11-20T24:00:00",
];

fn main() {
    let dir = PathBuf::from(std::env::args().nth(1).unwrap());
    let write = |target: &str, name: String, bytes: &[u8]| {
        let dir = dir.join(target);
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join(name), bytes).unwrap();
    };
    for (number, body) in BODIES.iter().enumerate() {
        for choice in [0, 9, 18, 36, 64 + 4] {
            let bytes = [&[choice], body.as_bytes()].concat();
            write("parse", format!("seed-{number}-{choice}"), &bytes);
        }
    }
    for (number, time) in TIMES.iter().enumerate() {
        write("timestamp", format!("seed-{number}"), time.as_bytes());
    }
    for (number, bytes) in bodies().iter().enumerate() {
        write("body", format!("seed-{number}"), bytes);
    }
    for (number, frame) in frames().iter().enumerate() {
        for choice in [0, 1, 2, 5] {
            let bytes = [&[choice][..], frame].concat();
            write("frame", format!("seed-{number}-{choice}"), &bytes);
        }
    }
    for (nth, format) in Format::ALL.iter().enumerate() {
        for (options, raw) in [0, 0xd0].into_iter().zip(records(*format)) {
            let bytes = [&[options | nth as u8], raw.as_slice()].concat();
            write(
                "record",
                format!("seed-{}-{options}", format.name()),
                &bytes,
            );
        }
    }
    let (first, second) = segments();
    for share in [first.len() * 127 / (first.len() + second.len()) + 1, 127, 0] {
        for sealed in [0, 1] {
            let choice = (share << 1 | sealed) as u8;
            let bytes = [&[choice][..], &first, &second].concat();
            write("recovery", format!("seed-{share}-{sealed}"), &bytes);
        }
    }
}

/// Generates a file of two records and splits it by the format's framing.
fn records(format: Format) -> Vec<Vec<u8>> {
    let mut file = Vec::new();
    millrace_sources::testing::generate(format, 2, 1, &mut file).unwrap();
    let input = Input::Stream(Box::new(std::io::Cursor::new(file)));
    let mut framing = format
        .open(input, Position::default(), &Options::default())
        .unwrap();
    let mut records = Vec::new();
    while let Some(record) = framing.next().unwrap() {
        records.push(record.raw.to_vec());
    }
    records
}

/// A short body in each encoding, to be decoded alone and as a whole request.
fn bodies() -> Vec<Vec<u8>> {
    use base64::Engine;
    use std::io::Write;
    let plain = br#"{"api_key":"k","batch":[{"event":"e","distinct_id":"d","properties":{"a":"aaaaaaaaaaaaaaaa"}}]}"#;
    let level = flate2::Compression::best();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), level);
    gzip.write_all(plain).unwrap();
    let gzip = gzip.finish().unwrap();
    let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), level);
    zlib.write_all(plain).unwrap();
    let zlib = zlib.finish().unwrap();
    let bare = zlib[2..zlib.len() - 4].to_vec();
    let mut br = brotli::CompressorWriter::new(Vec::new(), 4096, 5, 22);
    br.write_all(plain).unwrap();
    let br = br.into_inner();
    let zst = zstd::bulk::compress(plain, 3).unwrap();
    let engine = base64::engine::general_purpose::STANDARD;
    let base64 = engine.encode(plain).into_bytes();
    let lz64 = lz_str::compress_to_base64(std::str::from_utf8(plain).unwrap()).into_bytes();
    let form = [b"x=1&data=", base64.as_slice()].concat();
    let form_lz = [b"compression=lz64&data=", lz64.as_slice()].concat();
    let form_gzip = format!("data={}", engine.encode(&gzip)).into_bytes();
    let alone = [
        (0, plain.to_vec()),
        (1, gzip.clone()),
        (1, [gzip.clone(), gzip.clone()].concat()),
        (2, zlib),
        (2, bare),
        (3, br),
        (4, zst.clone()),
        (4, [zst.clone(), zst].concat()),
        (5, base64),
        (6, lz64),
    ];
    let mut all = Vec::new();
    for (encoding, bytes) in alone {
        for choice in [0, 8] {
            all.push([&[choice, encoding], bytes.as_slice()].concat());
        }
    }
    for form in [form, form_lz, form_gzip] {
        all.push([&[16, 0], form.as_slice()].concat());
        all.push([&[16 + 64, 42], form.as_slice()].concat());
        all.push([&[32, 35], form.as_slice()].concat());
    }
    for encoding in 0..7 {
        all.push([&[15, encoding], plain.as_slice()].concat());
    }
    all
}

fn header(rows: u32) -> SectionHeader {
    SectionHeader {
        insert_target: "events(a,b)".to_owned(),
        month: 202_611,
        rows,
        uncompressed_bytes: 60,
        keys: vec![[rows as u8; 24]],
    }
}

fn blocks() -> [Vec<u8>; 2] {
    let rows = b"an event, an event, an event, an event, and another one";
    let (mut stored, mut compressed) = (Vec::new(), Vec::new());
    store_into(rows, &mut stored);
    Compressor::new().compress_into(rows, &mut compressed);
    [stored, compressed]
}

fn frames() -> Vec<Vec<u8>> {
    let [stored, compressed] = blocks();
    let (one, two) = (header(1), header(2));
    let (one, two) = (
        Section {
            header: &one,
            blocks: &stored,
        },
        Section {
            header: &two,
            blocks: &compressed,
        },
    );
    let frames = [&[one][..], &[two], &[one, two]];
    let mut all: Vec<_> = frames
        .iter()
        .map(|sections| encode_frame(sections, 7, 1).unwrap())
        .collect();
    all.push([stored.clone(), compressed.clone()].concat());
    all.push(compressed.clone());
    let header = header(1);
    let blocks = [stored, compressed].concat();
    let of_two = Section {
        header: &header,
        blocks: &blocks,
    };
    all.push(encode_frame(&[of_two], 7, 1).unwrap());
    all
}

fn segments() -> (Vec<u8>, Vec<u8>) {
    let fs = MemoryFs::new();
    let dir = Path::new("/log");
    let [stored, compressed] = blocks();
    for _ in 0..2 {
        let options = LogOptions {
            dir: dir.to_owned(),
            segment_bytes: 4096,
            bytes_max: 1 << 20,
        };
        let (mut log, _) = Log::open(options, Arc::new(fs.clone())).unwrap();
        let both = [&stored[..], &compressed].concat();
        for blocks in [&stored, &compressed, &both] {
            let header = header(3);
            log.append(&[Section {
                header: &header,
                blocks,
            }])
            .unwrap();
            log.sync().unwrap();
        }
        drop(log);
    }
    // Cut the preallocated zeros off each segment's end.
    let read = |number: u64| {
        let bytes = fs.read(&dir.join(format!("{number:020}.log"))).unwrap();
        let end = bytes
            .iter()
            .rposition(|byte| *byte != 0)
            .map_or(0, |at| at + 1);
        bytes[..end.next_multiple_of(8)].to_vec()
    };
    (read(1), read(2))
}
