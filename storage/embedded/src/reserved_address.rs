//! Addresses that are held before, and between the times when, somebody listens there.
//!
//! A socket that is bound and does not listen keeps its port from everybody who asks for a free
//! one, connections that go out included. It permits whoever asks for this very port to listen, as
//! the engine does, with the option that all servers set (`SO_REUSEADDR`). Until then clients are
//! refused and need not wait.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::{TcpListener, TcpSocket};

/// Connections that wait to be accepted.
const BACKLOG: u32 = 1024;

/// Address that this process holds.
#[derive(Debug)]
pub struct ReservedAddress {
    socket: TcpSocket,
    address: SocketAddr,
}

// === impl ReservedAddress ===

impl ReservedAddress {
    /// Holds an address; port 0 takes a free one.
    ///
    /// # Errors
    /// Somebody listens there, or the address is another machine's.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        let address = socket.local_addr()?;
        Ok(Self { socket, address })
    }

    /// Holds a port of loopback; 0 takes a free one.
    ///
    /// # Errors
    /// Somebody listens there.
    pub fn of_loopback(port: u16) -> io::Result<Self> {
        Self::bind((Ipv4Addr::LOCALHOST, port).into())
    }

    /// Address with the port that was taken.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Listens there. Needs a runtime.
    pub(crate) fn listen(self) -> io::Result<TcpListener> {
        self.socket.listen(BACKLOG)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpStream;

    #[test]
    fn a_held_port_is_nobodys_until_somebody_asks_for_it() {
        let held = ReservedAddress::of_loopback(0).unwrap();
        let address = held.address();
        TcpStream::connect(address).unwrap_err();
        let mut again = Vec::new();
        for _ in 0..2 {
            // As the engine does, and does again after its restart.
            let listener = std::net::TcpListener::bind(address).unwrap();
            TcpStream::connect(address).unwrap();
            drop(listener);
            again.push(ReservedAddress::bind(address).unwrap());
        }
        let listener = std::net::TcpListener::bind(address).unwrap();
        let error = ReservedAddress::bind(address).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        drop(listener);
    }
}
