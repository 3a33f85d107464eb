//! Listener that must see no connection.

use std::io::ErrorKind;
use std::net::TcpListener;

pub struct Canary {
    listener: TcpListener,
}

impl Canary {
    /// Listens on all addresses of this machine, of both versions where it has both.
    pub fn new() -> Self {
        let listener = TcpListener::bind("[::]:0").or_else(|error| {
            eprintln!("NOT TESTED: connections by version 6, as there is none here: {error}");
            TcpListener::bind("0.0.0.0:0")
        });
        let listener = listener.unwrap();
        listener.set_nonblocking(true).unwrap();
        Self { listener }
    }

    pub fn port(&self) -> u16 {
        self.listener.local_addr().unwrap().port()
    }

    /// Number of connections since the last call.
    pub fn connections(&self) -> usize {
        let accepted = std::iter::from_fn(|| match self.listener.accept() {
            Ok(_) => Some(()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => None,
            Err(error) => panic!("{error}"),
        });
        accepted.count()
    }
}
