//! Primitives that decide the order of events on the way into the log: threads, flags and counters,
//! the channel to the commit thread, its answers.
//!
//! In this crate's own tests they are shuttle's, which chooses at each call which thread goes on,
//! so that the same code can be run in a million orders (`thread_schedules`).

#[cfg(not(test))]
pub use {
    crossbeam_channel::{Receiver, Sender, TrySendError, bounded},
    std::sync::atomic::{AtomicBool, AtomicUsize},
    std::thread::{Builder, JoinHandle},
    tokio::sync::oneshot,
};

#[cfg(test)]
pub use {
    channel::{Receiver, bounded},
    shuttle::sync::atomic::{AtomicBool, AtomicUsize},
    shuttle::sync::mpsc::{SyncSender as Sender, TrySendError},
    shuttle::thread::{Builder, JoinHandle},
};

#[cfg(test)]
mod channel {
    use super::Sender;
    use shuttle::sync::mpsc::{self, RecvError, TryRecvError};

    pub fn bounded<T>(places: usize) -> (Sender<T>, Receiver<T>) {
        let (sender, receiver) = mpsc::sync_channel(places);
        (sender, Receiver(receiver))
    }

    /// Receiver that drops unread messages when it is dropped, as crossbeam's does and shuttle's
    /// does not.
    pub struct Receiver<T>(mpsc::Receiver<T>);

    impl<T> Receiver<T> {
        pub fn recv(&self) -> Result<T, RecvError> {
            self.0.recv()
        }

        pub fn try_recv(&self) -> Result<T, TryRecvError> {
            self.0.try_recv()
        }
    }

    impl<T> Drop for Receiver<T> {
        fn drop(&mut self) {
            while self.0.try_recv().is_ok() {}
        }
    }
}

/// Tokio's oneshot channel that yields to other threads after an answer.
#[cfg(test)]
pub mod oneshot {
    use tokio::sync::oneshot;
    pub use tokio::sync::oneshot::Receiver;

    #[derive(Debug)]
    pub struct Sender<T>(oneshot::Sender<T>);

    pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
        let (sender, receiver) = oneshot::channel();
        (Sender(sender), receiver)
    }

    impl<T> Sender<T> {
        pub fn send(self, value: T) -> Result<(), T> {
            let sent = self.0.send(value);
            shuttle::thread::yield_now();
            sent
        }
    }
}
