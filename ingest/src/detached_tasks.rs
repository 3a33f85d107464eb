//! Detached tasks: submissions outlive their connections.
//!
//! hyper drops a handler when the client goes away. A submitted batch is committed all the same,
//! but what follows the commit has to happen too: the request's fingerprint must be remembered,
//! because a client that went away is the one that sends again. So a handler awaits a
//! [`RunToCompletion`] future; dropped before its end, it is handed to the core's
//! [`DetachedTasks`], which drive it to its end.

use futures_util::future::LocalBoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Futures of one core whose handlers are gone.
#[derive(Default)]
pub struct DetachedTasks {
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
            let mut waiting = self.waiting.borrow_mut();
            while let Poll::Ready(Some(())) = waiting.poll_next_unpin(cx) {}
            *self.waker.borrow_mut() = Some(cx.waker().clone());
            Poll::<()>::Pending
        })
        .await;
    }

    /// Returns true if no detached future is left.
    pub fn is_empty(&self) -> bool {
        self.waiting.borrow().is_empty()
    }

    fn take(&self, future: LocalBoxFuture<'static, ()>) {
        self.waiting.borrow_mut().push(future);
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
        let Some(future) = &mut self.future else {
            return Poll::Pending;
        };
        let polled = future.as_mut().poll(cx);
        if polled.is_ready() {
            self.future = None;
        }
        polled
    }
}

impl<T: 'static> Drop for RunToCompletion<T> {
    fn drop(&mut self) {
        if let Some(future) = self.future.take() {
            self.tasks.take(Box::pin(async move {
                future.await;
            }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use tokio::sync::oneshot;

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
            assert!(futures_util::poll!(&mut guarded).is_pending());
            drop(guarded);
            assert!(!tasks.is_empty());
            let mut drive = Box::pin(tasks.drive());
            assert!(futures_util::poll!(&mut drive).is_pending());
            sender.send(()).unwrap();
            assert!(futures_util::poll!(&mut drive).is_pending());
            assert!(done.get());
            assert!(tasks.is_empty());
        });
    }
}
