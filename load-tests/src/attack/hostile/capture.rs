//! Attacks on the capture port without any key.

use super::context::AttackContext;
use crate::attack::bombs::Bomb;
use crate::attack::cost_search::{PATHS, any};
use crate::attack::http::request;
use rand::RngExt;
use rand::rngs::StdRng;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::time::sleep;

/// Statuses of a bomb that was processed: no JSON, no known key, or too large.
const BOMB_REFUSALS: [u16; 3] = [400, 401, 413];
/// Connections with an unfinished request.
const UNFINISHED: usize = 100;
/// Time that unfinished requests are held open.
const HELD: Duration = Duration::from_secs(15);
/// Bytes of an unfinished head, a little less than the limit.
const HEAD_BYTES: usize = 60 << 10;

/// Sends bombs of a few hundred bytes without a key, of each encoding in turn: a server with much
/// to do judges few of them.
pub(super) async fn bombs(context: Arc<AttackContext>, mut rng: StdRng) {
    let by_way = by_way(&context.bombs_of_nobody);
    let first = rng.random_range(0..by_way.len().max(1));
    for bombs in by_way.values().cycle().skip(first) {
        let at = rng.random_range(0..bombs.len().max(1));
        if let Some(bomb) = bombs.get(at) {
            let sent = bomb.request(any(&PATHS, &mut rng));
            let outcome = context.stranger.send(&sent).await;
            let way = format!("{}: {outcome}", bomb.way);
            context
                .findings
                .count("bombs without a key, by encoding", &way);
            let what = "bombs without a key";
            context.findings.note_among(what, &outcome, &BOMB_REFUSALS);
        }
        sleep(context.pause).await;
    }
}

/// Bombs by the name of their encoding.
fn by_way(bombs: &[Bomb]) -> BTreeMap<&'static str, Vec<&Bomb>> {
    let mut by_way = BTreeMap::<_, Vec<&Bomb>>::new();
    for bomb in bombs {
        by_way.entry(bomb.way).or_default().push(bomb);
    }
    by_way
}

/// Sends mutated bodies of the fuzzers' corpora, and mutations of the costliest so far.
pub(super) async fn mutations(context: Arc<AttackContext>, mut rng: StdRng) {
    let (search, client) = (&context.search_of_nobody, &context.stranger);
    loop {
        let outcome = search.step(client, &context.corpus, "k", &mut rng).await;
        context
            .findings
            .note("mutated bodies without a key", &outcome);
        sleep(context.pause).await;
    }
}

/// Sends bombs in the URL of an image tag.
pub(super) async fn image_tags(context: Arc<AttackContext>, mut rng: StdRng) {
    loop {
        let at = rng.random_range(0..context.image_tags.len().max(1));
        let Some((way, path)) = context.image_tags.get(at) else {
            return;
        };
        let outcome = context.stranger.send(&request("GET", path, &[], b"")).await;
        let way = format!("{way}: {outcome}");
        context.findings.count("image tags, by encoding", &way);
        context
            .findings
            .note_among("image tags", &outcome, &BOMB_REFUSALS);
        sleep(context.pause * 10).await;
    }
}

/// Sends heads and bodies that never end.
pub(super) async fn unfinished(context: Arc<AttackContext>) {
    let head = format!(
        "POST /batch/ HTTP/1.1\r\nHost: t\r\nA: {}",
        "a".repeat(HEAD_BYTES)
    );
    let body = "POST /batch/ HTTP/1.1\r\nHost: t\r\nContent-Length: 20000000\r\n\r\n{\"batch\":[";
    loop {
        let mut held = Vec::new();
        for begun in [head.as_str(), body].into_iter().cycle().take(UNFINISHED) {
            if let Ok(mut stream) = context.stranger.connect().await
                && stream.write_all(begun.as_bytes()).await.is_ok()
            {
                held.push(stream);
            }
        }
        context
            .findings
            .count("unfinished requests", &format!("{} at once", held.len()));
        sleep(HELD).await;
    }
}
