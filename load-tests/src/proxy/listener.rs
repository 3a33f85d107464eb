//! The proxy's port and its connections, which end when the proxy is down.

use super::exchange::exchange;
use super::limit::{Limit, Limited};
use super::shared::Shared;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::sleep;

/// Connections that may wait to be accepted.
const BACKLOG: u32 = 1024;
/// Pause before accepting or listening again: file descriptors may have run out.
const PAUSE: Duration = Duration::from_millis(100);

/// A port that stays reserved whether the proxy listens on it or not.
pub(super) struct Port {
    address: SocketAddr,
    /// Socket bound to the port that never listens.
    _holder: TcpSocket,
}

impl Port {
    pub(super) fn take(address: SocketAddr) -> io::Result<Self> {
        let holder = bound(address)?;
        Ok(Self {
            address: holder.local_addr()?,
            _holder: holder,
        })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn listen(&self) -> io::Result<TcpListener> {
        bound(self.address)?.listen(BACKLOG)
    }
}

fn bound(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    // The holder and the listener share the port.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

/// Accepts connections, but not while the proxy is down.
pub(super) async fn serve(port: &Port, listener: TcpListener, shared: &Arc<Shared>) {
    let mut rule = shared.rule.subscribe();
    let mut open = Some(listener);
    loop {
        if let Some(listener) = open.take() {
            tokio::select! {
                _ = rule.wait_for(|rule| Shared::is_down(rule.as_deref())) => {}
                () = accept(&listener, shared) => {}
            }
        }
        let _ = rule
            .wait_for(|rule| !Shared::is_down(rule.as_deref()))
            .await;
        match port.listen() {
            Ok(listener) => open = Some(listener),
            Err(error) => {
                eprintln!("cannot listen on {}: {error}", port.address);
                sleep(PAUSE).await;
            }
        }
    }
}

async fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                shared.connections.fetch_add(1, Ordering::AcqRel);
                tokio::spawn(connection(stream, Arc::clone(shared)));
            }
            Err(_) => sleep(PAUSE).await,
        }
    }
}

/// Serves a connection to its end, or until the proxy goes down.
async fn connection(stream: TcpStream, shared: Arc<Shared>) {
    let mut rule = shared.rule.subscribe();
    let _ = stream.set_nodelay(true);
    let limit = Limit::none();
    let stream = Limited::new(stream, limit.clone());
    let service = service_fn(move |request| {
        let (shared, limit) = (Arc::clone(&shared), limit.clone());
        async move { exchange(&shared, &limit, request).await }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        // Broken connections are the purpose of this proxy.
        _ = served => {}
        _ = rule.wait_for(|rule| Shared::is_down(rule.as_deref())) => {}
    }
}
