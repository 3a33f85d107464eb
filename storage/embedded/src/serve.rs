//! The engine's process: engine, login server, and a shutdown that lets running statements finish.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::config_xml::Addresses;
use crate::console::{Console, IDLE, SERVING, STARTED};
use crate::engine::{Prepared, PreparedEngine};
use crate::login::LoginServer;
use crate::working_dir::WorkingDir;
use crate::{EngineError, EngineOptions, QueryKey, ffi};

/// Time that running statements have to finish once shutdown begins.
const GRACE: Duration = Duration::from_secs(10);

/// Stack of the engine's thread, bytes: that of a process's first thread.
const STACK_BYTES: usize = 8 << 20;

/// Progress of the engine, as its session and its thread report it.
enum Event {
    /// Requests are served.
    Serving,
    /// Nothing listens any more, and no statement runs.
    Idle,
    /// The engine has ended.
    Ended(EngineError),
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
    let query_key = QueryKey::of(&options.password);
    let login = options.users_dir.clone();
    let login = login.map(|dir| bind_login(dir, query_key)).transpose()?;
    let addresses = choose_addresses(options, login.as_ref())?;
    // Confines this thread and those that it starts: all of the engine's.
    let prepared = Prepared::new(options, &addresses)?;
    // A source of local files needs it. There are no users then who see only a part of the rows.
    let keeps_working_dir = options.sources.iter().any(|source| !source.is_remote());
    let runtime = runtime()?;
    let (sender, events) = channel(4);
    let (stop, stopping) = oneshot::channel();
    start_threads(prepared, keeps_working_dir, &sender, stopping)?;
    runtime.block_on(async {
        if let Some(login) = login {
            tokio::spawn(serve_logins(login));
        }
        follow(addresses.http, events, stop, on_ready, shutdown).await
    })
}

fn bind_login(users_dir: PathBuf, query_key: QueryKey) -> Result<LoginServer, EngineError> {
    LoginServer::bind(users_dir, query_key).map_err(EngineError::Session)
}

/// Finds out whether the addresses are free, so that a busy port is one clear sentence, and chooses
/// a port where none was named. The engine binds them itself.
fn choose_addresses(
    options: &EngineOptions,
    login: Option<&LoginServer>,
) -> Result<Addresses, EngineError> {
    let bind = |address: SocketAddr| {
        TcpListener::bind(address)
            .and_then(|listener| listener.local_addr())
            .map_err(|source| EngineError::Listen { address, source })
    };
    let http = bind(options.listen)?;
    let native = options
        .native_port
        .map(|port| bind(SocketAddr::new(http.ip(), port)));
    Ok(Addresses {
        http,
        native_port: native.transpose()?.map(|address| address.port()),
        login: login
            .map(LoginServer::address)
            .transpose()
            .map_err(EngineError::Session)?,
    })
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

/// Reads the session from gate to gate.
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
        // The process ends; the gate stays closed.
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

async fn follow(
    address: SocketAddr,
    mut events: Receiver<Event>,
    stop: oneshot::Sender<()>,
    on_ready: impl FnOnce(SocketAddr),
    shutdown: impl Future,
) -> Result<Infallible, EngineError> {
    match events.recv().await {
        Some(Event::Serving) => {}
        event => return Err(ended(event)),
    }
    tracing::info!(%address, "ClickHouse engine is up");
    on_ready(address);
    tokio::select! {
        _ = shutdown => {}
        event = events.recv() => return Err(ended(event)),
    }
    let _ = stop.send(());
    match timeout(GRACE, events.recv()).await {
        Ok(Some(Event::Idle)) => tracing::info!("ClickHouse engine is down"),
        Ok(event) => return Err(ended(event)),
        Err(_) => {
            tracing::warn!("statements still running after the grace period are abandoned");
        }
    }
    ffi::exit_successfully()
}

/// Error of an engine that ended by itself.
fn ended(event: Option<Event>) -> EngineError {
    match event {
        Some(Event::Ended(error)) => error,
        _ => EngineError::Session(io::ErrorKind::UnexpectedEof.into()),
    }
}
