//! Another process that may have the name of this node, as the catalog has not heard of its end.
//!
//! The name is free once nothing was heard of it for [`NAME_KEPT`]. While it is waited for, another
//! sign of life shows that the process runs, and this start is refused.

use anyhow::bail;
use millrace_catalog::{NodeState, NodeStatus, UtcTime};
use millrace_rows::shown;
use std::path::Path;
use std::time::{Duration, Instant};

/// Time unheard of after which another process has the name of a node no more.
const NAME_KEPT: Duration = Duration::from_secs(60);

/// Observation of the other process.
#[derive(Debug, Default)]
pub struct OtherProcess(Option<Seen>);

#[derive(Debug)]
struct Seen {
    sign: Sign,
    at: Instant,
}

/// Sign of life.
#[derive(Debug, PartialEq, Eq)]
struct Sign {
    start_id: String,
    published_at: UtcTime,
    reported_at: Option<i64>,
}

impl Sign {
    fn of(status: &NodeStatus) -> Self {
        Self {
            start_id: status.node.start_id.clone(),
            published_at: status.node.published_at,
            reported_at: status.report.as_ref().map(|report| report.heard_at),
        }
    }
}

impl OtherProcess {
    /// Returns true while the process may run, and it is not known yet whether it does; `status` is
    /// that of the node, whose last start is not one of this folder.
    ///
    /// # Errors
    /// When it runs: another sign of life came.
    pub fn may_run(&mut self, status: &NodeStatus, data_dir: &Path) -> anyhow::Result<bool> {
        let unheard = Duration::from_micros(status.unheard_micros.unsigned_abs());
        if status.node.state == NodeState::Stopped || unheard >= NAME_KEPT {
            return Ok(false);
        }
        let sign = Sign::of(status);
        let Some(seen) = &self.0 else {
            tell(status, unheard);
            let at = Instant::now();
            self.0 = Some(Seen { sign, at });
            return Ok(true);
        };
        if seen.sign != sign {
            bail!(
                "the node {} runs on {} since {}, and two processes cannot have one name. Stop that one; or, to run both, \
                 delete the file {} here: then this data folder, which is a copy of the other one's, is a node of its own",
                shown(&status.node.name),
                shown(&status.node.host),
                status.node.started_at,
                data_dir.join("node").display(),
            );
        }
        // The clock of the other one may be ahead.
        Ok(seen.at.elapsed() < NAME_KEPT)
    }
}

fn tell(status: &NodeStatus, unheard: Duration) {
    tracing::warn!(
        node = %shown(&status.node.name),
        host = %shown(&status.node.host),
        "another process had the name of this node {} s ago, on another folder or before this \
         machine started; no events are accepted until it was silent for {} s",
        unheard.as_secs(),
        NAME_KEPT.as_secs()
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace_catalog::IngestNode;

    fn status(state: NodeState, unheard_seconds: i64, published_at: i64) -> NodeStatus {
        NodeStatus {
            node: IngestNode {
                name: "n".to_owned(),
                host: "h".to_owned(),
                state,
                watermark: None,
                updates_watermark: None,
                published_at: UtcTime(published_at),
                started_at: UtcTime(0),
                start_count: 1,
                start_id: "s".to_owned(),
            },
            report: None,
            unheard_micros: unheard_seconds * 1_000_000,
        }
    }

    #[test]
    fn a_name_is_free_once_its_process_stopped_or_was_silent_for_a_minute() {
        for (state, unheard_seconds, is_kept) in [
            (NodeState::Running, 0, true),
            (NodeState::Starting, 59, true),
            (NodeState::Running, 60, false),
            (NodeState::Stopped, 0, false),
        ] {
            let status = status(state, unheard_seconds, 0);
            let may_run = OtherProcess::default().may_run(&status, Path::new("/data"));
            assert_eq!(may_run.unwrap(), is_kept, "{state:?} {unheard_seconds}");
        }
    }

    #[test]
    fn another_sign_of_life_refuses_the_start() {
        let mut other = OtherProcess::default();
        let mut look = |published_at| {
            let status = status(NodeState::Running, 1, published_at);
            other.may_run(&status, Path::new("/data"))
        };
        assert!(look(5).unwrap());
        assert!(look(5).unwrap(), "nothing was heard");
        let error = look(6).unwrap_err().to_string();
        for words in ["runs on h", "/data/node"] {
            assert!(error.contains(words), "{error}");
        }
    }
}
