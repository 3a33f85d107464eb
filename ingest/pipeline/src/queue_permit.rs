//! A request's permit of its lane's queue.

use crate::Refusal;
use crate::capacity::QueueCapacity;
use std::sync::Arc;

/// Share of a queue's capacity that a request holds. Dropping the permit gives it back.
pub struct QueuePermit {
    queue: Arc<QueueCapacity>,
    bytes: usize,
    /// Bytes of rows beyond the bytes of the body.
    more_bytes: usize,
    /// True once the commit thread has the request.
    is_handed_over: bool,
}

impl QueuePermit {
    /// A permit for capacity that [`QueueCapacity::reserve`] took.
    pub fn new(queue: Arc<QueueCapacity>, bytes: usize) -> Self {
        Self {
            queue,
            bytes,
            more_bytes: 0,
            is_handed_over: false,
        }
    }

    /// Bytes that were reserved for the request's body.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Reserves the bytes by which the rows exceed the body that they came in.
    pub fn reserve_row_bytes(&mut self, row_bytes: usize) -> Result<(), Refusal> {
        let own_bytes = self.bytes + self.more_bytes;
        if let Some(more @ 1..) = row_bytes.checked_sub(own_bytes) {
            self.queue.grow(own_bytes, more)?;
            self.more_bytes += more;
        }
        Ok(())
    }

    /// Counts the request's bytes as work of the commit thread from now on.
    pub fn hand_over(&mut self) {
        if !self.is_handed_over {
            self.queue.hand_over(self.bytes);
            self.is_handed_over = true;
        }
    }
}

impl Drop for QueuePermit {
    fn drop(&mut self) {
        if self.is_handed_over {
            self.queue.take_back(self.bytes);
        }
        self.queue.release(self.bytes + self.more_bytes);
    }
}
