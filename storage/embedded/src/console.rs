//! Terminal of the engine's own session, by which the process follows and directs it.
//!
//! The engine runs as its command-line tool does at a terminal. Without one it would abort on every
//! error of a connection, so that anybody could end it by a request that is no HTTP. It writes each
//! statement to standard output before running it, while results go elsewhere. So a statement that
//! is longer than the pipe of standard output holds the session at this point until somebody reads
//! on: a halt.
//!
//! ```text
//! halt STARTED      the tables are open, nothing listens: the working directory is removed
//! START LISTEN …
//! halt SERVING      requests are served, until the process is asked to stop
//! STOP LISTEN …     no new connections, statements go on
//! is it idle? …     until no other statement runs
//! ```

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::sync::OnceLock;

use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::stdio::{dup2_stdin, dup2_stdout};

/// Text of the halt before the listeners start.
pub(crate) const STARTED: &str = "halt: started";
/// Text of the halt behind which the listeners stop.
pub(crate) const SERVING: &str = "halt: serving";
/// What the session writes once no other statement runs: a question that has a row.
pub(crate) const IDLE: &str = "1 row in set";

/// Size of the pipe, bytes: the smallest.
const PIPE_BYTES: usize = 4096;
/// Length of a halt's statement, bytes. It exceeds the pipe and what is read beyond a text.
const HALT_BYTES: usize = 16 << 10;
/// Bytes that are read at once.
const READ_BYTES: usize = 512;
/// Questions whether other statements run, one in 50 ms: for longer than anybody waits.
const QUESTIONS: usize = 400;

/// Standard output as it was before the engine got the pipe in its place.
static OUTPUT: OnceLock<File> = OnceLock::new();

/// Reading end of the engine's standard output.
pub(crate) struct Console {
    output: File,
    /// Other side of the terminal that is the engine's standard input; closing it would be a
    /// hang-up.
    _terminal: OwnedFd,
}

// === impl Console ===

impl Console {
    /// Gives this process a terminal as standard input and a pipe as standard output, for good.
    pub(crate) fn open() -> io::Result<Self> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let terminal = openpt(flags)?;
        grantpt(&terminal)?;
        unlockpt(&terminal)?;
        dup2_stdin(ioctl_tiocgptpeer(&terminal, flags)?)?;
        let (output, input) = pipe_with(PipeFlags::CLOEXEC)?;
        fcntl_setpipe_size(&input, PIPE_BYTES)?;
        io::stdout().flush()?;
        let own = rustix::io::dup(io::stdout())?;
        // Once a process, as the engine.
        let _ = OUTPUT.set(File::from(own));
        dup2_stdout(input)?;
        Ok(Self {
            output: File::from(output),
            _terminal: terminal,
        })
    }

    /// Reads until the engine has written this text, and at most half a kilobyte more.
    pub(crate) fn read_until(&mut self, text: &str) -> io::Result<()> {
        let mut seen = Vec::new();
        let mut buffer = [0; READ_BYTES];
        loop {
            let count = self.output.read(&mut buffer)?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            seen.extend_from_slice(buffer.get(..count).unwrap_or_default());
            if seen.windows(text.len()).any(|part| part == text.as_bytes()) {
                return Ok(());
            }
            let surplus = seen.len().saturating_sub(text.len());
            seen.drain(..surplus);
        }
    }
}

/// Prints a line to the standard output that the process was started with. A closed pipe is no
/// error.
pub fn print_line(line: &str) {
    let line = format!("{line}\n");
    let _ = match OUTPUT.get() {
        Some(mut output) => output.write_all(line.as_bytes()),
        None => {
            let mut output = io::stdout().lock();
            output
                .write_all(line.as_bytes())
                .and_then(|()| output.flush())
        }
    };
}

/// Statements of the session.
pub(crate) fn script(has_native: bool) -> String {
    let native = if has_native {
        "SYSTEM START LISTEN TCP;"
    } else {
        ""
    };
    let question = "SELECT sleep(0.05) FORMAT Null;\
        SELECT 'idle' FROM (SELECT count() AS c FROM system.processes) WHERE c = 1 FORMAT TSV;";
    format!(
        "{}SYSTEM START LISTEN HTTP;{native}{}SYSTEM STOP LISTEN QUERIES ALL;{}",
        halt(STARTED),
        halt(SERVING),
        question.repeat(QUESTIONS)
    )
}

fn halt(text: &str) -> String {
    format!("SELECT '{text}', '{}' FORMAT Null;", "-".repeat(HALT_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;
    use std::time::Duration;

    #[test]
    fn a_halt_holds_its_writer_until_it_is_read_on() {
        let (output, input) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        fcntl_setpipe_size(&input, PIPE_BYTES).unwrap();
        let (terminal, _other) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let mut console = Console {
            output: File::from(output),
            _terminal: terminal,
        };
        let writer = thread::spawn(move || {
            let mut input = File::from(input);
            input.write_all(script(false).as_bytes()).unwrap();
        });
        console.read_until(STARTED).unwrap();
        console.read_until(SERVING).unwrap();
        thread::sleep(Duration::from_millis(50));
        assert!(!writer.is_finished());
        console.read_until("STOP LISTEN").unwrap();
        console.read_until("no such text").unwrap_err();
        writer.join().unwrap();
    }

    #[test]
    fn the_native_listener_is_started_on_request_only() {
        for has_native in [false, true] {
            assert_eq!(script(has_native).contains("LISTEN TCP"), has_native);
        }
    }
}
