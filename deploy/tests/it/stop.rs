//! SIGTERM ends it well, at any moment.

use crate::server::{eventually, on_own_ports};
use rustix::process::{Pid, Signal, kill_process};
use std::path::Path;
use tempfile::TempDir;

#[test]
fn a_server_that_is_still_starting_stops_when_asked() {
    for made_first in ["credentials.json", "log", "clickhouse"] {
        let dir = TempDir::new().unwrap();
        let mut child = on_own_ports("serve", dir.path()).spawn().unwrap();
        eventually(made_first, || {
            Path::exists(&dir.path().join(made_first)).then_some(())
        });
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        let status = eventually("the server's end", || child.try_wait().unwrap());
        assert!(status.success(), "after {made_first}: {status}");
    }
}
