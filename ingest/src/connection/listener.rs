//! Listening sockets: one per core, on one address.
//!
//! All bind with `SO_REUSEPORT`, so that the kernel spreads connections over them. That alone would
//! let a second Millrace of the same user take half of the connections unnoticed, so the address is
//! first bound without it. That socket never listens: its connections would be reset when it is
//! closed.

use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{SocketAddr, TcpListener};
use thiserror::Error;

/// Connections that may wait to be accepted, per core.
pub(crate) const BACKLOG: i32 = 4_096;

/// Bytes of a response that the kernel keeps before they are sent; accepted connections inherit it.
/// The pace of a client is measured by what the kernel accepts: if it kept megabytes, a client that
/// reads at the lowest pace would be taken for one that does not read. What is sent and not yet
/// acknowledged does not count, so that fast and distant clients are not slowed down.
const UNSENT_BYTES_MAX: u32 = 32 << 10;

/// Reason why the server could not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// Another process listens at the address.
    #[error(
        "cannot listen on {addr}: another process listens there; stop it or choose another port"
    )]
    AddressInUse {
        /// The address.
        addr: SocketAddr,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {addr}: {source}")]
    Listen {
        /// The address.
        addr: SocketAddr,
        /// Error of the kernel.
        source: io::Error,
    },
    /// A worker's thread or runtime could not be made.
    #[error("cannot start a worker: {0}")]
    Worker(io::Error),
}

/// Opens one listening socket per worker, on the same address.
///
/// # Errors
/// When another process listens there, or the address cannot be listened on.
pub fn listen(addr: SocketAddr, workers: usize) -> Result<Vec<TcpListener>, StartError> {
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::AddrInUse => StartError::AddressInUse { addr },
        _ => StartError::Listen { addr, source },
    };
    let alone = bound(addr, false).map_err(failed)?;
    if workers == 1 {
        return Ok(vec![listening(alone).map_err(failed)?]);
    }
    // The address is free, and with port 0 now a definite one, which is ours as long as this socket
    // is open. Another Millrace that starts at the same instant may pass as well; then the data
    // directory's lock ends one of the two.
    let here = alone.local_addr().map_err(failed)?;
    let here = here.as_socket().unwrap_or(addr);
    let shared = (0..workers).map(|_| bound(here, true).and_then(listening));
    shared.map(|socket| socket.map_err(failed)).collect()
}

fn bound(addr: SocketAddr, shared: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
    // A restart must not wait for an earlier process's connections to time out.
    socket.set_reuse_address(true)?;
    if shared {
        socket.set_reuse_port(true)?;
    }
    socket.set_nonblocking(true)?;
    // Accepted connections inherit it: a response leaves at once.
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_notsent_lowat(UNSENT_BYTES_MAX)?;
    socket.bind(&addr.into())?;
    Ok(socket)
}

fn listening(socket: Socket) -> io::Result<TcpListener> {
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{ErrorKind, Read};
    use std::net::TcpStream;
    use std::time::{Duration, Instant};

    const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);
    /// Time that anything may take before the test fails.
    const TEST_TIMEOUT: Duration = Duration::from_secs(60);

    /// Tries again and again until a socket listens.
    fn first_connection(addr: SocketAddr) -> TcpStream {
        let started = Instant::now();
        loop {
            match TcpStream::connect(addr) {
                Ok(stream) => return stream,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{error}");
                    assert!(started.elapsed() < TEST_TIMEOUT, "{error}");
                }
            }
        }
    }

    /// Waits until one of the sockets has the connection; fails if it was reset.
    fn is_accepted(listeners: &[TcpListener], mut stream: TcpStream) {
        stream.set_nonblocking(true).unwrap();
        let started = Instant::now();
        while !listeners.iter().any(|it| it.accept().is_ok()) {
            let read = stream.read(&mut [0]);
            let is_open = matches!(&read, Err(error) if error.kind() == ErrorKind::WouldBlock);
            assert!(is_open, "the first connection ended: {read:?}");
            assert!(started.elapsed() < TEST_TIMEOUT, "nobody has it");
        }
    }

    #[test]
    fn the_first_connection_is_not_reset() {
        for workers in [1, 2, 4] {
            for _ in 0..100 {
                let addr = listen(ANY, 1).unwrap()[0].local_addr().unwrap();
                let first = std::thread::spawn(move || first_connection(addr));
                let listeners = listen(addr, workers).unwrap();
                is_accepted(&listeners, first.join().unwrap());
            }
        }
    }

    #[test]
    fn all_sockets_have_one_address_and_another_server_is_refused() {
        for workers in [1, 3] {
            let listeners = listen(ANY, workers).unwrap();
            let addr = listeners[0].local_addr().unwrap();
            assert_eq!(listeners.len(), workers);
            assert!(listeners.iter().all(|it| it.local_addr().unwrap() == addr));
            for others in [1, 2] {
                let refused = listen(addr, others);
                assert!(
                    matches!(refused, Err(StartError::AddressInUse { .. })),
                    "{refused:?}"
                );
            }
        }
    }
}
