//! A request's place in its lane's queue.

use crate::Refusal;
use crate::room::Queue;
use std::sync::Arc;

/// What a request takes of a queue. Dropping it gives that back.
pub struct Place {
    queue: Arc<Queue>,
    bytes: usize,
    /// Bytes of rows beyond those of the body.
    more_bytes: usize,
    /// Whether the commit thread has it.
    is_handed_over: bool,
}

impl Place {
    /// A place that was taken with [`Queue::enter`].
    pub fn new(queue: Arc<Queue>, bytes: usize) -> Self {
        Self {
            queue,
            bytes,
            more_bytes: 0,
            is_handed_over: false,
        }
    }

    /// Bytes that it was taken for.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Has the queue count rows where they take more room than the body they came in.
    pub fn weigh(&mut self, row_bytes: usize) -> Result<(), Refusal> {
        let own_bytes = self.bytes + self.more_bytes;
        if let Some(more @ 1..) = row_bytes.checked_sub(own_bytes) {
            self.queue.grow(own_bytes, more)?;
            self.more_bytes += more;
        }
        Ok(())
    }

    /// From now on its bytes are work of the commit thread.
    pub fn hand_over(&mut self) {
        if !self.is_handed_over {
            self.queue.hand_over(self.bytes);
            self.is_handed_over = true;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.is_handed_over {
            self.queue.take_back(self.bytes);
        }
        self.queue.leave(self.bytes + self.more_bytes);
    }
}
