//! Faults of the model.

/// Fault that is injected, to see that it is noticed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fault {
    None,
    NoSecondLook,
    MinReadBeforeEpoch,
    MinRaisedAfterEpoch,
    NoMinimum,
    NoWaitForRequests,
    NoWaitForShipping,
    NoWaitForUpdates,
    UpdatesWaitForEvents,
}
