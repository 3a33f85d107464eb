//! One core's spare buffers.

use std::cell::RefCell;

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
