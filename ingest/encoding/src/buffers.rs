//! One core's spare buffers, and bodies in one piece.

use bytes::Bytes;
use std::cell::RefCell;
use std::ops::Deref;

/// Buffers kept at most.
const KEPT_MAX: usize = 64;
/// Capacity past which a buffer is given back to the allocator: one large import must not leave
/// every core holding its size for ever.
const KEPT_BYTES_MAX: usize = 4 << 20;

/// Buffers that were used before and are empty again.
#[derive(Debug, Default)]
pub struct Buffers {
    spare: RefCell<Vec<Vec<u8>>>,
}

impl Buffers {
    /// An empty buffer, of any capacity.
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

/// A whole body in one piece, wherever that is.
#[derive(Debug)]
pub enum Whole {
    /// Where hyper read it to: it came in one frame, as most do, and was never copied.
    Frame(Bytes),
    /// Gathered from several frames, or decoded.
    Buffer(Vec<u8>),
}

impl Deref for Whole {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Frame(bytes) => bytes,
            Self::Buffer(bytes) => bytes,
        }
    }
}

impl Whole {
    /// Lets go of it, for the next one.
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
