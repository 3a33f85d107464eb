//! First pass over a body: an index of its structure, by SIMD.
//!
//! simd-json works in two stages. The first finds every structural character (brackets, commas,
//! colons, and the first byte of every string, number and word: the *marks*), checks that strings
//! are closed and free of control characters, and that everything is UTF-8: about 3 bytes per
//! clock, without a branch per byte. The second builds a tape of decoded values: every string
//! searched for its end again, every number converted. We want neither, as properties are stored as
//! they were sent, so a walk of our own ([`crate::walk`]) takes the place of stage two.
//!
//! simd-json offers no call for stage one alone, but it does hand out the index, also after a
//! document was refused, and it refuses any document at the first bracket when the allowed depth is
//! 0. So that is how it is called; the tests below hold simd-json to it. Nothing is unescaped in
//! place then. simd-json reads a few bytes past the end, so it is given a copy that has them.
//!
//! On processors with AVX-512 (since Ice Lake and Zen 4) a pass of our own does the same in two
//! thirds of the time, and on the body itself.

#[cfg(target_arch = "x86_64")]
mod avx512;

use crate::characters::{CHARACTERS_BEHIND, Refused, escape_len, is_white};
use crate::footprint::Footprint;
use crate::span::BODY_BYTES_MAX;
use simd_json::{Buffers, ErrorType, INPUT_PADDING, Tape};

/// Index of one body: the places of structure and of escapes.
pub struct Index {
    backend: IndexBackend,
    escapes: Vec<u32>,
}

/// Pass that finds the marks, with the marks that it found.
enum IndexBackend {
    /// simd-json, on every processor.
    Portable {
        buffers: Buffers,
        tape: Tape<'static>,
        padded: Vec<u8>,
        characters: Vec<u8>,
    },
    #[cfg(target_arch = "x86_64")]
    Avx512(avx512::StructuralMarks),
}

impl Default for Index {
    fn default() -> Self {
        #[cfg(target_arch = "x86_64")]
        if avx512::is_available() {
            return Self::of(IndexBackend::Avx512(avx512::StructuralMarks::default()));
        }
        Self::portable()
    }
}

impl std::fmt::Debug for Index {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Index").finish_non_exhaustive()
    }
}

impl Index {
    /// Returns an index that uses simd-json, whatever the processor has.
    pub fn portable() -> Self {
        Self::of(IndexBackend::Portable {
            buffers: Buffers::with_max_depth(0, 0),
            tape: Tape(Vec::new()),
            padded: Vec::new(),
            characters: Vec::new(),
        })
    }

    /// Returns an index with capacity for the marks and escapes of a footprint.
    pub fn with_capacity_for(footprint: &Footprint) -> Self {
        let mut index = Self::default();
        index.escapes.reserve_exact(footprint.escapes_max);
        match &mut index.backend {
            // simd-json allocates its own.
            IndexBackend::Portable { characters, .. } => {
                characters.reserve_exact(footprint.marks_max + CHARACTERS_BEHIND);
            }
            #[cfg(target_arch = "x86_64")]
            IndexBackend::Avx512(found) => found.reserve(footprint.marks_max),
        }
        index
    }

    fn of(backend: IndexBackend) -> Self {
        Self {
            backend,
            escapes: Vec::new(),
        }
    }

    /// Indexes a body whose first byte that is not white space opens an object or an array.
    ///
    /// On success the body is valid UTF-8, its strings are closed and have only valid escapes;
    /// whether the rest is JSON is for the walk to find out.
    pub fn build(&mut self, body: &[u8]) -> Result<(), Refused> {
        let opens = body.iter().find(|byte| !is_white(**byte));
        if !matches!(opens, Some(b'{' | b'[')) || body.len() >= BODY_BYTES_MAX {
            return Err(Refused);
        }
        self.escapes.clear();
        match &mut self.backend {
            IndexBackend::Portable {
                buffers,
                tape,
                padded,
                characters,
            } => {
                padded.clear();
                padded.extend_from_slice(body);
                padded.resize(body.len() + INPUT_PADDING, b' ');
                find_by_simd_json(padded, body.len(), buffers, tape)?;
                let found = buffers.structural_indexes();
                characters.clear();
                characters.resize(found.len() + CHARACTERS_BEHIND, 0);
                for (character, at) in characters.iter_mut().zip(found) {
                    *character = padded.get(*at as usize).copied().unwrap_or_default();
                }
                find_escapes(body, &mut self.escapes)
            }
            #[cfg(target_arch = "x86_64")]
            IndexBackend::Avx512(found) => find_by_avx512(body, found, &mut self.escapes),
        }
    }

    /// Offsets of the marks, rising.
    pub fn marks(&self) -> &[u32] {
        match &self.backend {
            IndexBackend::Portable { buffers, .. } => buffers.structural_indexes(),
            #[cfg(target_arch = "x86_64")]
            IndexBackend::Avx512(found) => found.marks.get(..found.len).unwrap_or_default(),
        }
    }

    /// Characters at the marks, and [`CHARACTERS_BEHIND`] zeros.
    pub fn characters(&self) -> &[u8] {
        match &self.backend {
            IndexBackend::Portable { characters, .. } => characters,
            #[cfg(target_arch = "x86_64")]
            IndexBackend::Avx512(found) => {
                let len = found.len + CHARACTERS_BEHIND;
                found.characters.get(..len).unwrap_or_default()
            }
        }
    }

    /// Offsets of the backslashes that begin an escape, rising.
    pub fn escapes(&self) -> &[u32] {
        &self.escapes
    }
}

fn find_by_simd_json(
    padded: &mut [u8],
    len: usize,
    buffers: &mut Buffers,
    kept: &mut Tape<'static>,
) -> Result<(), Refused> {
    let mut tape = std::mem::replace(kept, Tape(Vec::new())).reset();
    let result = simd_json::fill_tape_padded(padded, len, buffers, &mut tape);
    *kept = tape.reset();
    match result {
        Err(error) if *error.error() == ErrorType::DepthLimitExceeded => Ok(()),
        _ => Err(Refused),
    }
}

#[cfg(target_arch = "x86_64")]
fn find_by_avx512(
    body: &[u8],
    found: &mut avx512::StructuralMarks,
    escapes: &mut Vec<u32>,
) -> Result<(), Refused> {
    #[expect(
        unsafe_code,
        reason = "the only way to call what needs a processor feature"
    )]
    // SAFETY: this is reached only if the processor has what the function needs.
    unsafe { avx512::find(body, found, escapes) }.ok_or(Refused)?;
    if !found.is_ascii {
        simdutf8::basic::from_utf8(body).map_err(|_| Refused)?;
    }
    for at in escapes {
        let after = body.get(*at as usize + 1..).unwrap_or_default();
        escape_len(after).ok_or(Refused)?;
    }
    Ok(())
}

/// Checks every escape, wherever it is: one outside a string is found by the walk.
fn find_escapes(body: &[u8], escapes: &mut Vec<u32>) -> Result<(), Refused> {
    let mut from = 0;
    while let Some(rest) = body.get(from..) {
        // Where there is one there are often more, and a search takes its time to begin.
        let next = match rest.first() {
            Some(b'\\') => Some(0),
            _ => memchr::memchr(b'\\', rest),
        };
        let Some(next) = next else { break };
        let at = from + next;
        escapes.push(u32::try_from(at).map_err(|_| Refused)?);
        from = at + escape_len(body.get(at + 1..).unwrap_or_default()).ok_or(Refused)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_has_all_marks_and_escapes() {
        let text = br#" {"a\n": [1, "b\u00e9\"", true ], "c":{}}"#;
        for mut index in [Index::portable(), Index::default(), Index::default()] {
            index.build(text).unwrap();
            assert_eq!(
                index.marks(),
                [1, 2, 7, 9, 10, 11, 13, 24, 26, 31, 32, 34, 37, 38, 39, 40]
            );
            assert_eq!(index.characters(), b"{\":[1,\",t],\":{}}\0\0\0\0");
            assert_eq!(index.escapes(), [4, 15, 21]);
        }
    }

    #[test]
    fn a_text_that_is_not_json_is_refused() {
        let table: [&[u8]; 11] = [
            b"",
            b"  ",
            b"1",
            b"\"a\\n\"",
            b"[\"a]",
            b"[\"\x01\"]",
            b"[\"\xff\"]",
            b"[\"\\x\"]",
            b"[\"\\u00g0\"]",
            b"[\"\\u12",
            b"[\\",
        ];
        for bytes in table {
            for mut index in [Index::portable(), Index::default()] {
                assert!(index.build(bytes).is_err(), "{bytes:?}");
            }
        }
    }
}
