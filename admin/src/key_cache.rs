//! The ingestion path's cache of project keys, where it is in the same process: told of a change
//! before whoever made it has an answer, so that an old key is dead when its successor is known.

use futures_util::future::BoxFuture;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

type CatchUp = dyn Fn() -> BoxFuture<'static, ()> + Send + Sync;

/// What is waited for after every change. The default is nothing: ingestion elsewhere looks for
/// changes by itself.
#[derive(Clone, Default)]
pub struct KeyCache(Option<Arc<CatchUp>>);

impl KeyCache {
    /// A cache that has caught up with the catalog when the future ends.
    pub fn new<F>(catch_up: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Self(Some(Arc::new(move || Box::pin(catch_up()))))
    }

    /// Waits until the cache knows of all that was committed before the call.
    pub(crate) async fn catch_up(&self) {
        if let Some(catch_up) = &self.0 {
            catch_up().await;
        }
    }
}

impl fmt::Debug for KeyCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.0.is_some() {
            "here"
        } else {
            "elsewhere"
        };
        write!(f, "KeyCache({place})")
    }
}
