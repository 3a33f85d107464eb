//! Ingestion's cache of project keys, if ingestion runs in the same process. It is updated
//! before a change is answered, so that an old key is refused once the client knows the new one.

use futures_util::future::BoxFuture;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

type CatchUp = dyn Fn() -> BoxFuture<'static, ()> + Send + Sync;

/// Hook that is awaited after every change. The default does nothing: ingestion in another
/// process polls for changes.
#[derive(Clone, Default)]
pub struct KeyCache(Option<Arc<CatchUp>>);

impl KeyCache {
    /// Creates a hook; its future resolves when the cache has caught up with the catalog.
    pub fn new<F>(catch_up: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Self(Some(Arc::new(move || Box::pin(catch_up()))))
    }

    /// Waits until the cache has everything that was committed before the call.
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
