//! Search for bodies that the server takes longest to answer for their bytes.
//!
//! Mutations of the corpora alone have no direction. Those that were answered slowest are kept and
//! mutated further. Time is what their sender sees, the least of several tries, as the server has
//! other work. It differs in each run, so a seed does not lead to the same bodies again: the report
//! has each with its bytes, timed once more when the attack is over.

use super::bombs::{bare_deflate, brotli, gzip, lz64, zstd};
use super::findings::is_judged;
use super::http::{Client, Outcome, request};
use super::lock::lock;
use super::mutate::Corpus;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rand::RngExt;
use rand::rngs::StdRng;
use serde::Serialize;
use std::fmt;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Paths that take events.
pub(super) const PATHS: [&str; 6] = [
    "/batch/",
    "/e/",
    "/i/v0/e/",
    "/capture/",
    "/track/",
    "/engage/",
];
/// `Content-Encoding` headers that bodies are sent with, true or not.
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
/// Bodies that a search keeps.
const KEPT_MAX: usize = 8;
/// Bytes of a body as sent that is kept; the costliest for their bytes are short.
const KEPT_BYTES_MAX: usize = 16 << 10;
/// Bytes that a shorter body counts as: a connection and a head have their cost, too.
const COUNTED_BYTES_MIN: usize = 1 << 10;
/// Bytes of a text that is encoded, and of one in Brotli or LZString, whose compressors are slow.
const ENCODED_BYTES_MAX: usize = 256 << 10;
const SLOW_BYTES_MAX: usize = 32 << 10;
/// Number of times that a body is sent to know its time.
const TIMES: usize = 3;
/// Bytes of a body that are shown.
const SHOWN_BYTES: usize = 60;

/// A body with its path and its encoding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mutation {
    path: &'static str,
    encoding: &'static str,
    /// True if the text is sent in its encoding, and not only by that name.
    is_encoded: bool,
    text: Vec<u8>,
}

impl Mutation {
    /// A body on a random path and in a random encoding.
    fn of(text: Vec<u8>, rng: &mut StdRng) -> Self {
        Self {
            path: any(&PATHS, rng),
            encoding: any(&ENCODINGS, rng),
            is_encoded: rng.random(),
            text,
        }
    }

    /// Body as sent.
    fn body(&self) -> Vec<u8> {
        let text = self.text.as_slice();
        let encoded = match self.encoding {
            _ if !self.is_encoded || text.len() > ENCODED_BYTES_MAX => None,
            "gzip" => gzip(text).ok(),
            "deflate" => gzip(text).ok().map(|gzip| bare_deflate(&gzip)),
            "zstd" => zstd(text).ok(),
            "br" if text.len() <= SLOW_BYTES_MAX => brotli(text).ok(),
            "lz64" if text.len() <= SLOW_BYTES_MAX => Some(lz64(text).into_bytes()),
            "base64" => Some(BASE64_STANDARD.encode(text).into_bytes()),
            _ => None,
        };
        encoded.unwrap_or_else(|| text.to_vec())
    }

    fn request(&self, body: &[u8]) -> Vec<u8> {
        let headers = [("Content-Encoding", self.encoding)];
        let headers = if self.encoding.is_empty() {
            &[][..]
        } else {
            &headers
        };
        request("POST", self.path, headers, body)
    }
}

/// A body with the time that it took.
#[derive(Clone, Debug)]
struct Timed {
    mutation: Mutation,
    sent_bytes: usize,
    least: Duration,
}

impl Timed {
    fn nanoseconds_per_byte(&self) -> u128 {
        self.least.as_nanos() / self.sent_bytes.max(COUNTED_BYTES_MIN) as u128
    }
}

/// Bodies of one sender that took longest for their bytes, the costliest first.
#[derive(Debug, Default)]
pub(super) struct CostSearch(Mutex<Vec<Timed>>);

impl CostSearch {
    /// Next body to send: a mutation of a kept one or of the corpora.
    fn next(&self, corpus: &Corpus, key: &str, rng: &mut StdRng) -> Mutation {
        let kept = if rng.random() { self.any(rng) } else { None };
        let Some(mut mutation) = kept else {
            return Mutation::of(corpus.next(key, rng), rng);
        };
        mutation.text = corpus.mutated(mutation.text, rng);
        mutation
    }

    fn any(&self, rng: &mut StdRng) -> Option<Mutation> {
        let kept = lock(&self.0);
        let at = rng.random_range(0..kept.len().max(1));
        kept.get(at).map(|it| it.mutation.clone())
    }

    /// Returns true if a body would be kept.
    fn is_costly(&self, timed: &Timed) -> bool {
        let kept = lock(&self.0);
        let is_new = kept.iter().all(|it| it.mutation != timed.mutation);
        let cheapest = kept.get(KEPT_MAX - 1);
        let is_costlier =
            cheapest.is_none_or(|it| timed.nanoseconds_per_byte() > it.nanoseconds_per_byte());
        is_new && is_costlier && timed.sent_bytes <= KEPT_BYTES_MAX
    }

    fn keep(&self, timed: Timed) {
        if self.is_costly(&timed) {
            let mut kept = lock(&self.0);
            kept.push(timed);
            kept.sort_by_key(|it| std::cmp::Reverse(it.nanoseconds_per_byte()));
            kept.truncate(KEPT_MAX);
        }
    }

    /// Sends the next body, again if it is costly, and returns the first outcome.
    pub(super) async fn step(
        &self,
        client: &Client,
        corpus: &Corpus,
        key: &str,
        rng: &mut StdRng,
    ) -> Outcome {
        let mutation = self.next(corpus, key, rng);
        let body = mutation.body();
        let sent = mutation.request(&body);
        let began = Instant::now();
        let outcome = client.send(&sent).await;
        let timed = Timed {
            mutation,
            sent_bytes: body.len(),
            least: began.elapsed(),
        };
        if is_judged(outcome.status())
            && self.is_costly(&timed)
            && let Some(again) = least(client, &sent, TIMES - 1).await
        {
            let least = timed.least.min(again);
            self.keep(Timed { least, ..timed });
        }
        outcome
    }

    /// Times the kept bodies again; the costliest first.
    pub(super) async fn costliest(&self, client: &Client, sender: &'static str) -> Vec<CostlyBody> {
        let kept = lock(&self.0).clone();
        let mut costliest = Vec::new();
        for timed in kept {
            let body = timed.mutation.body();
            let sent = timed.mutation.request(&body);
            if let Some(least) = least(client, &sent, TIMES).await {
                costliest.push(CostlyBody {
                    sender,
                    path: timed.mutation.path,
                    encoding: timed.mutation.encoding,
                    sent_bytes: body.len(),
                    ms: least.as_secs_f64() * 1e3,
                    under_attack_ms: timed.least.as_secs_f64() * 1e3,
                    body: BASE64_STANDARD.encode(&body),
                    shown: body.iter().take(SHOWN_BYTES).copied().collect(),
                });
            }
        }
        costliest.sort_by(|one, other| other.ms_per_kb().total_cmp(&one.ms_per_kb()));
        costliest
    }
}

/// Least time of several tries; `None` if one was not processed.
async fn least(client: &Client, sent: &[u8], times: usize) -> Option<Duration> {
    let mut least = Duration::MAX;
    for _ in 0..times {
        let began = Instant::now();
        if !is_judged(client.send(sent).await.status()) {
            return None;
        }
        least = least.min(began.elapsed());
    }
    Some(least)
}

/// A random one of these words.
pub(super) fn any<'a>(of: &[&'a str], rng: &mut StdRng) -> &'a str {
    let at = rng.random_range(0..of.len().max(1));
    of.get(at).copied().unwrap_or_default()
}

/// A body that takes long for its bytes.
#[derive(Clone, Debug, Serialize)]
pub struct CostlyBody {
    /// Sender: with a key or without.
    pub sender: &'static str,
    /// Path of the request.
    pub path: &'static str,
    /// `Content-Encoding` of the request; empty for none.
    pub encoding: &'static str,
    /// Bytes of the body as sent.
    pub sent_bytes: usize,
    /// Response time after the attack in milliseconds, the least of several.
    pub ms: f64,
    /// Response time under attack in milliseconds, the least of several.
    pub under_attack_ms: f64,
    /// Body as sent, in base64.
    pub body: String,
    /// Beginning of the body.
    #[serde(skip)]
    shown: Vec<u8>,
}

impl CostlyBody {
    /// Response time after the attack in milliseconds for each kB sent.
    #[must_use]
    pub fn ms_per_kb(&self) -> f64 {
        self.ms * 1e3 / self.sent_bytes.max(COUNTED_BYTES_MIN) as f64
    }
}

impl fmt::Display for CostlyBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sender, path) = (self.sender, self.path);
        let encoding = match self.encoding {
            "" => "identity",
            encoding => encoding,
        };
        write!(
            f,
            "{sender}, {path} {encoding}: {:.1} ms for {} B, {:.1} under attack: {}",
            self.ms,
            self.sent_bytes,
            self.under_attack_ms,
            self.shown.escape_ascii()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    fn timed(text: &str, ms: u64, sent_bytes: usize) -> Timed {
        Timed {
            mutation: Mutation {
                path: "/e/",
                encoding: "",
                is_encoded: false,
                text: text.as_bytes().to_vec(),
            },
            sent_bytes,
            least: Duration::from_millis(ms),
        }
    }

    fn texts(search: &CostSearch) -> Vec<String> {
        let kept = lock(&search.0);
        let texts = kept
            .iter()
            .map(|it| String::from_utf8_lossy(&it.mutation.text).into_owned());
        texts.collect()
    }

    #[test]
    fn the_costliest_for_their_bytes_are_kept_once_each() {
        let search = CostSearch::default();
        for (text, ms, sent_bytes) in [
            ("slow and long", 100, 16 << 10),
            ("slow and short", 100, 1),
            ("quick", 1, 1),
            ("too long", 100_000, KEPT_BYTES_MAX + 1),
            ("slow and short", 500, 1),
        ] {
            search.keep(timed(text, ms, sent_bytes));
        }
        assert_eq!(texts(&search), ["slow and short", "slow and long", "quick"]);
        for number in 0..KEPT_MAX {
            search.keep(timed(&format!("slow {number}"), 50, 1));
        }
        let kept = texts(&search);
        assert_eq!(kept.len(), KEPT_MAX);
        assert_eq!(kept[0], "slow and short");
        assert!(kept[1..].iter().all(|text| text.starts_with("slow ")));
    }

    #[test]
    fn kept_bodies_are_mutated_further() {
        let dir = tempfile::tempdir().unwrap();
        for folder in ["body", "parse", "cost"] {
            std::fs::create_dir(dir.path().join(folder)).unwrap();
            std::fs::write(dir.path().join(folder).join("a"), "{}").unwrap();
        }
        let corpus = Corpus::read(dir.path()).unwrap();
        let search = CostSearch::default();
        let mut rng = StdRng::seed_from_u64(1);
        let kept = timed(&"cost".repeat(100), 9, 400);
        search.keep(kept.clone());
        let made: Vec<_> = (0..100)
            .map(|_| search.next(&corpus, "k", &mut rng))
            .collect();
        let is_child = |it: &&Mutation| it.text.windows(8).any(|piece| piece == b"costcost");
        assert!(made.iter().filter(is_child).count() > 10);
        let is_other = |it: &&Mutation| it.text != kept.mutation.text;
        assert!(made.iter().filter(is_child).filter(is_other).count() > 5);
    }

    #[test]
    fn a_text_is_sent_in_its_encoding_or_only_by_its_name() {
        let text = vec![b'['; 10_000];
        for (encoding, is_encoded, is_shorter) in [
            ("gzip", true, true),
            ("br", true, true),
            ("zstd", true, true),
            ("deflate", true, true),
            ("lz64", true, true),
            ("gzip", false, false),
            ("lz64", false, false),
            ("", true, false),
        ] {
            let mutation = Mutation {
                path: "/e/",
                encoding,
                is_encoded,
                text: text.clone(),
            };
            let body = mutation.body();
            assert_eq!(body.len() < 1_000, is_shorter, "{encoding} {is_encoded}");
            assert_eq!(body == text, !is_shorter, "{encoding} {is_encoded}");
        }
    }
}
