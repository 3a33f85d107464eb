//! Panic points: places where a test has a thread panic, as a mistake of ours would.
//!
//! Beside the [fail points](crate::fail_point), and like them in a program with the feature
//! `failpoints` only: without it [`pass`] is empty. Fail points stand where a crash may leave
//! something on the disk, and all are tried by `millrace-load crash`; panic points stand in the
//! threads and tasks that a server has, and each has a test of its own in `deploy/tests/it`. Those
//! of the layers above are here as well.

use strum::{EnumString, IntoStaticStr};

/// A place at which a thread may panic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum PanicPoint {
    /// A worker of ingestion has a new connection.
    ConnectionAccepted,
    /// A request begins to be stored.
    RequestSubmitted,
    /// A commit thread has requests to store.
    GroupTaken,
    /// A shipper has read a frame of its log.
    FrameRead,
    /// The watermark's task has named the time that the watermark is to advance to.
    WatermarkNamed,
    /// The watermark was written to the catalog.
    WatermarkPublished,
    /// The quota leases of all projects were renewed.
    LeasesRenewed,
}

/// Passes a panic point. Panics if it was armed and not passed before.
#[cfg(not(feature = "failpoints"))]
#[inline(always)]
pub const fn pass(_point: PanicPoint) {}

#[cfg(feature = "failpoints")]
pub use armed::pass;

#[cfg(feature = "failpoints")]
mod armed {
    use super::PanicPoint;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicBool, Ordering};

    static ARMED: OnceLock<PanicPoint> = OnceLock::new();
    static IS_PASSED: AtomicBool = AtomicBool::new(false);

    impl PanicPoint {
        /// Arms the point in this process. Once only: later calls change nothing.
        pub fn arm(self) {
            ARMED.get_or_init(|| self);
        }
    }

    /// Passes a panic point. Panics if it was [armed](PanicPoint::arm) and not passed before.
    #[expect(clippy::panic, reason = "it is made to panic")]
    pub fn pass(point: PanicPoint) {
        if ARMED.get() == Some(&point) && !IS_PASSED.swap(true, Ordering::Relaxed) {
            let name: &'static str = point.into();
            panic!("panic point {name}");
        }
    }
}
