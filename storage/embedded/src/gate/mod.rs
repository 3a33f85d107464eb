//! Gate: the listeners that clients connect to, in front of the engine's own.
//!
//! The engine listens on ports of loopback that clients are not told. The program's own connections
//! go there, so whoever fills the places of the gate keeps no insert out. Everybody else comes
//! through the gate, which
//!
//! * gives connections places, by address, and ends those that wait for others ([`acceptor`]);
//! * ends heads that do not arrive, and clients that do not take their answers ([`stream`],
//!   [`pace`]);
//! * tells the engine the address of the client, and refuses pages of other sites ([`request`]);
//! * closes the connection to the engine as soon as the client's is closed ([`upstream`]);
//! * over the native protocol holds users to their networks, and ends connections whose password
//!   was given up ([`native_gate`]).
//!
//! It checks no password and reads no statement: that is the engine's. Bodies pass through buffers
//! of 64 KiB.

mod acceptor;
mod access;
mod hello;
mod http_gate;
mod native_gate;
mod pace;
mod parameters;
mod request;
mod stream;
mod upstream;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};

use self::acceptor::{Acceptor, Phase, Phases};
use self::access::Access;
use self::http_gate::HttpGate;
use self::native_gate::NativeGate;
use crate::cached_users::CachedUsers;
use crate::config_xml::Addresses;
use crate::reserved_address::ReservedAddress;
use crate::{EngineError, EngineOptions};

/// Addresses of one engine's clients, where nobody listens yet.
pub(crate) struct Gate {
    http: ReservedAddress,
    native: Option<ReservedAddress>,
    access: Access,
}

/// Gate that serves clients.
pub(crate) struct OpenGate {
    phases: watch::Sender<Phase>,
    /// Ends with the last connection.
    open: mpsc::Receiver<Infallible>,
}

// === impl Gate ===

impl Gate {
    /// Holds the addresses, so that a busy port is one clear sentence.
    pub(crate) fn bind(options: &EngineOptions) -> Result<Self, EngineError> {
        let bind = |address: SocketAddr| {
            let bound = ReservedAddress::bind(address);
            bound.map_err(|source| EngineError::Listen { address, source })
        };
        let http = bind(options.listen)?;
        let ip = http.address().ip();
        let native = options.native_port;
        let native = native.map(|port| bind(SocketAddr::new(ip, port)));
        Ok(Self {
            http,
            native: native.transpose()?,
            access: Access::new(options),
        })
    }

    /// Address of the HTTP interface.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.http.address()
    }

    /// Serves clients from now on. `users` are those whose passwords change.
    pub(crate) fn open(
        self,
        engine: &Addresses,
        users: Option<Arc<CachedUsers>>,
    ) -> Result<OpenGate, EngineError> {
        let (phases, now) = watch::channel(Phase::Serving);
        let (holder, open) = mpsc::channel(1);
        let access = Arc::new(self.access);
        let acceptor = |listener: TcpListener| {
            let phases = Phases::new(now.clone());
            Acceptor::new(listener, Arc::clone(&access), phases, holder.clone())
        };
        let gate = HttpGate::new(engine.http, Arc::clone(&access));
        let accepting = acceptor(listen(self.http)?);
        tokio::spawn(accepting.run(move |accepted| gate.serve(accepted)));
        if let (Some(reserved), Some(engine)) = (self.native, engine.native()) {
            let gate = NativeGate::new(engine, Arc::clone(&access), users);
            let accepting = acceptor(listen(reserved)?);
            tokio::spawn(accepting.run(move |accepted| gate.serve(accepted)));
        }
        Ok(OpenGate { phases, open })
    }
}

fn listen(reserved: ReservedAddress) -> Result<TcpListener, EngineError> {
    let address = reserved.address();
    let listening: io::Result<TcpListener> = reserved.listen();
    listening.map_err(|source| EngineError::Listen { address, source })
}

// === impl OpenGate ===

impl OpenGate {
    /// Accepts no connections and no further requests any more.
    pub(crate) fn stop(&self) {
        self.phases.send_replace(Phase::Stopping);
    }

    /// Waits, once no statement runs, until all answers are written.
    pub(crate) async fn drain(mut self) {
        self.phases.send_replace(Phase::Idle);
        // Nothing is ever sent.
        while self.open.recv().await.is_some() {}
    }
}
