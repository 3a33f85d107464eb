//! Servers that all tests of this binary share, as they take seconds of a core to start: each test
//! has a bucket of its own there.

use super::START_TIMEOUT;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
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
pub fn start(mut command: Command, before_port: &'static str) -> u16 {
    let (say, said) = sync_channel(2);
    thread::spawn(move || {
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut server = command.stderr(Stdio::piped()).spawn().unwrap();
        let outputs: [Box<dyn Read + Send>; 2] = [
            Box::new(server.stdout.take().unwrap()),
            Box::new(server.stderr.take().unwrap()),
        ];
        for output in outputs {
            let say = say.clone();
            thread::spawn(move || find_port(output, before_port, &say));
        }
        drop(say);
        server.wait().unwrap();
    });
    let port = said.recv_timeout(START_TIMEOUT);
    port.expect("the server says where it is")
}

/// Finds the port in a process's output. Reads on to its end, so that the server never blocks.
fn find_port(output: impl Read, before_port: &str, say: &SyncSender<u16>) {
    let lines = BufReader::new(output).split(b'\n').map_while(Result::ok);
    for line in lines {
        let line = String::from_utf8_lossy(&line);
        let Some((_, after)) = line.split_once(before_port) else {
            continue;
        };
        let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
        if let Ok(port) = digits.parse() {
            // The receiver needs the first one only.
            let _ = say.try_send(port);
        }
    }
}
