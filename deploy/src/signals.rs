//! Signals that stop the process.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Listener for SIGTERM and Ctrl-C, which end the process at once before it exists.
#[derive(Clone, Debug)]
pub struct StopSignal {
    /// Cancelled by the first signal.
    asked: CancellationToken,
    /// Cancelled by the second one.
    asked_again: CancellationToken,
    /// Cancelled by a request to drain.
    draining: CancellationToken,
}

impl StopSignal {
    /// Starts to listen; needs a tokio runtime.
    pub fn listen() -> Self {
        let stop = Self {
            asked: CancellationToken::new(),
            asked_again: CancellationToken::new(),
            draining: CancellationToken::new(),
        };
        // Listened to here: the task may begin after the first signal.
        tokio::spawn(stop.clone().follow(Signals::listen()));
        stop
    }

    /// Waits until one of the signals has come.
    pub async fn received(&self) {
        self.asked.cancelled().await;
    }

    /// Begins a stop that lasts until the log is empty. The next signal cuts it short.
    pub fn drain(&self) {
        self.draining.cancel();
        self.asked.cancel();
    }

    /// Token that is cancelled once the stop is to last until the log is empty.
    pub fn draining(&self) -> &CancellationToken {
        &self.draining
    }

    /// Token that is cancelled by a second signal: the stop waits no longer for what the next start
    /// can do as well.
    pub fn cut_short(&self) -> &CancellationToken {
        &self.asked_again
    }

    async fn follow(self, mut signals: Signals) {
        signals.next().await;
        // A drain was the first request to stop.
        if !self.asked.is_cancelled() {
            self.asked.cancel();
            signals.next().await;
        }
        tracing::warn!("asked to stop a second time: what is in flight is cut off");
        self.asked_again.cancel();
    }
}

/// SIGTERM and Ctrl-C.
struct Signals {
    terminate: Option<Signal>,
    interrupt: Option<Signal>,
}

impl Signals {
    fn listen() -> Self {
        Self {
            terminate: listen(SignalKind::terminate()),
            interrupt: listen(SignalKind::interrupt()),
        }
    }

    async fn next(&mut self) {
        tokio::select! {
            () = receive(&mut self.terminate) => {}
            () = receive(&mut self.interrupt) => {}
        }
    }
}

/// Waits for SIGTERM or Ctrl-C.
pub async fn terminate_or_interrupt() {
    Signals::listen().next().await;
}

/// Waits for SIGTERM; ignores Ctrl-C.
pub async fn terminate_only() {
    let _ignored = listen(SignalKind::interrupt());
    receive(&mut listen(SignalKind::terminate())).await;
}

fn listen(kind: SignalKind) -> Option<Signal> {
    signal(kind)
        .inspect_err(|error| tracing::error!("cannot listen for signals: {error}"))
        .ok()
}

async fn receive(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}
