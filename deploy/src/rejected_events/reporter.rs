//! Outcomes of the events of a resend, told as they become known.

use super::corrected::CorrectedEvent;
use millrace_clickhouse::RejectedEvent;

/// Outcome of one event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventOutcome {
    /// The event is stored, or would be in a dry run.
    Accepted,
    /// The event is rejected again, for this reason.
    Rejected(String),
    /// The event cannot be sent, for this reason.
    Unsendable(String),
    /// Somebody else has sent the event meanwhile.
    AlreadySent,
    /// The server did not answer, and may have stored the event.
    InDoubt,
}

/// Listener to a resend.
pub trait Reporter: Send {
    /// Notes the outcome of an event. Events without one were not tried.
    fn event(&mut self, event: &RejectedEvent, outcome: EventOutcome);

    /// Notes an event as it is about to be sent.
    fn prepared(&mut self, _event: &CorrectedEvent<'_>) {}

    /// Notes that so many events of an earlier resend, which was interrupted, are stored.
    fn settled(&mut self, _events: usize) {}
}
