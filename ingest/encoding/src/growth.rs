//! Growth of buffers whose final size is not known.

/// Size past which a buffer is made as large as it may become: growing copies, and while it does,
/// both buffers are there.
pub(crate) const LARGE_BYTES: usize = 4 << 20;

/// Next size to try when `len` bytes were not enough; `None` at the limit.
pub(crate) fn grown(len: usize, bytes_max: usize) -> Option<usize> {
    let next = match len {
        LARGE_BYTES.. => bytes_max,
        _ => len.saturating_mul(4).max(16 << 10).min(bytes_max),
    };
    (len < bytes_max).then_some(next)
}

/// Lengthens `out` to `len` bytes: the first `kept` stay as they are, and zeros, or anything,
/// follow. A large one is allocated anew with the capacity that is allowed: its zeros come from the
/// system and take no memory until they are written.
pub(crate) fn lengthen(out: &mut Vec<u8>, kept: usize, len: usize, bytes_max: usize) {
    if len <= LARGE_BYTES || out.capacity() >= len {
        out.resize(len, 0);
        return;
    }
    out.truncate(kept);
    out.shrink_to_fit();
    let mut longer = vec![0; bytes_max.max(len)];
    if let Some(start) = longer.get_mut(..out.len()) {
        start.copy_from_slice(out);
    }
    longer.truncate(len);
    *out = longer;
}
