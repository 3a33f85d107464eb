//! Observed request: a copy of its rows that waits for the request's outcome.

use crate::row_copy::RowCopy;
use crate::shared::Shared;
use crate::watched_projects::EventCounts;
use millrace_log::Position;
use millrace_rows::{Lane, ProjectId};
use std::net::IpAddr;
use std::sync::Arc;
use tokio::sync::mpsc;

/// Facts of a request that its rows do not tell.
#[derive(Clone, Debug, Default)]
pub struct RequestFacts {
    /// Project key, masked; `None` if it is not known.
    pub key: Option<String>,
    /// Address of the client; `None` if it must not be shown.
    pub client_ip: Option<IpAddr>,
    /// Number of accepted events.
    pub accepted: u32,
    /// Number of rejected events.
    pub rejected: u32,
    /// Indexes of rejected events in the request, ascending; the first ones if there are many.
    pub rejected_indexes: Vec<u32>,
    /// Index of an event and code of a warning about it; the first ones if there are many.
    pub warnings: Vec<(u32, &'static str)>,
    /// Number of all warnings.
    pub warning_count: u32,
}

/// Outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestOutcome {
    /// Its rows are in a lane's log, below a position.
    Logged { lane: Lane, position: Position },
    /// Nothing of it is stored, as an event of it was rejected.
    Refused,
}

/// Copy of a request's rows, for the hub.
#[derive(Debug)]
pub struct Observed {
    pub project_id: ProjectId,
    pub facts: RequestFacts,
    pub rows: RowCopy,
    pub outcome: RequestOutcome,
}

/// Observed request whose outcome is not known yet. Dropped, it is not shown.
#[derive(Debug)]
pub struct Observation {
    pub(crate) shared: Arc<Shared>,
    pub(crate) queue: mpsc::Sender<Observed>,
    pub(crate) project_id: ProjectId,
    pub(crate) facts: RequestFacts,
    /// Copy of the rows, if there was capacity for it.
    pub(crate) rows: Option<RowCopy>,
}

// === impl Observed ===

impl Observed {
    /// Number of events that are shown of the request.
    pub fn events(&self) -> u64 {
        self.facts.events(self.outcome)
    }
}

// === impl RequestFacts ===

impl RequestFacts {
    fn events(&self, outcome: RequestOutcome) -> u64 {
        let accepted = match outcome {
            RequestOutcome::Logged { .. } => self.accepted,
            // Sent without those that were rejected, they would have been accepted.
            RequestOutcome::Refused => 0,
        };
        u64::from(accepted) + u64::from(self.rejected)
    }
}

// === impl Observation ===

impl Observation {
    /// Shows the events: their rows are in a lane's log, below a position.
    pub fn logged(self, lane: Lane, position: Position) {
        self.show(RequestOutcome::Logged { lane, position });
    }

    /// Shows the rejected events, because of which nothing of the request is stored.
    pub fn refused(self) {
        self.show(RequestOutcome::Refused);
    }

    /// Counts the events as unseen: their rows are in the log, at a position that is not known.
    pub fn missed(self) {
        let events = u64::from(self.facts.accepted) + u64::from(self.facts.rejected);
        let unseen = events;
        let counts = EventCounts { events, unseen };
        self.shared.projects.count(self.project_id, counts);
    }

    fn show(self, outcome: RequestOutcome) {
        let Self {
            shared,
            queue,
            project_id,
            facts,
            rows,
        } = self;
        let events = facts.events(outcome);
        let is_shown = rows.is_some_and(|rows| {
            let observed = Observed {
                project_id,
                facts,
                rows,
                outcome,
            };
            queue.try_send(observed).is_ok()
        });
        let unseen = if is_shown { 0 } else { events };
        let counts = EventCounts { events, unseen };
        shared.projects.count(project_id, counts);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tap::LiveTap;
    use crate::testing::{POSITION, batch, event_group, facts, rejected_group};

    #[test]
    fn events_that_cannot_be_handed_over_are_counted_as_unseen() {
        let shared = Arc::<Shared>::default();
        let (queue, receiver) = mpsc::channel(2);
        let tap = LiveTap::new(Arc::clone(&shared), queue);
        let project_id = ProjectId(1);
        shared.projects.add(project_id);
        let batch = batch(vec![event_group(202_611, &["a"]), rejected_group(&["{}"])]);
        let observe = || tap.observe(project_id, &batch, || facts(3, 1)).unwrap();
        let counts = |events, unseen| EventCounts { events, unseen };
        observe().logged(Lane::Live, POSITION);
        observe().refused();
        assert_eq!(shared.projects.counts(project_id), counts(5, 0));
        // A request whose outcome is no outcome is not shown.
        drop(observe());
        assert_eq!(shared.projects.counts(project_id), counts(5, 0));
        // The queue is full, so that nothing is copied; then nobody reads it.
        observe().logged(Lane::Live, POSITION);
        assert_eq!(shared.projects.counts(project_id), counts(9, 4));
        observe().missed();
        assert_eq!(shared.projects.counts(project_id), counts(13, 8));
        drop(receiver);
        observe().logged(Lane::Live, POSITION);
        assert_eq!(shared.projects.counts(project_id), counts(17, 12));
    }
}
