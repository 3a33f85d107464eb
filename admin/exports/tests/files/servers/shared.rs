//! Servers that all tests of this binary share, as they take seconds of a core to start: each test
//! has a bucket of its own there.

use super::ServerProcess;
use std::ffi::OsStr;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread;

/// Name of a bucket that no test of this binary has had.
pub fn new_bucket() -> String {
    static MADE: AtomicU32 = AtomicU32::new(0);
    format!("exports-{}", MADE.fetch_add(1, Ordering::Relaxed))
}

/// Command for a program that the kernel ends with the thread that started it.
pub fn ending_with_us(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig=KILL", "--"]).arg(program);
    command
}

/// Starts a server for the life of this process; returns the port that it prints behind this text.
///
/// The thread that starts it waits for it, as those of tests end with their tests.
pub fn start(command: Command, before_port: &'static str) -> u16 {
    let (say, said) = sync_channel(1);
    thread::spawn(move || {
        let (mut server, port) = ServerProcess::start(command, before_port);
        say.send(port).unwrap();
        server.0.wait().unwrap();
    });
    said.recv().expect("the server says where it is")
}
