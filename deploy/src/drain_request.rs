//! Request of `millrace drain` to the server of a data folder, and its outcome, in the file
//! `drain`. A file reaches the server from another container as well, which shares no processes
//! with it.

use crate::data_dir::replace;
use crate::signals::StopSignal;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Interval in which a server looks for a request.
const LOOK_EVERY: Duration = Duration::from_millis(500);

const REQUESTED: &str = "requested";
const EMPTY: &str = "empty";

/// State of a drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainState {
    /// It was asked for.
    Requested,
    /// The log is empty, and the node is deregistered.
    Empty,
    /// The server ended before that.
    CutShort,
}

impl DrainState {
    /// Reads the state; `None` if there was no request, or it was withdrawn.
    pub fn read(data_dir: &Path) -> Option<Self> {
        let text = std::fs::read_to_string(path(data_dir)).ok()?;
        Some(match text.trim_end() {
            REQUESTED => Self::Requested,
            EMPTY => Self::Empty,
            _ => Self::CutShort,
        })
    }

    /// Stores the state durably.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn store(self, data_dir: &Path) -> std::io::Result<()> {
        let text = match self {
            Self::Requested => REQUESTED,
            Self::Empty => EMPTY,
            Self::CutShort => "cut short",
        };
        replace(&path(data_dir), format!("{text}\n").as_bytes())
    }
}

/// Withdraws a request to a server that ended before it heard of it: this start is none to drain.
pub fn withdraw(data_dir: &Path) {
    if DrainState::read(data_dir) == Some(DrainState::Requested) {
        // One that stays ends this start, which is told.
        let _ = std::fs::remove_file(path(data_dir));
    }
}

/// Stores the outcome of a drain, for the command that waits for it.
pub fn store_outcome(data_dir: &Path, is_empty: bool) {
    let state = match is_empty {
        true => DrainState::Empty,
        false => DrainState::CutShort,
    };
    if let Err(error) = state.store(data_dir) {
        tracing::error!(%error, "cannot write the outcome of the drain to the data folder");
    }
}

/// Begins the drain of this process once it is asked for.
pub async fn follow(data_dir: PathBuf, stop: StopSignal) {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        if DrainState::read(&data_dir) == Some(DrainState::Requested) {
            tracing::info!(
                "asked to drain: no more events are accepted, and all that the log has is shipped"
            );
            stop.drain();
            return;
        }
    }
}

fn path(data_dir: &Path) -> PathBuf {
    data_dir.join("drain")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    #[test]
    fn a_request_is_withdrawn_at_a_start_and_an_outcome_stays() {
        let dir = TempDir::new().unwrap();
        assert_eq!(DrainState::read(dir.path()), None);
        for (state, left) in [
            (DrainState::Requested, None),
            (DrainState::Empty, Some(DrainState::Empty)),
            (DrainState::CutShort, Some(DrainState::CutShort)),
        ] {
            state.store(dir.path()).unwrap();
            assert_eq!(DrainState::read(dir.path()), Some(state));
            withdraw(dir.path());
            assert_eq!(DrainState::read(dir.path()), left);
        }
    }
}
