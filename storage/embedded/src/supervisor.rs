//! Supervises the engine's process, in the parent process.
//!
//! `Starting => Up => Waiting => Starting …`, and `Stopped` or `Failed` at the end. One thread
//! starts the process and lives as long as the supervisor does: the kernel ends a child with the
//! thread that started it, see [`end_with_parent`].

use std::io::{self, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use backon::BackoffBuilder as _;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, select};
use rustix::process::{Pid, Signal, getppid, kill_process, set_parent_process_death_signal};
use tokio::sync::watch;

use crate::console::print_line;
use crate::lines::{forward_errors, next_line};
use crate::process_state::{State, Status};

/// Line prefix that the child writes to standard output, before its address, when it serves
/// requests.
pub(crate) const READY: &str = "millrace-clickhouse ready ";

/// Exit status of a child that no restart can help (`EX_CONFIG` of sysexits.h). It counts only
/// before the child was ever up; afterwards the installation may be in the middle of an upgrade.
pub const EXIT_PERMANENT_FAILURE: u8 = 78;

/// Longest time between SIGTERM and SIGKILL of a restart that was asked for: what is asked to end
/// refuses others meanwhile.
const RESTART_GRACE: Duration = Duration::from_secs(3);

/// Failed starts in a row from which on the log level is error.
const FAILED_STARTS_MANY: u32 = 5;

/// Timing of restarts and of shutdown.
#[derive(Clone, Debug)]
pub struct SupervisorOptions {
    /// Wait before the first restart; it doubles with each further one.
    pub backoff_min: Duration,
    /// Longest wait between two restarts.
    pub backoff_max: Duration,
    /// Uptime after which a process counts as healthy: the next restart waits
    /// `backoff_min` again.
    pub healthy_after: Duration,
    /// Time between SIGTERM and SIGKILL.
    pub grace: Duration,
}

impl Default for SupervisorOptions {
    fn default() -> Self {
        Self {
            backoff_min: Duration::from_millis(100),
            backoff_max: Duration::from_secs(10),
            healthy_after: Duration::from_secs(30),
            grace: Duration::from_secs(15),
        }
    }
}

/// Starts the process again whenever it ends, until stopped or dropped.
pub struct Supervisor {
    status: watch::Receiver<Status>,
    /// Dropped to ask the thread to stop.
    stop: Option<Sender<()>>,
    restart: Restarter,
    thread: Option<JoinHandle<()>>,
}

/// Asks the supervisor to end the process and to start it again.
#[derive(Clone, Debug)]
pub struct Restarter(Sender<()>);

/// Tells the supervisor in the parent process that requests are served. Called by the child's
/// `on_ready`.
pub fn announce(address: SocketAddr) {
    print_line(&format!("{READY}{address}"));
}

/// Has the kernel kill this process when the thread that started it ends. `parent` is the expected
/// parent's process id.
///
/// # Errors
/// The parent has already ended, or the kernel refuses.
pub fn end_with_parent(parent: u32) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // It may have died before the signal was set.
    let alive =
        getppid().is_some_and(|pid| u32::try_from(pid.as_raw_nonzero().get()) == Ok(parent));
    if alive {
        Ok(())
    } else {
        Err(io::Error::other("the parent process has ended"))
    }
}

// === impl Supervisor ===

impl Supervisor {
    /// Starts the thread and through it the process. `command` builds the command line; after the
    /// first start it is given the address the process chose, so that a free port (0) stays the
    /// same over restarts. The child should call [`end_with_parent`] first and [`announce`] when
    /// ready.
    ///
    /// # Errors
    /// The thread cannot be started. A command that fails shows in the status.
    pub fn start(
        options: SupervisorOptions,
        command: impl FnMut(Option<SocketAddr>) -> Command + Send + 'static,
    ) -> io::Result<Self> {
        let initial = Status {
            state: State::Starting,
            pid: None,
            restarts: 0,
            last_exit: None,
            last_stderr_line: None,
        };
        let (status_sender, status) = watch::channel(initial);
        let (stop, stopping) = bounded(0);
        let (restart, restarting) = bounded(1);
        let worker = SupervisorThread {
            options,
            command,
            status: status_sender,
            address: None,
            stopping,
            restarting,
        };
        let thread = thread::Builder::new()
            .name("clickhouse-super".into())
            .spawn(move || worker.run())?;
        Ok(Self {
            status,
            stop: Some(stop),
            restart: Restarter(restart),
            thread: Some(thread),
        })
    }

    /// Receiver of the status, to be read or waited on.
    #[must_use]
    pub fn status(&self) -> watch::Receiver<Status> {
        self.status.clone()
    }

    /// Handle by which another part may ask for a restart of the process.
    #[must_use]
    pub fn restarter(&self) -> Restarter {
        self.restart.clone()
    }

    /// Ends the process: SIGTERM, the grace period, SIGKILL. Blocks until the process has ended.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the ClickHouse supervisor's thread panicked");
        }
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.end();
    }
}

// === impl Restarter ===

impl Restarter {
    /// Asks for a restart, once for several calls. Does nothing while the process is not there.
    pub fn restart(&self) {
        let _ = self.0.try_send(());
    }
}

/// The supervising thread.
struct SupervisorThread<F> {
    options: SupervisorOptions,
    command: F,
    status: watch::Sender<Status>,
    /// Address of the first process.
    address: Option<SocketAddr>,
    /// Closed to request shutdown.
    stopping: Receiver<()>,
    /// Has a message if a restart is asked for. It is closed after `stopping`.
    restarting: Receiver<()>,
}

enum AfterExit {
    Restart,
    Stop,
    GiveUp,
}

// === impl SupervisorThread ===

impl<F: FnMut(Option<SocketAddr>) -> Command> SupervisorThread<F> {
    fn run(mut self) {
        let mut backoff = self.backoff();
        let mut failed_starts = 0_u32;
        let end = loop {
            let begun = Instant::now();
            match self.run_once() {
                AfterExit::Stop => break State::Stopped,
                AfterExit::GiveUp => break State::Failed,
                AfterExit::Restart => {}
            }
            failed_starts = match self.status.borrow().state {
                State::Up { .. } => 0,
                _ => failed_starts.saturating_add(1),
            };
            if begun.elapsed() >= self.options.healthy_after {
                backoff = self.backoff();
            }
            let wait = backoff.next().unwrap_or(self.options.backoff_max);
            self.status.send_modify(|status| {
                status.state = State::Waiting;
                status.pid = None;
                status.restarts += 1;
            });
            let last = self.status.borrow().last_exit.clone().unwrap_or_default();
            let wait_ms = wait.as_millis() as u64;
            if failed_starts < FAILED_STARTS_MANY {
                tracing::warn!(
                    wait_ms,
                    "the ClickHouse process ended: {last}; starting it again"
                );
            } else {
                tracing::error!(
                    wait_ms,
                    "ClickHouse did not come up in {failed_starts} starts: {last}; starting it again"
                );
            }
            if self.stop_requested(wait) {
                break State::Stopped;
            }
        };
        self.status.send_modify(|status| {
            status.state = end;
            status.pid = None;
        });
    }

    fn backoff(&self) -> impl Iterator<Item = Duration> + use<F> {
        backon::ExponentialBuilder::default()
            .with_min_delay(self.options.backoff_min)
            .with_max_delay(self.options.backoff_max)
            .without_max_times()
            .build()
    }

    /// Runs one process to its end.
    fn run_once(&mut self) -> AfterExit {
        // What was asked of a process that has ended is not meant for the next one.
        let _ = self.restarting.try_recv();
        let mut command = (self.command)(self.address);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => {
                self.status.send_modify(|status| {
                    status.last_exit = Some(format!("it did not start: {error}"));
                });
                return AfterExit::Restart;
            }
        };
        self.status.send_modify(|status| {
            status.state = State::Starting;
            status.pid = Some(child.id());
        });
        let ready = child.stdout.take().map(|out| self.watch_ready(out));
        let (line_sender, lines) = bounded(64);
        let errors = child
            .stderr
            .take()
            .map(|err| thread::spawn(move || forward_errors(err, &line_sender)));
        let next = self.watch(&mut child, &lines);
        for thread in [ready, errors].into_iter().flatten() {
            let _ = thread.join();
        }
        if let State::Up { address, .. } = self.status.borrow().state {
            self.address = Some(address);
        }
        match next {
            AfterExit::GiveUp if self.address.is_some() => AfterExit::Restart,
            next => next,
        }
    }

    /// Reads standard output until it is closed, and sets the state at the line that reports
    /// readiness.
    fn watch_ready(&self, out: impl Read + Send + 'static) -> JoinHandle<()> {
        let status = self.status.clone();
        thread::spawn(move || {
            let mut out = BufReader::new(out);
            while let Ok(Some(line)) = next_line(&mut out) {
                if let Some(address) = line.strip_prefix(READY).and_then(|text| text.parse().ok()) {
                    let since = Instant::now();
                    status.send_modify(|status| status.state = State::Up { address, since });
                }
            }
        })
    }

    /// Waits for the process to end, or ends it on request. Its end shows as a closed standard
    /// error.
    fn watch(&self, child: &mut Child, lines: &Receiver<String>) -> AfterExit {
        let mut last_line = None;
        loop {
            select! {
                recv(lines) -> line => match line {
                    Ok(line) => last_line = Some(line),
                    Err(_) => break,
                },
                // Nothing is sent there: it is closed.
                recv(self.stopping) -> _ => {
                    self.end(child, lines, self.options.grace);
                    return AfterExit::Stop;
                }
                recv(self.restarting) -> _ => {
                    self.end(child, lines, self.options.grace.min(RESTART_GRACE));
                    self.status.send_modify(|status| {
                        status.last_exit = Some("a restart was asked for".to_owned());
                        status.last_stderr_line = last_line;
                    });
                    return AfterExit::Restart;
                }
            }
        }
        let waited = child.wait();
        let code = waited.as_ref().ok().and_then(ExitStatus::code);
        let ended = waited.map_or_else(|error| error.to_string(), |status| status.to_string());
        let words = last_line
            .as_ref()
            .map(|line| format!(", last words: {line}"))
            .unwrap_or_default();
        self.status.send_modify(|status| {
            status.last_exit = Some(format!("{ended}{words}"));
            status.last_stderr_line = last_line;
        });
        if self.stop_requested(Duration::ZERO) {
            AfterExit::Stop
        } else if code == Some(EXIT_PERMANENT_FAILURE.into()) {
            AfterExit::GiveUp
        } else {
            AfterExit::Restart
        }
    }

    /// Ends the process: SIGTERM, the grace period, SIGKILL. Its id is not reused before the
    /// process has been waited for.
    fn end(&self, child: &mut Child, lines: &Receiver<String>, grace: Duration) {
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        if let Some(Err(error)) = pid.map(|pid| kill_process(pid, Signal::TERM)) {
            tracing::warn!(%error, "cannot ask the ClickHouse process to end");
        }
        let deadline = Instant::now() + grace;
        while lines.recv_timeout(deadline.saturating_duration_since(Instant::now()))
            != Err(RecvTimeoutError::Disconnected)
        {
            if Instant::now() >= deadline {
                tracing::warn!(
                    "the ClickHouse process did not end in its grace period and is killed"
                );
                let _ = child.kill();
                break;
            }
        }
        let _ = child.wait();
    }

    /// Returns true if shutdown was requested, now or within `wait`.
    fn stop_requested(&self, wait: Duration) -> bool {
        self.stopping.recv_timeout(wait) == Err(RecvTimeoutError::Disconnected)
    }
}
