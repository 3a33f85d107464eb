//! A baseline server on a thread of its own.

use millrace_load::baseline::{RequestCounts, Work, serve, serve_tls};
use millrace_load::tls::acceptor;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;

/// A running baseline server; stopped on drop.
pub struct Server {
    pub url: String,
    counts: Arc<RequestCounts>,
    shutdown: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub fn start(work: Work) -> Self {
        Self::start_with(work, None)
    }

    /// Starts a server with TLS, with a certificate and its key.
    pub fn start_tls(work: Work, certificate: &Path, key: &Path) -> Self {
        Self::start_with(work, Some(acceptor(certificate, key).unwrap()))
    }

    fn start_with(work: Work, tls: Option<TlsAcceptor>) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://{}", listener.local_addr().unwrap());
        let (shutdown, asked) = oneshot::channel::<()>();
        let counts = Arc::new(RequestCounts::default());
        let served = Arc::clone(&counts);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let listener = TcpListener::from_std(listener).unwrap();
                let shutdown = async { drop(asked.await) };
                match tls {
                    None => serve(listener, work, served, shutdown).await,
                    Some(tls) => serve_tls(listener, tls, work, served, shutdown).await,
                }
                .unwrap();
            });
        });
        Self {
            url,
            counts,
            shutdown: Some(shutdown),
            thread: Some(thread),
        }
    }

    pub fn requests(&self) -> u64 {
        self.counts.requests.load(Ordering::Relaxed)
    }

    pub fn body_bytes(&self) -> u64 {
        self.counts.body_bytes.load(Ordering::Relaxed)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.shutdown.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
