//! Small bodies that decode to much structure: their cost is bounded by the bytes sent, before the
//! key is known, and memory is released.

use super::{MIB, batch, connect, ingest, memory, post};
use crate::server::Server;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use rustix::net::sockopt::set_socket_recv_buffer_size;
use serde_json::json;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Bytes that every bomb decodes to.
const DECODED_BYTES: usize = 20 * MIB;
/// Most memory for all of them: less than forty times the 4 MiB that a known key may always decode
/// to, as one follows the other.
const MOST_BYTES: usize = 128 * MIB;
/// Additional memory for a bomb without a key: threads, and pages that the allocator touches.
const SLACK_BYTES: usize = 24 * MIB;
/// Time within which memory is released after large bodies on an idle machine (see
/// [`release_time_max`]), and the memory that may be kept.
const MEMORY_BACK: Duration = Duration::from_secs(5);
const MEMORY_KEPT_BYTES_MAX: usize = 64 * MIB;
/// Size of an LZString bomb: its compressor takes quadratic time, and this size is rejected as
/// well.
const LZ64_BYTES: usize = 64 << 10;
/// Bytes around a gzip member without a name.
const GZIP_HEAD_BYTES: usize = 10;
const GZIP_TAIL_BYTES: usize = 8;

/// Pieces that bombs repeat, and true for those inside an event.
const PIECES: [(&str, bool); 10] = [
    ("[", false),
    ("{\"\":", false),
    ("{},", true),
    ("[],", true),
    ("NaN,", true),
    ("1,", true),
    ("\"\",", true),
    ("{\"\":1},", true),
    ("\\\\", true),
    ("\u{1F389}", true),
];

/// Encoding of a bomb, its path, its headers, and its body.
type Bomb = (&'static str, &'static str, String, Vec<u8>);

/// Bombs of a text in every encoding and every place of the encoding in a request.
fn bombs(plain: &[u8], key: Option<&str>) -> Vec<Bomb> {
    let (gzip, brotli) = (gzip(&mut { plain }), brotli(&mut { plain }));
    let bare = gzip[GZIP_HEAD_BYTES..gzip.len() - GZIP_TAIL_BYTES].to_vec();
    let base64 = STANDARD.encode(&gzip);
    let lz64 = lz64(plain);
    let encoded = |encoding: &'static str, body: &[u8]| {
        let header = format!("Content-Encoding: {encoding}\r\n");
        (encoding, "/batch/", header, body.to_vec())
    };
    let form = |way, compression: &str, data: &str| {
        let body = format!("compression={compression}&data={}", escaped(data));
        let header = "Content-Type: application/x-www-form-urlencoded\r\n".to_owned();
        (way, "/batch/", header, body.into_bytes())
    };
    let parts = |way, encoding: &str, properties: &[u8]| {
        let header = "Content-Type: multipart/form-data; boundary=b\r\n".to_owned();
        let body = parts(encoding, key.unwrap_or("phc_nobodys"), properties);
        (way, "/i/v0/ai", header, body)
    };
    vec![
        encoded("br", &brotli),
        encoded("gzip", &gzip),
        encoded("deflate", &bare),
        encoded("zstd", &zstd(&mut { plain })),
        encoded("base64", base64.as_bytes()),
        encoded("lz64", lz64.as_bytes()),
        form("form of gzip", "gzip-js", &base64),
        form("form of lz64", "lz64", &lz64),
        parts("parts of br", "br", &brotli),
        parts("parts of gzip", "gzip", &gzip),
    ]
}

/// Base64 escaped as the value of a form field.
fn escaped(base64: &str) -> String {
    base64.replace('+', "%2B")
}

/// Event as a multipart body, with these properties.
fn parts(encoding: &str, key: &str, properties: &[u8]) -> Vec<u8> {
    let named = |name: &str| format!("--b\r\nContent-Disposition: form-data; name=\"{name}\"\r\n");
    let event = json!({"event": "a", "distinct_id": "b", "api_key": key});
    let before = format!(
        "{}\r\n{event}\r\n{}Content-Type: application/json\r\nContent-Encoding: {encoding}\r\n\r\n",
        named("event"),
        named("event.properties"),
    );
    [before.as_bytes(), properties, b"\r\n--b--\r\n"].concat()
}

/// Beginning of a text, as LZString's base64.
fn lz64(plain: &[u8]) -> String {
    let beginning = &plain[..plain.len().min(LZ64_BYTES)];
    lz_str::compress_to_base64(&*String::from_utf8_lossy(beginning))
}

fn zlib(plain: &mut dyn Read) -> Vec<u8> {
    let mut writer = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    std::io::copy(plain, &mut writer).unwrap();
    writer.finish().unwrap()
}

fn brotli(plain: &mut dyn Read) -> Vec<u8> {
    let mut writer = brotli::CompressorWriter::new(Vec::new(), 1 << 16, 5, 24);
    std::io::copy(plain, &mut writer).unwrap();
    writer.into_inner()
}

fn gzip(plain: &mut dyn Read) -> Vec<u8> {
    let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    std::io::copy(plain, &mut writer).unwrap();
    writer.finish().unwrap()
}

fn zstd(plain: &mut dyn Read) -> Vec<u8> {
    let mut writer = zstd::Encoder::new(Vec::new(), 3).unwrap();
    std::io::copy(plain, &mut writer).unwrap();
    writer.finish().unwrap()
}

/// Repeats a piece to so many bytes, in an event of a batch with this key or bare.
fn plain(piece: &str, is_in_event: bool, key: Option<&str>, bytes: usize) -> Vec<u8> {
    let mut text = Vec::with_capacity(bytes + 256);
    if is_in_event {
        let named = key.map(|key| format!("\"api_key\":\"{key}\","));
        let opens = if piece.ends_with(',') { "[" } else { "\"" };
        write!(
            text,
            r#"{{{}"batch":[{{"event":"a","distinct_id":"b","properties":{{"x":{opens}"#,
            named.unwrap_or_default()
        )
        .unwrap();
    }
    let space = bytes - text.len();
    text.extend_from_slice(piece.repeat(space / piece.len()).as_bytes());
    if is_in_event {
        text.extend_from_slice(if piece.ends_with(',') { b"1]" } else { b"\"" });
        text.extend_from_slice(b"}}]}");
    }
    text
}

/// Growth of the peak memory since `before`, in bytes.
fn peak(server: &Server, before: usize) -> usize {
    memory(server, "VmHWM").saturating_sub(before)
}

/// Most CPU ticks for a bomb, in the development profile: ten times the bound of PROMISES, and some
/// for what the process does besides.
fn ticks_max(sent_bytes: usize, is_key_known: bool) -> u64 {
    let sent_bytes = sent_bytes.max(1 << 10);
    let known = (200 * sent_bytes).max(4 * MIB) * 20;
    let nanoseconds = if is_key_known {
        known
    } else {
        1_000 * sent_bytes
    };
    8 + 10 * nanoseconds as u64 / 10_000_000
}

#[test]
fn small_bodies_with_much_structure_take_bounded_memory_in_every_encoding() {
    let dir = TempDir::new().unwrap();
    let server = ingest(&dir);
    let mut good = connect(&server);
    assert_eq!(post(&mut good, "/e/", "", batch(&server).as_bytes()), 200);
    let before = memory(&server, "VmRSS");
    let key = server.credential("project_api_key");
    for (piece, is_in_event) in PIECES {
        for key in [None, Some(key.as_str())] {
            let plain = plain(piece, is_in_event, key, DECODED_BYTES);
            for (encoding, path, header, body) in bombs(&plain, key) {
                let ticks_before = ticks(&server);
                let status = post(&mut connect(&server), path, &header, &body);
                let bytes = body.len();
                let (serving, beside) = ticks_since(&server, &ticks_before);
                assert!(
                    serving + beside <= ticks_max(bytes, key.is_some()),
                    "{piece} {encoding}, {bytes} bytes: {serving} and {beside} ticks"
                );
                assert!(
                    [400, 401, 413].contains(&status),
                    "{piece} {encoding}: {status}"
                );
                let most = peak(&server, before);
                assert!(
                    most < MOST_BYTES,
                    "{piece} {encoding}, {bytes} bytes: {} MiB",
                    most / MIB
                );
                assert_eq!(post(&mut good, "/e/", "", batch(&server).as_bytes()), 200);
            }
        }
    }
    eprintln!(
        "all bombs together: at most {} MiB on top",
        peak(&server, before) / MIB
    );
}

#[test]
fn a_bomb_in_an_image_tag_is_rejected_in_every_encoding() {
    let dir = TempDir::new().unwrap();
    let server = ingest(&dir);
    let before = memory(&server, "VmRSS");
    let plain = plain("NaN,", true, None, 46 * MIB);
    let from = || plain.as_slice();
    for (compression, data) in [
        ("gzip", URL_SAFE.encode(gzip(&mut from()))),
        ("zstd", URL_SAFE.encode(zstd(&mut from()))),
        ("deflate", URL_SAFE.encode(zlib(&mut from()))),
        ("lz64", lz64(from())),
    ] {
        let data = escaped(&data);
        let mut stream = connect(&server);
        let head =
            format!("GET /e/?compression={compression}&data={data} HTTP/1.1\r\nHost: t\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        assert_eq!(status(&mut stream), 413, "{compression}");
        let most = peak(&server, before);
        assert!(
            most < SLACK_BYTES + 16 * MIB,
            "{compression}: {} MiB",
            most / MIB
        );
    }
}

/// Results that are not read, of so many connections: 460 MB, if all were kept.
const UNREAD: usize = 100;
const UNREAD_BYTES_MAX: usize = 300 * MIB;

#[test]
fn unread_results_stay_within_the_budget() {
    const EVENTS: usize = 50_000;
    let dir = TempDir::new().unwrap();
    let server = ingest(&dir);
    let mut good = connect(&server);
    assert_eq!(post(&mut good, "/e/", "", batch(&server).as_bytes()), 200);
    let event = |number| format!(r#"{{"uuid":"01990000-0000-7000-8000-{number:012}"}}"#);
    let events: Vec<String> = (0..EVENTS).map(event).collect();
    let plain = format!(
        r#"{{"created_at":"2026-11-20T14:38:00Z","batch":[{}]}}"#,
        events.join(",")
    );
    let body = gzip(&mut plain.as_bytes());
    let headers = format!(
        "Content-Encoding: gzip\r\nAuthorization: Bearer {}\r\n",
        server.credential("project_api_key")
    );
    let before = memory(&server, "VmRSS");
    let mut held = Vec::new();
    let (mut accepted, mut refused) = (0, 0);
    for _ in 0..UNREAD {
        let mut stream = connect(&server);
        set_socket_recv_buffer_size(&stream, 4 << 10).unwrap();
        let path = "/i/v1/analytics/events?dry_run=true";
        match post(&mut stream, path, &headers, &body) {
            200 => accepted += 1,
            503 => refused += 1,
            status => panic!("{status}"),
        }
        held.push(stream);
        // Short responses have a budget of their own.
        assert_eq!(post(&mut good, "/e/", "", batch(&server).as_bytes()), 200);
    }
    let most = peak(&server, before);
    eprintln!(
        "{accepted} accepted, {refused} refused: {} MiB on top",
        most / MIB
    );
    assert!(accepted > 0, "none was accepted");
    assert!(most < UNREAD_BYTES_MAX, "{} MiB", most / MIB);
}

fn status(stream: &mut TcpStream) -> u16 {
    let mut answer = [0; 4096];
    let bytes = stream.read(&mut answer).unwrap();
    let text = std::str::from_utf8(&answer[..bytes]).unwrap();
    text[9..12].parse().unwrap()
}

/// CPU ticks of a process: of all its threads, those that have ended too, and of those that serve
/// requests.
pub struct Ticks {
    all: u64,
    serving: u64,
}

pub fn ticks(server: &Server) -> Ticks {
    let process = format!("/proc/{}", server.pid().as_raw_nonzero());
    // Fields are counted from behind the name, which may hold anything: the first one there is the
    // third. The fourteenth and the fifteenth are ticks in user mode and in the kernel.
    let ticks_of = |stat: &str| {
        let (_, fields) = stat.rsplit_once(") ").unwrap();
        let ticks = fields.split(' ').skip(14 - 3).take(2);
        ticks.map(|it| it.parse::<u64>().unwrap()).sum::<u64>()
    };
    let all = ticks_of(&std::fs::read_to_string(format!("{process}/stat")).unwrap());
    let tasks = std::fs::read_dir(format!("{process}/task")).unwrap();
    // One that has ended meanwhile is none that serves.
    let stats =
        tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("stat")).ok());
    let serving = stats.filter(|stat| stat.contains(" (ingest-"));
    Ticks {
        all,
        serving: serving.map(|stat| ticks_of(&stat)).sum(),
    }
}

/// Returns [`MEMORY_BACK`] scaled by the load of the machine: the process gets its share of the
/// cores, and threads of a low priority less.
fn release_time_max() -> Duration {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap();
    let load: f64 = load.split(' ').next().unwrap().parse().unwrap();
    let cores = std::thread::available_parallelism().unwrap().get();
    MEMORY_BACK.mul_f64(1.0 + load / f64::from(u32::try_from(cores).unwrap()))
}

/// Ticks of the threads that serve requests since then, and of the other threads.
pub fn ticks_since(server: &Server, before: &Ticks) -> (u64, u64) {
    let now = ticks(server);
    let serving = now.serving - before.serving;
    (serving, (now.all - before.all).saturating_sub(serving))
}

/// Body as gzip, with blanks behind it that are not compressed: it is sent in more bytes than a
/// core decodes, and decodes to less than forty times as many.
fn gzip_with_blanks(plain: &[u8]) -> Vec<u8> {
    let mut blanks = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
    blanks.write_all(&[b' '; 640 << 10]).unwrap();
    [gzip(&mut { plain }), blanks.finish().unwrap()].concat()
}

/// Sends large bodies over two connections, and small ones over `good`; returns the ticks of the
/// threads that serve and of those beside.
fn send_large(
    server: &Server,
    good: &mut TcpStream,
    headers: &str,
    bodies: &[Vec<u8>],
) -> (u64, u64) {
    let ticks_before = ticks(server);
    std::thread::scope(|scope| {
        for half in bodies.chunks(bodies.len().div_ceil(2)) {
            scope.spawn(move || {
                for body in half {
                    let status = post(&mut connect(server), "/batch/", headers, body);
                    assert!([200, 400, 413, 503].contains(&status), "{status}");
                }
            });
        }
        for _ in 0..200 {
            assert_eq!(post(good, "/e/", "", batch(server).as_bytes()), 200);
        }
    });
    ticks_since(server, &ticks_before)
}

/// Large bodies with a known key are much work, which other requests do not wait for, as offload
/// threads do it.
#[test]
fn large_bodies_release_their_memory_and_delay_nobody() {
    let dir = TempDir::new().unwrap();
    let server = ingest(&dir);
    let mut good = connect(&server);
    assert_eq!(post(&mut good, "/e/", "", batch(&server).as_bytes()), 200);
    let before = memory(&server, "VmRSS");
    let key = server.credential("project_api_key");
    let plain: Vec<Vec<u8>> = PIECES
        .iter()
        .filter(|(_, is_in_event)| *is_in_event)
        .map(|(piece, _)| plain(piece, true, Some(&key), 19 * MIB))
        .collect();
    let compressed = plain.iter().map(|plain| gzip_with_blanks(plain)).collect();
    for (headers, bodies) in [("", plain), ("Content-Encoding: gzip\r\n", compressed)] {
        let (serving, beside) = send_large(&server, &mut good, headers, &bodies);
        let ended = Instant::now();
        eprintln!("{serving} ticks of the thread that serves, {beside} of those beside it");
        assert!(beside > 0 && serving * 2 < beside, "{serving} of {beside}");
        let most = peak(&server, before);
        assert!(most < 2 * 40 * 19 * MIB, "{} MiB", most / MIB);
        let mut held = usize::MAX;
        while held > MEMORY_KEPT_BYTES_MAX && ended.elapsed() < release_time_max() {
            std::thread::sleep(Duration::from_millis(50));
            held = memory(&server, "VmRSS").saturating_sub(before);
        }
        eprintln!(
            "{headers}at most {} MiB, {} MiB after {:?}",
            most / MIB,
            held / MIB,
            ended.elapsed()
        );
        assert!(held <= MEMORY_KEPT_BYTES_MAX, "{} MiB are kept", held / MIB);
    }
    assert_eq!(
        post(
            &mut good,
            "/e/",
            "",
            json!({"api_key": key, "event": "e", "distinct_id": "d"})
                .to_string()
                .as_bytes()
        ),
        200
    );
}
