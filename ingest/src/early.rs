//! The listener of a server that still reads its log: whoever connects is told when to come again.
//!
//! A start reads every byte of its log, which of 10 GiB takes a minute or more. The address is bound before, so
//! that a start which cannot have it says so at once. Connections wait in the kernel for a moment, as most logs
//! are read in less; then each is answered 503. The sockets stay and are handed on, so that nobody is reset
//! when the server begins.

use crate::edge::{canned, tell};
use crate::listen::listen;
use crate::server::StartError;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// How long connections wait before they are told.
const PATIENCE: Duration = Duration::from_secs(1);
/// Connections that are told at the same time; further ones are dropped.
const TOLD_MAX: usize = 256;
/// How long accepting rests when it fails.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// An address that is listened on, and no events taken yet.
#[derive(Debug)]
pub struct EarlyListener {
    addr: SocketAddr,
    listeners: Vec<TcpListener>,
    /// Ends with it.
    telling: JoinSet<()>,
}

impl EarlyListener {
    /// Listens with a socket for each of so many workers. Needs a tokio runtime.
    ///
    /// # Errors
    /// When the address cannot be listened on.
    pub fn start(addr: SocketAddr, workers: usize) -> Result<Self, StartError> {
        let failed = |source| StartError::Listen { addr, source };
        let listeners = listen(addr, workers.max(1))?;
        let first = listeners.first().map(TcpListener::local_addr);
        let here = first.transpose().map_err(failed)?.unwrap_or(addr);
        let told = Arc::new(Semaphore::new(TOLD_MAX));
        let mut telling = JoinSet::new();
        for listener in &listeners {
            let listener = listener.try_clone().map_err(failed)?;
            telling.spawn(tell_all(listener, Arc::clone(&told)));
        }
        Ok(Self {
            addr: here,
            listeners,
            telling,
        })
    }

    /// The address listened on.
    #[must_use]
    pub const fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The sockets, with whoever waits on them, once nobody is told any more.
    pub(crate) async fn into_listeners(mut self) -> Vec<TcpListener> {
        self.telling.shutdown().await;
        self.listeners
    }
}

async fn tell_all(listener: TcpListener, told: Arc<Semaphore>) {
    tokio::time::sleep(PATIENCE).await;
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "nobody can be told that the server starts"),
    };
    loop {
        let Ok((stream, peer)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        if let Ok(place) = Arc::clone(&told).try_acquire_owned() {
            tokio::spawn(async move {
                // Scattered, so that clients do not come back all at once.
                let headers = format!("retry-after: {}\r\n", 2 + peer.port() % 5);
                let answer = canned(
                    "503 Service Unavailable",
                    "starting",
                    "The server starts and still reads its log; nothing of the request was stored. Send it again.",
                    &headers,
                );
                tell(stream, &answer).await;
                drop(place);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::TcpStream;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn so_many_are_told_at_a_time_and_others_are_dropped() {
        const BEYOND: usize = 60;
        let early = EarlyListener::start(([127, 0, 0, 1], 0).into(), 1).unwrap();
        // All wait in the kernel before the first is told, and none of them goes before it is ended.
        let clients: Vec<_> = (0..TOLD_MAX + BEYOND)
            .map(|_| TcpStream::connect(early.addr()).unwrap())
            .collect();
        let mut told = 0;
        for mut client in &clients {
            client
                .set_read_timeout(Some(Duration::from_secs(60)))
                .unwrap();
            let mut answer = String::new();
            // One that was dropped is closed, or reset.
            if client.read_to_string(&mut answer).is_ok() && !answer.is_empty() {
                assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
                assert!(answer.contains(r#""code":"starting""#), "{answer}");
                told += 1;
            }
        }
        // On a slow machine the first places may have come back meanwhile.
        assert!((TOLD_MAX..TOLD_MAX + BEYOND).contains(&told), "{told}");
        // Their places come back.
        let mut later = TcpStream::connect(early.addr()).unwrap();
        later
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        drop(clients);
        let mut answer = String::new();
        while answer.is_empty() {
            if later.read_to_string(&mut answer).is_err() || answer.is_empty() {
                later = TcpStream::connect(early.addr()).unwrap();
            }
        }
        assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    }
}
