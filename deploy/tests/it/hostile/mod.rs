//! Hostile clients against the real binary, whose memory can be measured from outside.

mod blocks;
mod keys;
mod structure;

use crate::server::Server;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;
use tempfile::TempDir;

const MIB: usize = 1 << 20;
/// Timeout of every wait.
const TEST_TIMEOUT: Duration = Duration::from_secs(120);
/// Most memory that one body may take: the body, its decoded form, and the buffer that this grows
/// into.
const CEILING_BYTES: usize = 20 * MIB + 100 * MIB + 48 * MIB;

/// Starts `millrace ingest` with one worker and no ClickHouse.
fn ingest(dir: &TempDir) -> Server {
    Server::start_mode(
        "ingest",
        dir.path(),
        &[
            "--clickhouse-url",
            "http://127.0.0.1:9",
            "--workers",
            "1",
            "--trusted-proxies",
            "127.0.0.1",
            "--log-bytes-max",
            "256MiB",
        ],
    )
}

/// Memory of the process, in bytes: `VmRSS` for now, `VmHWM` for the peak.
fn memory(server: &Server, line: &str) -> usize {
    let path = format!("/proc/{}/status", server.pid().as_raw_nonzero());
    let text = std::fs::read_to_string(path).unwrap();
    let found = text.lines().find_map(|it| it.strip_prefix(line));
    let kib = found.unwrap().trim_matches([':', '\t', ' ', 'k', 'B']);
    kib.parse::<usize>().unwrap() << 10
}

fn connect(server: &Server) -> TcpStream {
    let url = server.credential("ingest_url");
    let stream = TcpStream::connect(url.strip_prefix("http://").unwrap()).unwrap();
    stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    stream
}

/// Posts a body and reads the status.
fn post(stream: &mut TcpStream, path: &str, headers: &str, body: &[u8]) -> u16 {
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: t\r\n{headers}Content-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    // A server that has rejected the request need not read the rest.
    let _ = stream.write_all(body);
    let mut answer = [0; 4096];
    let bytes = stream.read(&mut answer).unwrap();
    let text = std::str::from_utf8(&answer[..bytes]).unwrap();
    text[9..12].parse().unwrap()
}

fn batch(server: &Server) -> String {
    let key = server.credential("project_api_key");
    json!({"api_key": key, "batch": [{"event": "e", "distinct_id": "d"}]}).to_string()
}

fn gzip_bomb(bytes: u64) -> Vec<u8> {
    let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    std::io::copy(&mut std::io::repeat(b' ').take(bytes), &mut writer).unwrap();
    writer.finish().unwrap()
}

fn deflate_bomb(bytes: u64) -> Vec<u8> {
    let mut writer = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    std::io::copy(&mut std::io::repeat(b' ').take(bytes), &mut writer).unwrap();
    writer.finish().unwrap()
}

/// Zstandard bomb with a window of so many bits; 31 is 2 GiB.
fn zstd_bomb(bytes: u64, window_log: u32) -> Vec<u8> {
    let mut writer = zstd::Encoder::new(Vec::new(), 1).unwrap();
    writer.window_log(window_log).unwrap();
    writer.include_contentsize(false).unwrap();
    std::io::copy(&mut std::io::repeat(b' ').take(bytes), &mut writer).unwrap();
    writer.finish().unwrap()
}

fn brotli_bomb(bytes: u64) -> Vec<u8> {
    let mut writer = brotli::CompressorWriter::new(Vec::new(), 1 << 16, 5, 24);
    std::io::copy(&mut std::io::repeat(b' ').take(bytes), &mut writer).unwrap();
    writer.into_inner()
}

/// LZString's base64 of a space, two spaces, three spaces and so on, each phrase the one before it
/// and a space more: `phrases` of them hold half of their number's square. (Its compressor, which
/// would find the same, takes minutes.)
fn lz64_bomb(phrases: u32) -> Vec<u8> {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut bits = Vec::new();
    let mut put = |value: u32, width: u32| bits.extend((0..width).map(|bit| value >> bit & 1));
    // A new character of eight bits follows.
    put(0, 2);
    put(u32::from(b' '), 8);
    let (mut width, mut until_wider) = (3, 4);
    for phrase in 0..phrases {
        // The phrase that the decoder is about to make.
        put(4 + phrase, width);
        until_wider -= 1;
        if until_wider == 0 {
            until_wider = 1 << width;
            width += 1;
        }
    }
    put(2, width);
    let sextet = |bits: &[u32]| {
        let value = (0..6).fold(0, |value, at| {
            value << 1 | bits.get(at).copied().unwrap_or(0)
        });
        ALPHABET[value as usize]
    };
    bits.chunks(6).map(sextet).collect()
}

#[test]
fn the_lz64_bomb_decodes_to_its_declared_size() {
    let text = String::from_utf8(lz64_bomb(2_000)).unwrap();
    let plain = lz_str::decompress_from_base64(&text).unwrap();
    assert_eq!(plain.len(), 2_001 * 2_002 / 2);
    assert!(plain.iter().all(|unit| *unit == u16::from(b' ')));
}

/// Name of a bomb, its Content-Encoding headers, its body, and the expected status.
type Bomb = (&'static str, &'static [&'static str], Vec<u8>, u16);

fn bombs() -> [Bomb; 12] {
    let some = 250 * MIB as u64;
    let member = gzip_bomb(some);
    // 10 GB from 10 MB; the others are as small as their encodings make them.
    let large = member.repeat(40);
    let bytes = large.len();
    assert!((5 * MIB..15 * MIB).contains(&bytes), "{bytes}");
    let small = gzip_bomb(MIB as u64).repeat(10_000);
    let twice = {
        let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        writer.write_all(&large).unwrap();
        writer.finish().unwrap()
    };
    let wide = zstd_bomb(64 * MIB as u64, 31);
    [
        ("gzip", &["gzip"], large.clone(), 413),
        ("gzip in one piece", &["gzip"], member, 413),
        ("gzip in 10 000 pieces", &["gzip"], small, 413),
        ("gzip that nobody announced", &[], large, 413),
        ("deflate", &["deflate"], deflate_bomb(some), 413),
        ("zstd", &["zstd"], zstd_bomb(some, 20), 413),
        ("zstd with a window of 2 GiB", &["zstd"], wide, 400),
        ("br", &["br"], brotli_bomb(some), 413),
        ("lz64", &["lz64"], lz64_bomb(15_000), 413),
        ("gzip, twice", &["gzip, gzip"], twice.clone(), 415),
        (
            "gzip, in two headers",
            &["gzip", "gzip"],
            twice.clone(),
            415,
        ),
        // Exceeds the limit before the parser sees that it is no JSON.
        ("gzip in gzip", &["gzip"], twice, 413),
    ]
}

#[test]
fn bombs_of_every_encoding_are_rejected_within_the_memory_of_one_body() {
    for (what, encodings, body, status) in bombs() {
        // A process for each, as the allocator returns memory only after a while.
        let dir = TempDir::new().unwrap();
        let server = ingest(&dir);
        let mut stream = connect(&server);
        assert_eq!(post(&mut stream, "/e/", "", batch(&server).as_bytes()), 200);
        let before = memory(&server, "VmRSS");
        let header = |encoding: &&str| format!("Content-Encoding: {encoding}\r\n");
        let headers: String = encodings.iter().map(header).collect();
        let mut other = connect(&server);
        assert_eq!(post(&mut other, "/e/", &headers, &body), status, "{what}");
        let most = memory(&server, "VmHWM") - before;
        assert!(most < CEILING_BYTES, "{what}: {} MiB", most / MIB);
        let bytes = body.len();
        eprintln!("{what}: {bytes} bytes, at most {} MiB on top", most / MIB);
        assert_eq!(post(&mut stream, "/e/", "", batch(&server).as_bytes()), 200);
    }
}

#[test]
fn ten_thousand_idle_connections_are_cheap_and_delay_nobody() {
    // A few of 10 000 allowed connections are left for active clients.
    const IDLE: usize = 9_990;
    const MEMORY_BYTES_MAX: usize = 160 * MIB;
    let limit = getrlimit(Resource::Nofile);
    if limit.maximum.is_some_and(|most| most < IDLE as u64 + 200) {
        eprintln!(
            "NOT TESTED: a process may have only {:?} open files",
            limit.maximum
        );
        return;
    }
    // The server inherits the limit.
    let most = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, most).unwrap();
    let dir = TempDir::new().unwrap();
    let server = ingest(&dir);
    let body = batch(&server);
    let before = memory(&server, "VmRSS");
    let idle: Vec<_> = (0..IDLE)
        .map(|number| {
            let mut stream = connect(&server);
            // One in ten has sent a request before.
            if number % 10 == 0 {
                assert_eq!(
                    post(&mut stream, "/e/", "", body.as_bytes()),
                    200,
                    "{number}"
                );
            }
            stream
        })
        .collect();
    let mut good = connect(&server);
    for number in 0..200 {
        assert_eq!(post(&mut good, "/e/", "", body.as_bytes()), 200, "{number}");
    }
    let held = memory(&server, "VmRSS") - before;
    eprintln!("{IDLE} idle connections: {} MiB", held / MIB);
    assert!(held < MEMORY_BYTES_MAX, "{} MiB", held / MIB);
    drop(idle);
    assert_eq!(post(&mut good, "/e/", "", body.as_bytes()), 200);
}
