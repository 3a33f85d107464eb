//! When to stop.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGTERM and Ctrl-C, heard from its making on: before, they end the process at once.
pub struct Stop {
    terminate: Option<Signal>,
    interrupt: Option<Signal>,
}

impl Stop {
    /// Listens from now on; needs a tokio runtime.
    pub fn listen() -> Self {
        Self {
            terminate: listen(SignalKind::terminate()),
            interrupt: listen(SignalKind::interrupt()),
        }
    }

    /// Waits until one of them has come.
    pub async fn asked(&mut self) {
        tokio::select! {
            () = receive(&mut self.terminate) => {}
            () = receive(&mut self.interrupt) => {}
        }
    }
}

/// Waits for SIGTERM; Ctrl-C is heard and ignored.
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
