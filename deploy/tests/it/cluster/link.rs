//! Link to the native port of a shard, which can be cut and slowed down.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// Interval at which a connection without bytes notices a cut.
const TICK: Duration = Duration::from_millis(20);

/// Link that others connect to in place of a shard.
pub struct Link {
    pub address: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    is_cut: AtomicBool,
    /// Pause before each piece of bytes is passed on, in milliseconds.
    delay_ms: AtomicU64,
}

impl Link {
    /// Listens on a free port, and passes on to a port of this machine.
    pub fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                thread::spawn(move || pass(&client, port, &shared));
            }
        });
        Self { address, state }
    }

    /// Cuts all connections, and lets none through, or lets them through again.
    pub fn cut(&self, is_cut: bool) {
        self.state.is_cut.store(is_cut, Ordering::Relaxed);
    }

    /// Delays each piece of bytes.
    pub fn slow_down(&self, delay: Duration) {
        let delay = delay.as_millis() as u64;
        self.state.delay_ms.store(delay, Ordering::Relaxed);
    }
}

fn pass(client: &TcpStream, port: u16, state: &Arc<State>) {
    if state.is_cut.load(Ordering::Relaxed) {
        return;
    }
    let Ok(server) = TcpStream::connect(("127.0.0.1", port)) else {
        return;
    };
    thread::scope(|scope| {
        scope.spawn(|| copy(client, &server, state));
        copy(&server, client, state);
    });
}

/// Copies bytes in one direction until either end closes, or the link is cut.
fn copy(mut from: &TcpStream, mut to: &TcpStream, state: &State) {
    from.set_read_timeout(Some(TICK)).unwrap();
    let mut piece = vec![0; 64 << 10];
    while !state.is_cut.load(Ordering::Relaxed) {
        let count = match from.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if [ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&error.kind()) => {
                continue;
            }
            Err(_) => break,
        };
        thread::sleep(Duration::from_millis(
            state.delay_ms.load(Ordering::Relaxed),
        ));
        if to.write_all(&piece[..count]).is_err() {
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}
