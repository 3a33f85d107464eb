//! Small random changes to known inputs, by a seed.

use millrace_log::testing::SeededRng;

/// Words that have a meaning to one of the targets.
const WORDS: [&[u8]; 26] = [
    b"\"event\":",
    b"\"distinct_id\":",
    b"\"properties\":{",
    b"\"timestamp\":\"",
    b"\"batch\":[",
    b"\"uuid\":\"",
    b"\"$set\":{}",
    b"\"token\":\"k\"",
    b"\"sent_at\":\"2026-11-20T15:38:18Z\"",
    b"2026-11-20T15:38:18.1Z",
    b"+05:30",
    b"NaN",
    b"-Infinity",
    b"null",
    b"true",
    b"1e999",
    b"\\u0065",
    b"\\ud83d",
    b"\\u0000",
    b"\xed\xa0\xbc\xed\xbe\x89",
    b"\xef\xbb\xbf",
    b"{}",
    b"[]",
    b"MFRM",
    b"\xff\xff\xff\xff",
    b"\x1f\x8b\x08",
];
const BYTES_MAX: usize = 8 << 10;

/// Makes inputs out of known ones; the same seed makes the same inputs.
#[derive(Debug)]
pub struct Mutator {
    known: Vec<Vec<u8>>,
    rng: SeededRng,
}

impl Mutator {
    /// Creates a mutator of these inputs.
    #[must_use]
    pub fn new(known: Vec<Vec<u8>>, seed: u64) -> Self {
        Self {
            known,
            rng: SeededRng::new(seed),
        }
    }

    /// Adds an input to the known ones, because it is worth changing further.
    pub fn keep(&mut self, input: Vec<u8>) {
        self.known.push(input);
    }

    /// Makes an input: a known one with one to six changes.
    pub fn input(&mut self) -> Vec<u8> {
        let mut input = self.some_known();
        for _ in 0..=self.below(6) {
            self.change(&mut input);
        }
        input.truncate(BYTES_MAX);
        input
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        let at = self.below(input.len() + 1);
        let to = at + self.below((input.len() - at).min(64) + 1);
        match self.below(9) {
            0 if at < input.len() => input[at] ^= 1 << self.below(8),
            1 if at < input.len() => input[at] = self.below(256) as u8,
            2 => input.insert(at, self.below(256) as u8),
            3 => drop(input.drain(at..to)),
            4 => {
                let copy = input[at..to].to_vec();
                let target = self.below(input.len() + 1);
                input.splice(target..target, copy);
            }
            5 | 6 => {
                let word = WORDS[self.below(WORDS.len())];
                input.splice(at..at, word.iter().copied());
            }
            7 => {
                let other = self.some_known();
                let from = self.below(other.len() + 1);
                input.truncate(at);
                input.extend_from_slice(&other[from..]);
            }
            _ => input.truncate(at.max(1)),
        }
    }

    fn some_known(&mut self) -> Vec<u8> {
        let at = self.below(self.known.len());
        self.known.get(at).cloned().unwrap_or_default()
    }

    fn below(&mut self, limit: usize) -> usize {
        self.rng.below(limit as u64) as usize
    }
}
