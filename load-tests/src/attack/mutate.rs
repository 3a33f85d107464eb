//! Bodies of the fuzzers' corpora, mutated at random.

use anyhow::{Context, Result, ensure};
use rand::RngExt;
use rand::rngs::StdRng;
use std::path::Path;

/// Folders of those corpora whose inputs are bodies.
const FOLDERS: [&str; 3] = ["body", "parse", "cost"];
/// Highest number of changes to one body.
const CHANGES_MAX: u32 = 6;
/// Highest number of repetitions of a piece.
const REPEATS_MAX: usize = 2_000;
/// Longest body in bytes.
const BYTES_MAX: usize = 1 << 20;
/// Words for which parsers have special cases.
const WORDS: [&str; 16] = [
    "\"api_key\":",
    "\"batch\":[",
    "\"properties\":{",
    "\"$set\":{\"a\":1},",
    "\"$anon_distinct_id\":\"b\",",
    "\"historical_migration\":true,",
    "\"timestamp\":\"9999-12-31T23:59:60Z\",",
    "\"offset\":1e999,",
    "\"uuid\":\"00000000-0000-0000-0000-000000000000\",",
    "NaN",
    "-Infinity",
    "\\ud800",
    "\\u0000",
    "\u{feff}",
    "1e308",
    "[[[[[[[[",
];

/// Inputs to mutate.
#[derive(Clone, Debug)]
pub(super) struct Corpus(Vec<Vec<u8>>);

impl Corpus {
    /// Reads the corpora in a folder.
    pub(super) fn read(dir: &Path) -> Result<Self> {
        let mut inputs = Vec::new();
        for folder in FOLDERS {
            let path = dir.join(folder);
            let entries = std::fs::read_dir(&path).with_context(|| {
                format!(
                    "no corpus in {}; name its folder with --corpus",
                    path.display()
                )
            })?;
            for entry in entries {
                inputs.push(std::fs::read(entry?.path()).context("a corpus")?);
            }
        }
        ensure!(!inputs.is_empty(), "no corpus in {}", dir.display());
        Ok(Self(inputs))
    }

    /// A mutated input; half of the time with `key` in place of the corpora's key.
    pub(super) fn next(&self, key: &str, rng: &mut StdRng) -> Vec<u8> {
        let mut bytes = self.any(rng).to_vec();
        if rng.random() {
            let named = format!("\"api_key\":\"{key}\"");
            bytes = replace(&bytes, b"\"api_key\":\"k\"", named.as_bytes());
            bytes = replace(&bytes, b"\"token\":\"k\"", named.as_bytes());
        }
        for _ in 0..rng.random_range(0..=CHANGES_MAX) {
            bytes = self.changed(bytes, rng);
        }
        bytes.truncate(BYTES_MAX);
        bytes
    }

    /// The bytes with at least one change.
    pub(super) fn mutated(&self, mut bytes: Vec<u8>, rng: &mut StdRng) -> Vec<u8> {
        for _ in 0..rng.random_range(1..=CHANGES_MAX) {
            bytes = self.changed(bytes, rng);
        }
        bytes
    }

    fn any(&self, rng: &mut StdRng) -> &[u8] {
        let at = rng.random_range(0..self.0.len().max(1));
        self.0.get(at).map_or(&[], Vec::as_slice)
    }

    fn changed(&self, mut bytes: Vec<u8>, rng: &mut StdRng) -> Vec<u8> {
        let from = rng.random_range(0..=bytes.len());
        let to = rng.random_range(from..=bytes.len());
        let piece = bytes.get(from..to).unwrap_or_default().to_vec();
        let put: Vec<u8> = match rng.random_range(0..5) {
            0 => Vec::new(),
            1 => piece
                .repeat(rng.random_range(2..=REPEATS_MAX.min(BYTES_MAX / (piece.len() + 1) + 2))),
            2 => self.any(rng).to_vec(),
            3 => {
                let at = rng.random_range(0..WORDS.len());
                WORDS
                    .get(at)
                    .map_or_else(Vec::new, |word| word.as_bytes().to_vec())
            }
            _ => piece.iter().map(|byte| byte ^ rng.random::<u8>()).collect(),
        };
        bytes.splice(from..to, put);
        bytes.truncate(BYTES_MAX);
        bytes
    }
}

fn replace(bytes: &[u8], what: &[u8], with: &[u8]) -> Vec<u8> {
    let mut replaced = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(at) = rest.windows(what.len()).position(|window| window == what) {
        replaced.extend_from_slice(rest.get(..at).unwrap_or_default());
        replaced.extend_from_slice(with);
        rest = rest.get(at + what.len()..).unwrap_or_default();
    }
    replaced.extend_from_slice(rest);
    replaced
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn a_seed_gives_the_same_bodies_within_the_size_limit() {
        let corpus = Corpus(vec![b"{\"api_key\":\"k\"}".to_vec(), vec![0; 1000]]);
        let made = |seed| {
            let mut rng = StdRng::seed_from_u64(seed);
            let bodies = (0..300).map(|_| corpus.next("phc_k", &mut rng));
            bodies.collect::<Vec<_>>()
        };
        let bodies = made(7);
        assert_eq!(bodies, made(7));
        assert_ne!(bodies, made(8));
        assert!(bodies.iter().all(|body| body.len() <= BYTES_MAX));
        let has_key = |body: &Vec<u8>| body.windows(5).any(|window| window == b"phc_k");
        assert!(bodies.iter().any(has_key));
    }

    #[test]
    fn a_folder_without_corpora_says_which_option_names_one() {
        let dir = tempfile::tempdir().unwrap();
        let error = Corpus::read(dir.path()).unwrap_err();
        assert!(error.to_string().contains("--corpus"), "{error}");
    }
}
