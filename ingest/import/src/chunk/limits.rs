//! Limits on the size of chunks and requests.

/// Limits on the size of chunks and requests.
#[derive(Clone, Copy, Debug)]
pub struct ChunkLimits {
    /// Bytes of requests and rejects at which a chunk ends.
    pub chunk_bytes: usize,
    /// Number of records at which a chunk ends: skipped ones have no bytes.
    pub chunk_records: u64,
    /// Most bytes of a request.
    pub request_bytes: usize,
    /// Most events of a request.
    pub request_events: usize,
}

impl Default for ChunkLimits {
    fn default() -> Self {
        Self {
            chunk_bytes: 16 << 20,
            chunk_records: 100_000,
            request_bytes: 4 << 20,
            request_events: 5_000,
        }
    }
}
