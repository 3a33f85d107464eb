//! Signals that stop the process.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Listener for SIGTERM and Ctrl-C, which end the process at once before it exists.
pub struct StopSignal {
    terminate: Option<Signal>,
    interrupt: Option<Signal>,
}

impl StopSignal {
    /// Starts to listen; needs a tokio runtime.
    pub fn listen() -> Self {
        Self {
            terminate: listen(SignalKind::terminate()),
            interrupt: listen(SignalKind::interrupt()),
        }
    }

    /// Waits until one of the signals has come.
    pub async fn received(&mut self) {
        tokio::select! {
            () = receive(&mut self.terminate) => {}
            () = receive(&mut self.interrupt) => {}
        }
    }
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
