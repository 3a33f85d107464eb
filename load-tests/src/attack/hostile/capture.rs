//! What anybody can do who reaches the capture port, without any key.

use super::Arsenal;
use crate::attack::http::request;
use rand::RngExt;
use rand::rngs::StdRng;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::time::sleep;

/// Statuses for a bomb that was looked at: it is no JSON, has no key that is known, or is too much.
const BOMB_REFUSALS: [u16; 3] = [400, 401, 413];
/// Paths that take events.
const PATHS: [&str; 6] = [
    "/batch/",
    "/e/",
    "/i/v0/e/",
    "/capture/",
    "/track/",
    "/engage/",
];
/// `Content-Encoding`s that bodies are said to have, some of which they never have.
const ENCODINGS: [&str; 8] = [
    "",
    "gzip",
    "br",
    "zstd",
    "deflate",
    "lz64",
    "base64",
    "gzip, gzip",
];
/// Connections that are begun and not ended.
const UNFINISHED: usize = 100;
/// How long they are held.
const HELD: Duration = Duration::from_secs(15);
/// What a head may have, and a little less.
const HEAD_BYTES: usize = 60 << 10;

/// Structure in some hundred bytes.
pub(super) async fn bombs(arsenal: Arc<Arsenal>, mut rng: StdRng) {
    loop {
        let at = rng.random_range(0..arsenal.bombs_of_nobody.len().max(1));
        if let Some(bomb) = arsenal.bombs_of_nobody.get(at) {
            let sent = bomb.request(any(&PATHS, &mut rng));
            let outcome = arsenal.stranger.send(&sent).await;
            let way = format!("{}: {outcome}", bomb.way);
            arsenal
                .tally
                .count("bombs without a key, by encoding", &way);
            let what = "bombs without a key";
            arsenal.tally.note_among(what, &outcome, &BOMB_REFUSALS);
        }
        sleep(arsenal.pause).await;
    }
}

/// Bodies near those that a fuzzer kept.
pub(super) async fn mutations(arsenal: Arc<Arsenal>, mut rng: StdRng) {
    loop {
        let body = arsenal.corpus.next("k", &mut rng);
        let sent = mutated(&body, &mut rng);
        let outcome = arsenal.stranger.send(&sent).await;
        arsenal.tally.note("mutated bodies without a key", &outcome);
        sleep(arsenal.pause).await;
    }
}

/// A request with such a body, on any path and in any encoding.
pub(super) fn mutated(body: &[u8], rng: &mut StdRng) -> Vec<u8> {
    let encoding = any(&ENCODINGS, rng);
    let headers = [("Content-Encoding", encoding)];
    let headers = if encoding.is_empty() {
        &[][..]
    } else {
        &headers
    };
    request("POST", any(&PATHS, rng), headers, body)
}

/// Bombs in the address of a picture.
pub(super) async fn image_tags(arsenal: Arc<Arsenal>, mut rng: StdRng) {
    loop {
        let at = rng.random_range(0..arsenal.image_tags.len().max(1));
        let Some((way, path)) = arsenal.image_tags.get(at) else {
            return;
        };
        let outcome = arsenal.stranger.send(&request("GET", path, &[], b"")).await;
        let way = format!("{way}: {outcome}");
        arsenal.tally.count("image tags, by encoding", &way);
        arsenal
            .tally
            .note_among("image tags", &outcome, &BOMB_REFUSALS);
        sleep(arsenal.pause * 10).await;
    }
}

/// Heads and bodies that never end.
pub(super) async fn unfinished(arsenal: Arc<Arsenal>) {
    let head = format!(
        "POST /batch/ HTTP/1.1\r\nHost: t\r\nA: {}",
        "a".repeat(HEAD_BYTES)
    );
    let body = "POST /batch/ HTTP/1.1\r\nHost: t\r\nContent-Length: 20000000\r\n\r\n{\"batch\":[";
    loop {
        let mut held = Vec::new();
        for begun in [head.as_str(), body].into_iter().cycle().take(UNFINISHED) {
            if let Ok(mut stream) = arsenal.stranger.connect().await
                && stream.write_all(begun.as_bytes()).await.is_ok()
            {
                held.push(stream);
            }
        }
        arsenal
            .tally
            .count("unfinished requests", &format!("{} at once", held.len()));
        sleep(HELD).await;
    }
}

pub(super) fn any<'a>(of: &[&'a str], rng: &mut StdRng) -> &'a str {
    let at = rng.random_range(0..of.len().max(1));
    of.get(at).copied().unwrap_or_default()
}
