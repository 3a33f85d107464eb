//! Spare buffers of one core, and bodies in one piece.

use bytes::Bytes;
use std::cell::RefCell;
use std::ops::Deref;

/// Spare buffers that are kept, at most.
const KEPT_MAX: usize = 64;
/// Capacity past which a buffer is given back to the allocator: one large import must not leave
/// every core holding its size for ever.
const KEPT_BYTES_MAX: usize = 4 << 20;

/// Spare buffers, empty again after use.
#[derive(Debug, Default)]
pub struct Buffers {
    spare: RefCell<Vec<Vec<u8>>>,
}

impl Buffers {
    /// Takes an empty buffer of any capacity.
    #[must_use]
    pub fn take(&self) -> Vec<u8> {
        self.spare.borrow_mut().pop().unwrap_or_default()
    }

    /// Takes a buffer back.
    pub fn put(&self, mut buffer: Vec<u8>) {
        let mut spare = self.spare.borrow_mut();
        if spare.len() < KEPT_MAX && buffer.capacity() <= KEPT_BYTES_MAX {
            buffer.clear();
            spare.push(buffer);
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
}
