//! Streams that are made of blocks of which little or nothing comes out, and megabytes of white
//! space: they cost no more than what was sent allows, and next to nothing of the thread that
//! serves others.

use super::structure::{ticks, ticks_since};
use super::{MIB, batch, connect, ingest, post};
use crate::server::Server;
use flate2::{Compression, Crc, GzBuilder};
use serde_json::json;
use std::io::Write;
use tempfile::TempDir;

/// Blocks of deflate without an end, of which nothing comes out: twice one with a code of 128
/// literals of its own and one with the code that all know.
const BLOCKS: [u8; 33] = [
    0x04, 0x40, 0x82, 0x0d, 0xca, 0xb6, 0x6d, 0xdb, 0xb6, 0x6d, 0xdb, 0xb6, 0x7d, 0x7b, 0xfb, 0x0b,
    0x40, 0x00, 0x24, 0xd8, 0xa0, 0x6c, 0xdb, 0xb6, 0x6d, 0xdb, 0xb6, 0x6d, 0xdb, 0xb7, 0xb7, 0xbf,
    0x00,
];
/// The beginning of a frame of zstd, with a block of some bytes.
const ZSTD_HEAD: [u8; 14] = [
    0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58, 0x28, 0x00, 0x00, b' ', b' ', b' ', b' ', b' ',
];
/// A block of zstd that copies three of them, and brings three tables to say so.
const ZSTD_BLOCK: [u8; 16] = [
    0x6c, 0x00, 0x00, 0x00, 0x01, 0xa8, 0xf4, 0x3f, 0xf3, 0x1f, 0xf4, 0x3f, 0x00, 0x00, 0x00, 0x04,
];
/// Header of a gzip member without optional fields.
const GZIP_HEAD: [u8; 10] = [0x1f, 0x8b, 0x08, 0, 0, 0, 0, 0, 0, 0xff];
/// Ticks in a second.
const TICKS: u64 = 100;

/// Bare deflate of so many bytes of blocks, and a MiB of text behind them.
fn deflate(bytes: usize) -> Vec<u8> {
    let mut writer = flate2::write::DeflateEncoder::new(Vec::new(), Compression::best());
    writer.write_all(&vec![b' '; MIB]).unwrap();
    [
        BLOCKS.repeat(bytes / BLOCKS.len()),
        writer.finish().unwrap(),
    ]
    .concat()
}

/// Builds a gzip member of that, whose trailer names an output of no bytes.
fn gzip(bytes: usize) -> Vec<u8> {
    let mut crc = Crc::new();
    crc.update(&vec![b' '; MIB]);
    let sum = crc.sum().to_le_bytes();
    [&GZIP_HEAD[..], &deflate(bytes), &sum, &[0; 4]].concat()
}

fn zstd(bytes: usize) -> Vec<u8> {
    let blocks = ZSTD_BLOCK.repeat(bytes / ZSTD_BLOCK.len());
    [&ZSTD_HEAD[..], &blocks].concat()
}

/// An event in ten parts, all of which are gzip of blocks.
fn parts(bytes: usize) -> Vec<u8> {
    let named = |name: &str| format!("--b\r\nContent-Disposition: form-data; name=\"{name}\"\r\n");
    let event = json!({"event": "a", "distinct_id": "b", "api_key": "phc_nobodys"});
    let mut sent = format!("{}\r\n{event}\r\n", named("event")).into_bytes();
    for number in 0..10 {
        let name = named(&format!("event.properties.p{number}"));
        write!(sent, "{name}Content-Encoding: gzip\r\n\r\n").unwrap();
        sent.extend(gzip(bytes / 10));
        sent.extend(b"\r\n");
    }
    sent.extend(b"--b--\r\n");
    sent
}

/// A body as it is sent: how, where to, what its head says beside its length, and its bytes.
type Body = (&'static str, &'static str, String, Vec<u8>);

/// Bodies of about so many bytes of blocks, of whoever this header says.
fn bodies(bytes: usize, header: &str) -> Vec<Body> {
    let path = match header {
        "" => "/batch/",
        _ => "/i/v1/analytics/events",
    };
    let encoded = |encoding: &'static str, body: Vec<u8>| {
        let header = format!("{header}Content-Encoding: {encoding}\r\n");
        (encoding, path, header, body)
    };
    vec![
        encoded("gzip", gzip(bytes)),
        encoded("deflate", deflate(bytes)),
        encoded("zstd", zstd(bytes)),
    ]
}

/// Sends them all; ticks of the thread that serves, and of those beside it.
fn ticks_of(server: &Server, bodies: &[Body], status: u16) -> (u64, u64) {
    let mut good = connect(server);
    let before = ticks(server);
    for (encoding, path, header, body) in bodies {
        let answer = post(&mut connect(server), path, header, body);
        assert_eq!(answer, status, "{encoding}, {} bytes", body.len());
        assert_eq!(post(&mut good, "/e/", "", batch(server).as_bytes()), 200);
    }
    ticks_since(server, &before)
}

#[test]
fn blocks_of_nothing_cost_no_more_than_what_was_sent_allows_and_keep_nobody_waiting() {
    let dir = TempDir::new().unwrap();
    let server = ingest(&dir);
    let mut first = connect(&server);
    assert_eq!(post(&mut first, "/e/", "", batch(&server).as_bytes()), 200);
    let key = server.credential("project_api_key");
    let known = format!("Authorization: Bearer {key}\r\n");
    // Both are long enough to be decoded beside the core.
    for bytes in [500 << 10, 19 * MIB] {
        for header in ["", known.as_str()] {
            let mut bodies = bodies(bytes, header);
            if bytes < MIB {
                let header = "Content-Type: multipart/form-data; boundary=b\r\n".to_owned();
                bodies.push(("parts", "/i/v0/ai", header, parts(bytes)));
            }
            let sent_kb: usize = bodies.iter().map(|(.., body)| body.len() / 1_000).sum();
            let (serving, beside) = ticks_of(&server, &bodies, 413);
            eprintln!("{sent_kb} kB, {header:?}: {serving} ticks serving, {beside} beside");
            // A millisecond for each kB, and of large ones no more than to read them.
            let allowed = (sent_kb as u64 * TICKS / 1_000).min(2 * TICKS);
            assert!(
                serving + beside <= allowed,
                "{serving} and {beside} of {allowed}"
            );
        }
    }
}

#[test]
fn a_hundred_mib_of_white_space_are_not_looked_at_by_the_thread_that_serves() {
    let dir = TempDir::new().unwrap();
    let server = ingest(&dir);
    let mut good = connect(&server);
    assert_eq!(post(&mut good, "/e/", "", batch(&server).as_bytes()), 200);
    let key = server.credential("project_api_key");
    // A comment in the header makes the body long enough for its decoded size.
    let writer = GzBuilder::new().comment(vec![b'x'; 550_000]);
    let mut writer = writer.write(Vec::new(), Compression::best());
    writer.write_all(&vec![b' '; 100 * MIB]).unwrap();
    let header = format!("Authorization: Bearer {key}\r\nContent-Encoding: gzip\r\n");
    let body = writer.finish().unwrap();
    let bodies: Vec<Body> = (0..10)
        .map(|_| {
            (
                "gzip",
                "/i/v1/analytics/events",
                header.clone(),
                body.clone(),
            )
        })
        .collect();
    let (serving, beside) = ticks_of(&server, &bodies, 400);
    eprintln!("{serving} ticks serving, {beside} beside");
    assert!(serving * 5 < beside, "{serving} of {beside}");
}
