//! State of the supervised process, as others see it.

use std::net::SocketAddr;
use std::time::Instant;

/// State of the supervised process.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum State {
    /// The process runs and does not serve requests yet.
    Starting,
    /// The process serves requests.
    Up {
        /// Address that it listens on.
        address: SocketAddr,
        /// Time at which it became ready.
        since: Instant,
    },
    /// The process ended and is started again after a wait.
    Waiting,
    /// The supervisor was stopped.
    Stopped,
    /// The process cannot start, for the reason in its last line of standard error, and is not
    /// started again.
    Failed,
}

/// Current status of the supervised process.
#[derive(Clone, Debug)]
pub struct Status {
    /// State of the process.
    pub state: State,
    /// Process id, while the process runs.
    pub pid: Option<u32>,
    /// Number of restarts.
    pub restarts: u64,
    /// End of the last process, for display: exit status and last line of standard error.
    pub last_exit: Option<String>,
    /// Last line of standard error of the last process.
    pub last_stderr_line: Option<String>,
}
