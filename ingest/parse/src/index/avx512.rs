//! First pass by AVX-512, for processors that have it.
//!
//! It finds exactly what simd-json finds (a property test holds the two together) with a third
//! of the instructions: 64 bytes fit one register, comparisons yield bit masks directly, and the
//! offsets of marks are packed by one instruction instead of a loop over bits, their characters by
//! another.
//! Escapes are noted on the way; simd-json does not hand them out.

use std::arch::x86_64::{
    __m128i, __m512i, _MM_HINT_T0, _mm_clmulepi64_si128, _mm_prefetch, _mm_set_epi64x,
    _mm512_add_epi32, _mm512_and_si512, _mm512_cmpeq_epi8_mask, _mm512_cmplt_epu8_mask,
    _mm512_cvtepu8_epi32, _mm512_maskz_compress_epi8, _mm512_movepi8_mask, _mm512_or_si512,
    _mm512_set1_epi8, _mm512_set1_epi32, _mm512_shuffle_epi8, _mm512_srli_epi16,
    _mm512_test_epi8_mask,
};

use crate::characters::CHARACTERS_BEHIND;

/// Bytes that are looked at together.
const BLOCK_BYTES: usize = 64;
/// Bytes by which memory is fetched ahead.
const PREFETCH_BYTES: usize = 1024;

/// Classes of structural characters, a bit each: comma, colon, brackets and braces.
const STRUCTURE: i8 = 0b0_0111;
/// Classes of white space: tab, line feed and carriage return; blank.
const WHITE: i8 = 0b1_1000;
/// Classes that a byte may belong to by its lower four bits.
const BY_LOW: [u8; 16] = [16, 0, 0, 0, 0, 0, 0, 0, 0, 8, 10, 4, 1, 12, 0, 0];
/// Classes that a byte may belong to by its upper four bits.
const BY_HIGH: [u8; 16] = [8, 0, 17, 2, 0, 4, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0];

/// Offsets of a register's 64 bytes.
const PLACES: [u8; BLOCK_BYTES] = places();

const fn places() -> [u8; BLOCK_BYTES] {
    let mut places = [0; BLOCK_BYTES];
    let mut left: &mut [u8] = &mut places;
    let mut at = 0;
    while let Some((place, behind)) = left.split_first_mut() {
        *place = at;
        at += 1;
        left = behind;
    }
    places
}

/// Returns true if this processor can run this pass.
pub(super) fn is_available() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vbmi2")
        && is_x86_feature_detected!("pclmulqdq")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("popcnt")
}

/// State that is carried from block to block.
struct State {
    /// 1 if the first byte of the next block is escaped.
    escaped: u64,
    /// All ones inside a string.
    inside: u64,
    /// 1 if a value may begin with the next block's first byte: after structure or white space.
    may_begin: u64,
    /// Control characters inside strings.
    bad: u64,
    /// All bytes so far, combined by or.
    any: __m512i,
}

/// Marks that were found in a body.
#[derive(Default)]
pub(super) struct StructuralMarks {
    /// Offsets of the marks; only the first `len` count.
    pub marks: Vec<u32>,
    /// Characters of the marks.
    pub characters: Vec<u8>,
    /// Number of marks.
    pub len: usize,
    /// True if there are only ASCII characters.
    pub is_ascii: bool,
}

impl StructuralMarks {
    /// Allocates for so many marks at once, memory that is not touched before it is needed.
    pub(super) fn reserve(&mut self, marks: usize) {
        let space = marks + BLOCK_BYTES;
        self.marks = vec![0; space];
        self.characters = vec![0; space + CHARACTERS_BEHIND];
    }
}

/// Finds marks and escapes of a body. `None` if a string is not closed or holds a control
/// character; whether escapes and UTF-8 are valid is left to the caller.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,pclmulqdq,bmi1,popcnt")]
pub(super) fn find(body: &[u8], found: &mut StructuralMarks, escapes: &mut Vec<u32>) -> Option<()> {
    let mut state = State {
        escaped: 0,
        inside: 0,
        may_begin: 1,
        bad: 0,
        any: _mm512_set1_epi8(0),
    };
    let mut len = 0;
    let mut base = 0_u32;
    let (blocks, rest) = body.as_chunks::<BLOCK_BYTES>();
    let mut last = [b' '; BLOCK_BYTES];
    last.get_mut(..rest.len())?.copy_from_slice(rest);
    for block in blocks.iter().chain([&last]) {
        if found.marks.len() - len < BLOCK_BYTES {
            let space = found.marks.len() * 2 + BLOCK_BYTES;
            found.marks.resize(space, 0);
            found.characters.resize(space + CHARACTERS_BEHIND, 0);
        }
        prefetch(block);
        let bits = state.block(block, base, escapes);
        let characters = found.characters.get_mut(len..)?.first_chunk_mut()?;
        *characters = pack_characters(bits, block);
        pack_offsets(bits, base, found.marks.get_mut(len..)?.first_chunk_mut()?);
        len += bits.count_ones() as usize;
        base += 64;
    }
    let behind = found.characters.get_mut(len..len + CHARACTERS_BEHIND)?;
    behind.fill(0);
    found.len = len;
    found.is_ascii = _mm512_movepi8_mask(state.any) == 0;
    (state.bad == 0 && state.inside == 0).then_some(())
}

/// Fetches the memory [`PREFETCH_BYTES`] behind a block. The kernel has just copied the body in, by
/// a way that leaves it in an outer cache.
#[inline]
fn prefetch(block: &[u8; BLOCK_BYTES]) {
    let ahead = block.as_ptr().wrapping_add(PREFETCH_BYTES);
    #[expect(unsafe_code, reason = "takes a pointer")]
    // SAFETY: a hint, which may name any address.
    unsafe {
        _mm_prefetch::<_MM_HINT_T0>(ahead.cast());
    }
}

impl State {
    /// Marks of a block, a bit for each byte.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,pclmulqdq,bmi1,popcnt")]
    fn block(&mut self, block: &[u8; BLOCK_BYTES], base: u32, escapes: &mut Vec<u32>) -> u64 {
        let bytes: __m512i = bytemuck::must_cast(*block);
        let backslashes = _mm512_cmpeq_epi8_mask(bytes, _mm512_set1_epi8(b'\\' as i8));
        let mut escaped = self.escaped;
        self.escaped = 0;
        if backslashes != 0 {
            (escaped, self.escaped) = escaped_bytes(backslashes, escaped, base, escapes);
        }
        let quotes = _mm512_cmpeq_epi8_mask(bytes, _mm512_set1_epi8(b'"' as i8)) & !escaped;
        // From each opening quote up to, but without, the closing one.
        let inside = parity(quotes) ^ self.inside;
        self.inside = ((inside as i64) >> 63) as u64;
        self.bad |= _mm512_cmplt_epu8_mask(bytes, _mm512_set1_epi8(0x20)) & inside;
        self.any = _mm512_or_si512(self.any, bytes);

        let (structure, white) = classes(bytes);
        let structure = (structure & !inside) | quotes;
        let before = structure | white;
        let may_begin = (before << 1) | self.may_begin;
        self.may_begin = before >> 63;
        let begins = may_begin & !white & !inside;
        // Without the closing quotes.
        (structure | begins) & !(quotes & !inside)
    }
}

/// Bytes behind the backslashes that begin an escape, in this block and in the next; notes those
/// backslashes.
#[cold]
fn escaped_bytes(
    backslashes: u64,
    mut escaped: u64,
    base: u32,
    escapes: &mut Vec<u32>,
) -> (u64, u64) {
    let mut left = backslashes & !escaped;
    let mut escaped_next = 0;
    while left != 0 {
        let at = left.trailing_zeros();
        escapes.push(base + at);
        let behind = 1_u64.checked_shl(at + 1).unwrap_or(0);
        escaped_next = u64::from(behind == 0);
        escaped |= behind;
        left &= (left - 1) & !behind;
    }
    (escaped, escaped_next)
}

/// Sets each bit up to and with which an odd number of bits are set.
#[inline]
#[target_feature(enable = "pclmulqdq")]
fn parity(bits: u64) -> u64 {
    let bits = _mm_set_epi64x(0, bits as i64);
    let product: __m128i = _mm_clmulepi64_si128::<0>(bits, _mm_set_epi64x(0, -1));
    let [low, _]: [u64; 2] = bytemuck::must_cast(product);
    low
}

/// Structural characters and white space of a block.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn classes(bytes: __m512i) -> (u64, u64) {
    let by_low: __m512i = bytemuck::must_cast([BY_LOW; 4]);
    let by_high: __m512i = bytemuck::must_cast([BY_HIGH; 4]);
    let high = _mm512_and_si512(_mm512_srli_epi16::<4>(bytes), _mm512_set1_epi8(0x0f));
    // A byte with its highest bit set belongs to no class: the look-up yields 0 for it.
    let class = _mm512_and_si512(
        _mm512_shuffle_epi8(by_low, bytes),
        _mm512_shuffle_epi8(by_high, high),
    );
    (
        _mm512_test_epi8_mask(class, _mm512_set1_epi8(STRUCTURE)),
        _mm512_test_epi8_mask(class, _mm512_set1_epi8(WHITE)),
    )
}

/// Packs the characters whose bits are set to the front.
#[inline]
#[target_feature(enable = "avx512f,avx512vbmi2")]
fn pack_characters(bits: u64, block: &[u8; BLOCK_BYTES]) -> [u8; BLOCK_BYTES] {
    bytemuck::must_cast(_mm512_maskz_compress_epi8(
        bits,
        bytemuck::must_cast(*block),
    ))
}

/// Writes the offsets of the set bits to the front of `out`; the rest of it does not count.
#[inline]
#[target_feature(enable = "avx512f,avx512vbmi2,popcnt")]
fn pack_offsets(bits: u64, base: u32, out: &mut [u32; BLOCK_BYTES]) {
    let packed = _mm512_maskz_compress_epi8(bits, bytemuck::must_cast(PLACES));
    let quarters: [__m128i; 4] = bytemuck::must_cast(packed);
    let base = _mm512_set1_epi32(base as i32);
    let (out, _) = out.as_chunks_mut::<16>();
    for (nth, (quarter, out)) in quarters.into_iter().zip(out).enumerate() {
        // Rarely is every other character structure.
        if nth == 2 && bits.count_ones() <= 32 {
            return;
        }
        let offsets = _mm512_add_epi32(_mm512_cvtepu8_epi32(quarter), base);
        *out = bytemuck::must_cast::<__m512i, [u32; 16]>(offsets);
    }
}
