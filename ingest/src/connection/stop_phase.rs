//! Stop of the process, as workers and connections are told of it.
//!
//! Nobody keeps hold of what was told: the channel is locked that long, and the next phase could
//! not be told.

use tokio::sync::watch;

/// Phase of the process's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopPhase {
    /// Connections are accepted.
    Serving,
    /// Requests in flight are finished, within the grace period.
    Draining,
    /// The grace period is over, however much of it was left.
    CutShort,
}

impl StopPhase {
    /// Waits until the process stops; ends as well once nobody can tell.
    pub async fn stopped(told: &mut watch::Receiver<Self>) {
        drop(told.wait_for(|phase| *phase != Self::Serving).await);
    }

    /// Waits until the stop is cut short; for ever once nobody can tell.
    pub async fn cut_short(told: &mut watch::Receiver<Self>) {
        let phase = told.wait_for(|phase| *phase == Self::CutShort).await;
        let is_cut = phase.map(drop).is_ok();
        if !is_cut {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[tokio::test]
    async fn each_phase_is_told_while_others_wait() {
        use StopPhase::{CutShort, Draining, Serving};
        let table = [
            (Serving, [false, false]),
            (Draining, [true, false]),
            (CutShort, [true, true]),
        ];
        let (tell, mut told) = watch::channel(Serving);
        for (phase, expected) in table {
            tell.send(phase).unwrap();
            let stopped = StopPhase::stopped(&mut told).now_or_never();
            let cut_short = StopPhase::cut_short(&mut told).now_or_never();
            let found = [stopped, cut_short].map(|it| it.is_some());
            assert_eq!(found, expected, "{phase:?}");
        }
    }

    #[tokio::test]
    async fn a_server_that_is_dropped_stops_and_cuts_nothing_short() {
        let (tell, mut told) = watch::channel(StopPhase::Serving);
        drop(tell);
        assert!(StopPhase::stopped(&mut told).now_or_never().is_some());
        assert!(StopPhase::cut_short(&mut told).now_or_never().is_none());
    }
}
