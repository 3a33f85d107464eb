//! Clocks: the time of day, settable in tests.

use crate::Micros;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Source of the time of day.
pub trait Clock: Send + Sync + 'static {
    /// The time now.
    fn now(&self) -> Micros;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[allow(
        clippy::disallowed_methods,
        reason = "the one place that reads the clock"
    )]
    fn now(&self) -> Micros {
        let since_epoch = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Micros(i64::try_from(since_epoch.as_micros()).unwrap_or(i64::MAX))
    }
}

/// A clock that stands still until it is set; clones share the time.
#[derive(Clone, Debug, Default)]
pub struct TestClock(Arc<AtomicI64>);

impl TestClock {
    /// A clock that shows `now`.
    #[must_use]
    pub fn at(now: Micros) -> Self {
        let clock = Self::default();
        clock.set(now);
        clock
    }

    /// Sets the time.
    pub fn set(&self, now: Micros) {
        self.0.store(now.0, Ordering::Release);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Micros {
        Micros(self.0.load(Ordering::Acquire))
    }
}
