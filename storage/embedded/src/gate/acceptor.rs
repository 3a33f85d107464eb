//! Accepts connections, gives each a place, and ends with the listener what has to end.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

use super::access::Access;
use crate::connections::{Connections, Place};

/// Connections of strangers at once. Each takes up to three files of the process.
const STRANGERS_MAX: usize = 256;
/// Connections at once from loopback and the networks of the server's own user.
const OWN_MAX: usize = 1024;
/// Connections of one address that wait.
const WAITING_MAX: usize = 64;
/// Bytes that the kernel takes for a client beyond what the network does.
const UNSENT_BYTES_MAX: u32 = 64 << 10;

/// Phase of the process.
#[derive(Copy, Clone, Debug, Eq, PartialEq, PartialOrd)]
pub(super) enum Phase {
    /// Connections are accepted.
    Serving,
    /// Running statements finish.
    Stopping,
    /// No statement runs any more; what the engine has written is still passed on.
    Idle,
}

/// Phase as a connection follows it.
#[derive(Clone)]
pub(super) struct Phases(watch::Receiver<Phase>);

/// Connection that was accepted.
pub(super) struct Accepted {
    pub(super) tcp: TcpStream,
    /// Address of the peer, in IPv4 where it is a mapped one; loopback for all of this machine.
    pub(super) address: IpAddr,
    pub(super) place: Arc<Place>,
    pub(super) phases: Phases,
}

/// Listener with the places of its connections.
pub(super) struct Acceptor {
    listener: TcpListener,
    access: Arc<Access>,
    own: Connections,
    strangers: Connections,
    phases: Phases,
    /// Held by each connection while it is open.
    open: mpsc::Sender<Infallible>,
}

// === impl Phases ===

impl Phases {
    pub(super) const fn new(phases: watch::Receiver<Phase>) -> Self {
        Self(phases)
    }

    /// Waits for a phase, or for the end of the process.
    pub(super) async fn reached(&mut self, phase: Phase) {
        drop(self.0.wait_for(|now| *now >= phase).await);
    }
}

// === impl Acceptor ===

impl Acceptor {
    pub(super) fn new(
        listener: TcpListener,
        access: Arc<Access>,
        phases: Phases,
        open: mpsc::Sender<Infallible>,
    ) -> Self {
        Self {
            listener,
            access,
            own: Connections::new(OWN_MAX, WAITING_MAX),
            strangers: Connections::new(STRANGERS_MAX, WAITING_MAX),
            phases,
            open,
        }
    }

    /// Serves connections until the process stops.
    pub(super) async fn run<F>(mut self, serve: impl Fn(Accepted) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                () = self.phases.reached(Phase::Stopping) => return,
            };
            match accepted {
                Ok((tcp, peer)) => {
                    if let Some(accepted) = self.admit(tcp, peer) {
                        let (place, open) = (Arc::clone(&accepted.place), self.open.clone());
                        let served = serve(accepted);
                        tokio::spawn(async move {
                            tokio::select! {
                                () = served => {}
                                () = place.evicted() => {}
                            }
                            drop(open);
                        });
                    }
                }
                Err(error) => {
                    // Out of file descriptors, most likely: some come back as connections end.
                    tracing::warn!(%error, "cannot accept a connection to ClickHouse");
                    sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    /// Gives a connection its place; `None` when there is none.
    fn admit(&self, tcp: TcpStream, peer: SocketAddr) -> Option<Accepted> {
        let address = address_of(&tcp, peer);
        let places = match self.access.has_own_places(address) {
            true => &self.own,
            false => &self.strangers,
        };
        let place = places.register(address)?;
        // Answers that nobody reads wait here and not in the kernel, where their pace is not seen.
        let _ = SockRef::from(&tcp).set_tcp_notsent_lowat(UNSENT_BYTES_MAX);
        let _ = tcp.set_nodelay(true);
        Some(Accepted {
            tcp,
            address,
            place: Arc::new(place),
            phases: self.phases.clone(),
        })
    }
}

/// Address of a peer. One that comes from the address it goes to is on this machine, as those of
/// loopback are, be it a command or a proxy.
fn address_of(tcp: &TcpStream, peer: SocketAddr) -> IpAddr {
    let address = peer.ip().to_canonical();
    let own = tcp.local_addr().map(|own| own.ip().to_canonical());
    match own.is_ok_and(|own| own == address) {
        true => Ipv4Addr::LOCALHOST.into(),
        false => address,
    }
}
