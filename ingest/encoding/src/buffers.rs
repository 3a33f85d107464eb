//! Spare buffers of one core, and bodies in one piece.

use bytes::Bytes;
use std::cell::RefCell;
use std::ops::Deref;

/// Spare buffers that are kept, at most.
const KEPT_MAX: usize = 64;
/// Bytes that the spare buffers hold together, at most: any number of large ones at the same time
/// must not leave them with every core.
const SPARE_BYTES_MAX: usize = 16 << 20;
/// Capacity past which a buffer is given back to the allocator: one large import must not leave
/// every core holding its size for ever.
const KEPT_BYTES_MAX: usize = 4 << 20;

/// Spare buffers, empty again after use.
#[derive(Debug, Default)]
pub struct Buffers(RefCell<Spare>);

#[derive(Debug, Default)]
struct Spare {
    buffers: Vec<Vec<u8>>,
    /// Bytes that they hold.
    bytes: usize,
}

impl Buffers {
    /// Takes an empty buffer of any capacity.
    #[must_use]
    pub fn take(&self) -> Vec<u8> {
        let mut spare = self.0.borrow_mut();
        let buffer = spare.buffers.pop().unwrap_or_default();
        spare.bytes -= buffer.capacity();
        buffer
    }

    /// Takes a buffer back.
    pub fn put(&self, mut buffer: Vec<u8>) {
        let mut spare = self.0.borrow_mut();
        let bytes = buffer.capacity();
        if spare.buffers.len() < KEPT_MAX
            && bytes <= KEPT_BYTES_MAX
            && spare.bytes + bytes <= SPARE_BYTES_MAX
        {
            buffer.clear();
            spare.buffers.push(buffer);
            spare.bytes += bytes;
        }
    }
}

/// Body in one piece, in a frame or a buffer.
#[derive(Debug)]
pub enum BodyBuf {
    /// Frame that hyper read: the body came in one, as most do, and was never copied.
    Frame(Bytes),
    /// Buffer of a body that was gathered from several frames, or decoded.
    Buffer(Vec<u8>),
}

impl Deref for BodyBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Frame(bytes) => bytes,
            Self::Buffer(bytes) => bytes,
        }
    }
}

impl BodyBuf {
    /// Gives the buffer back for the next body.
    pub fn recycle(self, buffers: &Buffers) {
        match self {
            Self::Frame(bytes) => drop(bytes),
            Self::Buffer(bytes) => buffers.put(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_empty_unless_it_grew_huge() {
        let buffers = Buffers::default();
        buffers.put(b"used".to_vec());
        let buffer = buffers.take();
        assert!(buffer.is_empty() && buffer.capacity() >= 4);
        buffers.put(Vec::with_capacity(KEPT_BYTES_MAX + 1));
        assert_eq!(buffers.take().capacity(), 0);
    }

    /// Regression: 256 MiB stayed with each core.
    #[test]
    fn spare_buffers_hold_16_mib_together() {
        let buffers = Buffers::default();
        for _ in 0..2 {
            for _ in 0..KEPT_MAX {
                buffers.put(Vec::with_capacity(KEPT_BYTES_MAX));
            }
            let kept = std::iter::from_fn(|| Some(buffers.take().capacity()).filter(|it| *it > 0));
            assert_eq!(kept.sum::<usize>(), SPARE_BYTES_MAX);
        }
    }
}
