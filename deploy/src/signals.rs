//! When to stop.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Waits for SIGTERM or Ctrl-C.
pub async fn shutdown() {
    let (mut terminate, mut interrupt) = (
        listen(SignalKind::terminate()),
        listen(SignalKind::interrupt()),
    );
    tokio::select! {
        () = receive(&mut terminate) => {}
        () = receive(&mut interrupt) => {}
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
