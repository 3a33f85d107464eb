//! Listener of a server that still reads its log: it answers 503 with `Retry-After`.
//!
//! A start reads every byte of its log, which of 10 GiB takes a minute or more. The address is
//! bound before, so that a start which cannot have it fails at once. Connections wait in the kernel
//! for a moment, as most logs are read in less; then each is answered 503. The sockets stay and are
//! handed on, so that no connection is reset when the server begins.

use super::listener::{StartError, listen};
use super::raw_response::{raw_rejection, respond_and_close};
use super::transport::handshaker;
use crate::admission::rejection::Rejection;
use millrace_tls::{HandshakeLimits, Handshaker, ServerTls};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Time that connections wait before they are answered.
const RESPONSE_DELAY: Duration = Duration::from_secs(1);
/// Connections that are answered at the same time; further ones are dropped.
const RESPONSES_MAX: usize = 256;
/// Pause after accepting failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Address that is listened on before events are taken.
#[derive(Debug)]
pub struct StartupListener {
    addr: SocketAddr,
    listeners: Vec<TcpListener>,
    /// Tasks that answer connections; aborted with the listener.
    responders: JoinSet<()>,
}

impl StartupListener {
    /// Listens with one socket for each worker, with TLS if there is a certificate. Needs a tokio
    /// runtime.
    ///
    /// # Errors
    /// When the address cannot be listened on.
    pub fn start(
        addr: SocketAddr,
        workers: usize,
        tls: Option<ServerTls>,
    ) -> Result<Self, StartError> {
        let failed = |source| StartError::Listen { addr, source };
        let listeners = listen(addr, workers.max(1))?;
        let first = listeners.first().map(TcpListener::local_addr);
        let here = first.transpose().map_err(failed)?.unwrap_or(addr);
        let responder = Responder {
            permits: Arc::new(Semaphore::new(RESPONSES_MAX)),
            handshaker: tls.map(|tls| Arc::new(handshaker(tls, HandshakeLimits::default()))),
        };
        let mut responders = JoinSet::new();
        for listener in &listeners {
            let listener = listener.try_clone().map_err(failed)?;
            responders.spawn(respond_to_all(listener, responder.clone()));
        }
        Ok(Self {
            addr: here,
            listeners,
            responders,
        })
    }

    /// Address listened on.
    #[must_use]
    pub const fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Stops answering, and returns the sockets with the connections that wait on them.
    pub(crate) async fn into_listeners(mut self) -> Vec<TcpListener> {
        self.responders.shutdown().await;
        self.listeners
    }
}

/// Means to answer a connection.
#[derive(Clone)]
struct Responder {
    permits: Arc<Semaphore>,
    handshaker: Option<Arc<Handshaker>>,
}

async fn respond_to_all(listener: TcpListener, responder: Responder) {
    tokio::time::sleep(RESPONSE_DELAY).await;
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "cannot answer that the server is starting"),
    };
    loop {
        let Ok((stream, peer)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        if let Ok(permit) = Arc::clone(&responder.permits).try_acquire_owned() {
            let handshaker = responder.handshaker.clone();
            tokio::spawn(async move {
                // Scattered, so that clients do not retry all at once.
                let retry_after_seconds = 2 + u32::from(peer.port() % 5);
                let error = Rejection::Starting.into_error(retry_after_seconds);
                let response = raw_rejection(&error);
                respond_and_close(stream, handshaker.as_deref(), &response).await;
                drop(permit);
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
    async fn connections_beyond_the_limit_are_dropped_and_others_get_a_503() {
        const BEYOND: usize = 60;
        let listener = StartupListener::start(([127, 0, 0, 1], 0).into(), 1, None).unwrap();
        // All wait in the kernel before the first is answered, and none of them leaves before it
        // is.
        let clients: Vec<_> = (0..RESPONSES_MAX + BEYOND)
            .map(|_| TcpStream::connect(listener.addr()).unwrap())
            .collect();
        let mut answered = 0;
        for mut client in &clients {
            client
                .set_read_timeout(Some(Duration::from_secs(60)))
                .unwrap();
            let mut response = String::new();
            // One that was dropped is closed, or reset.
            if client.read_to_string(&mut response).is_ok() && !response.is_empty() {
                assert!(response.starts_with("HTTP/1.1 503"), "{response}");
                assert!(response.contains(r#""code":"starting""#), "{response}");
                answered += 1;
            }
        }
        // On a slow machine the first permits may have come back meanwhile.
        assert!(
            (RESPONSES_MAX..RESPONSES_MAX + BEYOND).contains(&answered),
            "{answered}"
        );
        // The permits come back.
        let mut later = TcpStream::connect(listener.addr()).unwrap();
        later
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        drop(clients);
        let mut response = String::new();
        while response.is_empty() {
            if later.read_to_string(&mut response).is_err() || response.is_empty() {
                later = TcpStream::connect(listener.addr()).unwrap();
            }
        }
        assert!(response.starts_with("HTTP/1.1 503"), "{response}");
    }
}
