//! Cost of a body, and its bounds.

/// Bytes that a body may decode to in this test; a server allows fifty times as much.
pub(super) const DECODED_BYTES_MAX: usize = 2 << 20;
/// Bytes allowed to every body: tables and windows of decoders, and the smallest lists.
const FIXED_BYTES: u64 = 1 << 20;
/// Bytes allowed to every body in Brotli: a few bytes of it ask for 256 trees for each of literals,
/// insertions and distances, with 1 080 codes of four bytes each.
const BROTLI_TABLES_BYTES: u64 = 3 * 256 * 1_080 * 4;
/// Bytes of memory allowed for each byte that a body with a known key decodes to.
const KNOWN_BYTES_PER_BYTE: u64 = 40;
/// Bytes of memory allowed for each byte sent of any other body: 1 MiB for a kB.
const UNKNOWN_BYTES_PER_BYTE: u64 = 1 << 10;
/// The one project key that is known.
pub(super) const KEY: &str = "phc_known";
/// Core time allowed for each byte that a body with a known key decodes to. `make bench-check`
/// holds this and the next two bounds in instructions.
const KNOWN_NANOSECONDS_PER_BYTE: u64 = 20;
/// Core time allowed for each decoded byte of a slow encoding with a known key.
const KNOWN_SLOW_NANOSECONDS_PER_BYTE: u64 = 60;
/// Core time allowed for each kB sent of any other body.
const UNKNOWN_NANOSECONDS_PER_KB: u64 = 1_000_000;
/// Core time allowed to every body: tables of decoders, and the clock's resolution.
const FIXED_NANOSECONDS: u64 = 1_000_000;

/// Cost of a body.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// Bytes as sent.
    pub sent_bytes: u64,
    /// Bytes that it decoded to, or may have before it was refused.
    pub decoded_bytes: u64,
    /// Peak of allocated bytes.
    pub allocated_bytes: u64,
    /// Nanoseconds of a core, the least of several runs; 0 unless it was [timed](super::time_of).
    pub nanoseconds: u64,
    /// Part of the request that carries the text, and the text's encoding.
    pub way: [&'static str; 2],
    /// True if the body names the key that is known.
    pub is_key_known: bool,
    /// Bytes that are reserved and never written, which cost nothing.
    pub(super) reserved_bytes: u64,
    pub(super) is_slow: bool,
}

impl Cost {
    /// Most bytes of memory that the body may take.
    #[must_use]
    pub fn allowed_bytes(&self) -> u64 {
        let sent_bytes = self.sent_bytes.max(1 << 10);
        let unknown = sent_bytes * UNKNOWN_BYTES_PER_BYTE;
        let known = self.decoded_bytes * KNOWN_BYTES_PER_BYTE;
        let allowed = if self.is_key_known { known } else { unknown };
        let tables = if self.is_slow { BROTLI_TABLES_BYTES } else { 0 };
        FIXED_BYTES + tables + self.reserved_bytes + allowed
    }

    /// Most nanoseconds of a core that the body may take.
    #[must_use]
    pub fn allowed_nanoseconds(&self) -> u64 {
        let sent_bytes = self.sent_bytes.max(1 << 10);
        let each = if self.is_slow {
            KNOWN_SLOW_NANOSECONDS_PER_BYTE
        } else {
            KNOWN_NANOSECONDS_PER_BYTE
        };
        let known = self.decoded_bytes * each;
        let unknown = sent_bytes * UNKNOWN_NANOSECONDS_PER_KB / 1_000;
        FIXED_NANOSECONDS + if self.is_key_known { known } else { unknown }
    }

    /// Time taken in thousandths of the allowed time: a maker of bombs maximises it.
    #[must_use]
    pub fn thousandths_of_time(&self) -> u64 {
        self.nanoseconds * 1_000 / self.allowed_nanoseconds()
    }

    /// Bytes that the bounds count: decoded ones with a known key, and those sent without.
    #[must_use]
    pub fn counted_bytes(&self) -> u64 {
        if self.is_key_known {
            self.decoded_bytes
        } else {
            self.sent_bytes
        }
    }

    /// Memory taken in thousandths of the allowed memory: a maker of bombs maximises it.
    #[must_use]
    pub fn thousandths_of_memory(&self) -> u64 {
        self.allocated_bytes * 1_000 / self.allowed_bytes()
    }
}
