//! The engine's process: engine, login server, and a shutdown that lets running statements finish.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use crate::cached_users::CachedUsers;
use crate::config_xml::Addresses;
use crate::console::{Console, IDLE, SERVING, STARTED};
use crate::engine::{Prepared, PreparedEngine};
use crate::gate::Gate;
use crate::login::LoginServer;
use crate::working_dir::WorkingDir;
use crate::{EngineError, EngineOptions, QueryKey, ReservedAddress, ffi};

/// Time that running statements have to finish once shutdown begins.
const GRACE: Duration = Duration::from_secs(10);

/// Stack of the engine's thread, bytes: that of a process's first thread.
const STACK_BYTES: usize = 8 << 20;

/// Files that the process may have open, where the system permits it: the engine's, and three for
/// each connection.
const FILES_MAX: u64 = 1 << 16;

/// Progress of the engine, as its session and its thread report it.
enum Event {
    /// Requests are served.
    Serving,
    /// Nothing listens any more, and no statement runs.
    Idle,
    /// The engine has ended.
    Ended(EngineError),
}

/// Ports of loopback that are held for the engine while the process lives.
struct OwnPorts {
    http: ReservedAddress,
    native: Option<ReservedAddress>,
}

/// Starts the engine and serves requests until `shutdown` resolves; then waits for running
/// statements, for at most 10 seconds, and ends the process with success. Blocks the calling
/// thread. `on_ready` is given the address once requests are served; `shutdown` is polled only
/// then. Standard input and output are the engine's from here on: see
/// [`print_line`](crate::print_line).
///
/// # Errors
/// A problem with the library, the data directory or the address, as one sentence for the operator.
pub fn run(
    options: &EngineOptions,
    on_ready: impl FnOnce(SocketAddr),
    shutdown: impl Future,
) -> Result<Infallible, EngineError> {
    raise_file_limit();
    let users = options.users_dir.clone();
    let users = users.map(|dir| cached_users(dir, &options.password));
    let login = users.clone().map(bind_login).transpose()?;
    let gate = Gate::bind(options)?;
    let ports = OwnPorts::hold(options)?;
    let addresses = ports.addresses(login.as_ref())?;
    // Confines this thread and those that it starts: all of the engine's.
    let prepared = Prepared::new(options, &addresses)?;
    // A source of local files needs it. There are no users then who see only a part of the rows.
    let keeps_working_dir = options.sources.iter().any(|source| !source.is_remote());
    let runtime = runtime()?;
    let (sender, events) = channel(4);
    let (stop, stopping) = oneshot::channel();
    start_threads(prepared, keeps_working_dir, &sender, stopping)?;
    let process = Process {
        gate,
        addresses,
        users,
        events,
        stop,
    };
    runtime.block_on(async {
        if let Some(login) = login {
            tokio::spawn(serve_logins(login));
        }
        process.follow(on_ready, shutdown).await
    })
}

/// Raises the limit of open files as far as the system permits it.
fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(FILES_MAX).min(FILES_MAX);
    if limit.current.is_some_and(|current| current < most) {
        let raised = Rlimit {
            current: Some(most),
            maximum: limit.maximum,
        };
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            tracing::warn!(%error, "cannot raise the limit of open files");
        }
    }
}

fn cached_users(users_dir: PathBuf, own_password: &str) -> Arc<CachedUsers> {
    let query_key = QueryKey::of(own_password);
    Arc::new(CachedUsers::new(users_dir, query_key))
}

fn bind_login(users: Arc<CachedUsers>) -> Result<LoginServer, EngineError> {
    LoginServer::bind(users).map_err(EngineError::Session)
}

// === impl OwnPorts ===

impl OwnPorts {
    /// Chooses the ports where none was named. The engine binds them itself.
    fn hold(options: &EngineOptions) -> Result<Self, EngineError> {
        let hold = |port: u16| {
            ReservedAddress::of_loopback(port).map_err(|source| EngineError::Listen {
                address: ([127, 0, 0, 1], port).into(),
                source,
            })
        };
        let native = options.native_port.map(|_| hold(0));
        Ok(Self {
            http: hold(options.direct_port)?,
            native: native.transpose()?,
        })
    }

    fn addresses(&self, login: Option<&LoginServer>) -> Result<Addresses, EngineError> {
        let native = self.native.as_ref();
        Ok(Addresses {
            http: self.http.address(),
            native_port: native.map(|native| native.address().port()),
            login: login
                .map(LoginServer::address)
                .transpose()
                .map_err(EngineError::Session)?,
        })
    }
}

fn runtime() -> Result<Runtime, EngineError> {
    Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(EngineError::Runtime)
}

/// Starts the thread of the engine and the one that follows its session.
fn start_threads(
    prepared: Prepared,
    keeps_working_dir: bool,
    events: &Sender<Event>,
    stopping: oneshot::Receiver<()>,
) -> Result<(), EngineError> {
    let Prepared {
        engine,
        console,
        working_dir,
    } = prepared;
    let working_dir = (!keeps_working_dir).then_some(working_dir);
    let named = |name: &str| thread::Builder::new().name(name.to_owned());
    let sender = events.clone();
    named("session")
        .spawn(move || {
            if let Err(error) = follow_session(console, working_dir, &sender, stopping) {
                let _ = sender.blocking_send(Event::Ended(EngineError::Session(error)));
            }
        })
        .map_err(EngineError::Runtime)?;
    let sender = events.clone();
    named("clickhouse")
        .stack_size(STACK_BYTES)
        .spawn(move || run_engine(&engine, &sender))
        .map_err(EngineError::Runtime)?;
    Ok(())
}

fn run_engine(engine: &PreparedEngine, events: &Sender<Event>) {
    let _ = events.blocking_send(Event::Ended(engine.run()));
}

/// Reads the session from halt to halt.
fn follow_session(
    mut console: Console,
    working_dir: Option<WorkingDir>,
    events: &Sender<Event>,
    stopping: oneshot::Receiver<()>,
) -> io::Result<()> {
    console.read_until(STARTED)?;
    if let Some(working_dir) = working_dir {
        // Nothing listens if this fails.
        working_dir.remove()?;
    }
    console.read_until(SERVING)?;
    if events.blocking_send(Event::Serving).is_err() || stopping.blocking_recv().is_err() {
        // The process ends; the session halts.
        return Ok(());
    }
    console.read_until(IDLE)?;
    let _ = events.blocking_send(Event::Idle);
    Ok(())
}

async fn serve_logins(login: LoginServer) {
    let Err(error) = login.serve().await;
    tracing::error!(%error, "nobody but the server itself can log in to ClickHouse any more");
}

/// Parts of the process that its end needs.
struct Process {
    gate: Gate,
    addresses: Addresses,
    users: Option<Arc<CachedUsers>>,
    events: Receiver<Event>,
    /// Asks the session to stop the listeners.
    stop: oneshot::Sender<()>,
}

// === impl Process ===

impl Process {
    /// Follows the engine to its end.
    async fn follow(
        mut self,
        on_ready: impl FnOnce(SocketAddr),
        shutdown: impl Future,
    ) -> Result<Infallible, EngineError> {
        match self.events.recv().await {
            Some(Event::Serving) => {}
            event => return Err(ended(event)),
        }
        let address = self.gate.address();
        let gate = self.gate.open(&self.addresses, self.users)?;
        tracing::info!(%address, "ClickHouse engine is up");
        on_ready(address);
        tokio::select! {
            _ = shutdown => {}
            event = self.events.recv() => return Err(ended(event)),
        }
        let deadline = Instant::now() + GRACE;
        gate.stop();
        let _ = self.stop.send(());
        match timeout_at(deadline, self.events.recv()).await {
            Ok(Some(Event::Idle)) => match timeout_at(deadline, gate.drain()).await {
                Ok(()) => tracing::info!("ClickHouse engine is down"),
                Err(_) => tracing::warn!("answers that nobody read in time are abandoned"),
            },
            Ok(event) => return Err(ended(event)),
            Err(_) => {
                tracing::warn!("statements still running after the grace period are abandoned");
            }
        }
        ffi::exit_successfully()
    }
}

/// Error of an engine that ended by itself.
fn ended(event: Option<Event>) -> EngineError {
    match event {
        Some(Event::Ended(error)) => error,
        _ => EngineError::Session(io::ErrorKind::UnexpectedEof.into()),
    }
}
