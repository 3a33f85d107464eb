//! SIGTERM ends it well, at any moment.

use crate::server::{eventually, on_own_ports};
use rustix::process::{Pid, Signal, kill_process};
use std::path::Path;
use tempfile::TempDir;

/// What a start makes, in this order, from its first moment on.
const MADE: [&str; 6] = [
    "millrace.lock",
    "catalog.db",
    "credentials.json",
    "log",
    "node",
    "clickhouse",
];
/// Starts for each of them: a moment is a matter of microseconds.
const TRIES: usize = 5;

#[test]
fn a_server_that_is_still_starting_stops_when_asked() {
    for made_first in MADE.into_iter().cycle().take(MADE.len() * TRIES) {
        let dir = TempDir::new().unwrap();
        let mut child = on_own_ports("serve", dir.path()).spawn().unwrap();
        let path = dir.path().join(made_first);
        eventually(made_first, || Path::exists(&path).then_some(()));
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        let status = eventually("the server's end", || child.try_wait().unwrap());
        assert!(status.success(), "after {made_first}: {status}");
    }
}
