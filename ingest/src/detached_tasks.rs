//! Detached tasks: submissions outlive their connections.
//!
//! hyper drops a handler when the client goes away. A submitted batch is committed all the same,
//! but what follows the commit has to happen too: the request's fingerprint must be remembered,
//! because a client that went away is the one that sends again. So a handler awaits a
//! [`RunToCompletion`] future; dropped before its end, it is handed to the core's
//! [`DetachedTasks`], which drive it to its end.
//!
//! A panic ends the submission that it is in and no other, whether its client is still there or
//! not: a request must not cost more because its client went away. Nothing is left half counted by
//! it. Its rows are with the commit thread as a whole, which counts an import's events itself, or
//! they are not stored; everything else that it holds (its place in an epoch, in the queue and in
//! the import quota, a charge for older months) is given back as it is dropped. Its client, which
//! got no answer, sends it again.

use crate::metrics;
use futures_util::future::{FutureExt, LocalBoxFuture};
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Futures of one core whose handlers are gone.
#[derive(Default)]
pub struct DetachedTasks {
    /// Futures that [`drive`](Self::drive) has not seen yet. Apart from the others, as one of those
    /// may hand over another while it is polled.
    handed_over: RefCell<Vec<LocalBoxFuture<'static, ()>>>,
    waiting: RefCell<FuturesUnordered<LocalBoxFuture<'static, ()>>>,
    waker: RefCell<Option<Waker>>,
}

impl DetachedTasks {
    /// Wraps a future that is to reach its end even if the caller is cancelled.
    pub fn run_to_completion<F>(self: &Rc<Self>, future: F) -> RunToCompletion<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        RunToCompletion {
            future: Some(Box::pin(future)),
            tasks: Rc::clone(self),
        }
    }

    /// Drives detached futures; never ends.
    pub async fn drive(&self) {
        poll_fn(|cx| {
            // First: a future that is handed over below wakes this task again.
            *self.waker.borrow_mut() = Some(cx.waker().clone());
            let mut waiting = self.waiting.borrow_mut();
            waiting.extend(self.handed_over.take());
            while let Poll::Ready(Some(())) = waiting.poll_next_unpin(cx) {}
            Poll::<()>::Pending
        })
        .await;
    }

    /// Returns true if no detached future is left.
    pub fn is_empty(&self) -> bool {
        self.handed_over.borrow().is_empty() && self.waiting.borrow().is_empty()
    }

    fn take(&self, future: LocalBoxFuture<'static, ()>) {
        self.handed_over.borrow_mut().push(future);
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }
}

/// Future that reaches its end even when it is dropped.
pub struct RunToCompletion<T: 'static> {
    future: Option<LocalBoxFuture<'static, T>>,
    tasks: Rc<DetachedTasks>,
}

impl<T> Future for RunToCompletion<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        // Taken out: one that panics must not be here for `drop` to hand over, to be polled again.
        let Some(mut future) = self.future.take() else {
            return Poll::Pending;
        };
        let polled = future.as_mut().poll(cx);
        if polled.is_pending() {
            self.future = Some(future);
        }
        polled
    }
}

impl<T: 'static> Drop for RunToCompletion<T> {
    fn drop(&mut self) {
        if let Some(future) = self.future.take() {
            self.tasks.take(Box::pin(contained(future)));
        }
    }
}

/// Drives a future to its end or its panic, which goes no further.
async fn contained<T>(future: LocalBoxFuture<'static, T>) {
    // Nothing of it is used after a panic.
    if AssertUnwindSafe(future).catch_unwind().await.is_err() {
        metrics::panicked();
        tracing::error!("a request panicked after its client had gone");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::poll;
    use std::cell::Cell;
    use std::panic::catch_unwind;
    use tokio::sync::oneshot;

    async fn failing() {
        panic!("a mistake of ours");
    }

    /// Polls what is detached until nothing wakes it.
    async fn drive(tasks: &DetachedTasks) {
        let mut drive = Box::pin(tasks.drive());
        assert!(poll!(&mut drive).is_pending());
        assert!(poll!(&mut drive).is_pending());
    }

    #[tokio::test]
    async fn a_future_that_panics_is_dropped_at_once_with_a_client_or_without() {
        for is_attached in [true, false] {
            let tasks = Rc::new(DetachedTasks::default());
            let held = Rc::new(());
            let holds = Rc::clone(&held);
            let mut guarded = tasks.run_to_completion(async move {
                let _held = holds;
                tokio::task::yield_now().await;
                failing().await;
            });
            let mut context = Context::from_waker(Waker::noop());
            assert!(Pin::new(&mut guarded).poll(&mut context).is_pending());
            if is_attached {
                let poll = || Pin::new(&mut guarded).poll(&mut context).is_ready();
                assert!(catch_unwind(AssertUnwindSafe(poll)).is_err());
                assert_eq!(Rc::strong_count(&held), 1, "it holds what it held");
            }
            drop(guarded);
            assert_eq!(tasks.is_empty(), is_attached, "it is polled again");
            let (sender, receiver) = oneshot::channel();
            drop(tasks.run_to_completion(async { sender.send(()).unwrap() }));
            drive(&tasks).await;
            assert_eq!(Rc::strong_count(&held), 1, "it holds what it held");
            assert!(receiver.await.is_ok(), "others end with it");
            assert!(tasks.is_empty());
        }
    }

    #[tokio::test]
    async fn a_detached_future_may_hand_over_another() {
        let tasks = Rc::new(DetachedTasks::default());
        let (sender, receiver) = oneshot::channel();
        let inner = Rc::clone(&tasks);
        drop(tasks.run_to_completion(async move {
            drop(inner.run_to_completion(async { sender.send(()).unwrap() }));
        }));
        drive(&tasks).await;
        assert!(receiver.await.is_ok());
        assert!(tasks.is_empty());
    }

    #[test]
    fn a_future_reaches_its_end_after_its_handler_is_gone() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime.block_on(async {
            let tasks = Rc::new(DetachedTasks::default());
            let done = Rc::new(Cell::new(false));
            let (sender, receiver) = oneshot::channel();
            let flag = Rc::clone(&done);
            let mut guarded = tasks.run_to_completion(async move {
                receiver.await.unwrap();
                flag.set(true);
            });
            assert!(poll!(&mut guarded).is_pending());
            drop(guarded);
            assert!(!tasks.is_empty());
            let mut drive = Box::pin(tasks.drive());
            assert!(poll!(&mut drive).is_pending());
            sender.send(()).unwrap();
            assert!(poll!(&mut drive).is_pending());
            assert!(done.get());
            assert!(tasks.is_empty());
        });
    }
}
