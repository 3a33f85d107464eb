//! Worker of one core: its runtime, its connections, and their end.
//!
//! A connection's task never leaves its core, so nothing that a request passes is locked or moved.
//! A panic in it ends that connection alone; one in a task that all requests of the core wait for
//! ends the worker, and with it the process.
//!
//! This module has the runtime and its background tasks, `connections` what is accepted.

mod connections;

use crate::config::ServerConfig;
use crate::connection::listener::BACKLOG;
use crate::connection::stop_phase::StopPhase;
use crate::core::Core;
use crate::metrics;
use crate::process::ProcessState;
use connections::Worker;
use std::io;
use std::net::TcpListener;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::runtime::{LocalOptions, LocalRuntime};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::timeout;

/// Interval in which the budget's gauge is set.
const BUDGET_SAMPLE_EVERY: Duration = Duration::from_secs(1);
/// Pause before the commit thread is looked at again, while requests wait for it.
const COMMIT_PAUSE: Duration = Duration::from_millis(1);
/// Number of tasks after which a core looks for answers of the commit thread, which come from
/// outside of its runtime. Otherwise they wait until it has nothing else to do or has had 31 other
/// tasks, and what they need has left the processor's cache: 6 % fewer single events over 512
/// connections.
const ANSWERS_INTERVAL: u32 = 1;
/// Time that a thread of the offload pool waits for more work. What it freed of a large body goes
/// back to the system when it ends at the latest.
const OFFLOAD_KEEP_ALIVE: Duration = Duration::from_secs(1);

/// Reason why a worker ended before it was told to.
#[derive(Debug, Error)]
pub enum WorkerError {
    /// Its runtime could not be made.
    #[error("a worker has no runtime: {0}")]
    Runtime(io::Error),
    /// Its listener cannot be polled.
    #[error("a worker's listener cannot be polled: {0}")]
    Listener(io::Error),
    /// A task panicked that its requests wait for.
    #[error("a background task of a worker failed: {0}")]
    Task(JoinError),
    /// It panicked itself.
    #[error("a worker panicked")]
    Panicked,
}

/// Serves on the thread of the caller until told to stop.
///
/// # Errors
/// When it cannot begin, or a task fails that its requests wait for. Then its connections are cut.
pub fn run(
    process: Arc<ProcessState>,
    listener: TcpListener,
    stop: watch::Receiver<StopPhase>,
) -> Result<(), WorkerError> {
    let runtime = runtime(&process.config).map_err(WorkerError::Runtime)?;
    runtime.block_on(async { work(Core::new(process), listener, stop).await })
}

/// Runtime of a core. All blocking work on it is that of the offload pool.
fn runtime(config: &ServerConfig) -> io::Result<LocalRuntime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .global_queue_interval(ANSWERS_INTERVAL)
        .thread_name("offload")
        .thread_keep_alive(OFFLOAD_KEEP_ALIVE)
        .on_thread_start(config.on_offload_thread)
        .build_local(LocalOptions::default())
}

/// Accepts until told to stop, then drains.
async fn work(
    core: Rc<Core>,
    listener: TcpListener,
    stop: watch::Receiver<StopPhase>,
) -> Result<(), WorkerError> {
    let background_tasks = background_tasks(&core);
    work_beside(background_tasks, core, listener, stop).await
}

/// Accepts and drains beside the tasks that a core's requests wait for.
async fn work_beside(
    mut background_tasks: JoinSet<()>,
    core: Rc<Core>,
    listener: TcpListener,
    mut stop: watch::Receiver<StopPhase>,
) -> Result<(), WorkerError> {
    let listener = tokio::net::TcpListener::from_std(listener).map_err(WorkerError::Listener)?;
    let grace = core.process.config.grace;
    let worker = Worker::new(core, stop.clone());
    loop {
        tokio::select! {
            accepted = listener.accept() => worker.accepted(accepted).await,
            Some(Err(error)) = background_tasks.join_next() => {
                return Err(WorkerError::Task(error));
            }
            () = StopPhase::stopped(&mut stop) => break,
        }
    }
    let listener = listener.into_std().map_err(WorkerError::Listener)?;
    accept_waiting(&listener, &worker).await;
    drop(listener);
    let cut = tokio::select! {
        // Before the cut, so that nothing is told of a worker without connections.
        biased;
        drained = timeout(grace, worker.drained()) => {
            drained.err().map(|_| "at the end of the grace period")
        }
        () = StopPhase::cut_short(&mut stop) => Some("as the stop was cut short"),
        Some(Err(error)) = background_tasks.join_next() => return Err(WorkerError::Task(error)),
    };
    if let Some(why) = cut {
        tracing::warn!(connections = worker.open(), "connections were cut {why}");
    }
    Ok(())
}

/// Accepts what the kernel has connected already: closing the socket would reset it. The kernel is
/// asked itself, as the runtime learns of new connections only when it next waits for any.
async fn accept_waiting(listener: &TcpListener, worker: &Rc<Worker>) {
    for _ in 0..BACKLOG {
        let Ok((stream, peer)) = listener.accept() else {
            return;
        };
        let is_set = stream.set_nonblocking(true);
        let stream = is_set.and_then(|()| tokio::net::TcpStream::from_std(stream));
        worker.accepted(stream.map(|stream| (stream, peer))).await;
    }
}

/// Starts the tasks that a core's requests wait for; none of them ends by itself.
fn background_tasks(core: &Rc<Core>) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    let detached = Rc::clone(&core.detached);
    tasks.spawn_local(async move { detached.drive().await });
    tasks.spawn_local(watch_budget(Arc::clone(&core.process)));
    let pipeline = core.process.deps.pipeline.clone();
    let has_capacity = move |lane| pipeline.keeps_up(lane);
    let pause = || tokio::time::sleep(COMMIT_PAUSE);
    tasks.spawn_local(Rc::clone(&core.admission.fair_queue).serve(has_capacity, pause));
    tasks
}

/// Shows how much of the budget is used. Sampled, because a gauge that every request moves would be
/// one more cache line for all cores to fight over.
async fn watch_budget(process: Arc<ProcessState>) {
    let gauge = metrics::in_flight_bytes();
    let mut every = tokio::time::interval(BUDGET_SAMPLE_EVERY);
    loop {
        every.tick().await;
        gauge.set(process.budget.used() as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::testing::deps;
    use millrace_catalog::Catalog;
    use millrace_organizations::{BootstrapOptions, bootstrap};
    use millrace_parse::Parser;
    use millrace_pipeline::Running;
    use std::cell::RefCell;
    use std::net::SocketAddr;
    use std::path::Path;
    use std::sync::mpsc::{SyncSender, sync_channel};
    use tempfile::TempDir;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;
    use tokio::task::{JoinHandle, spawn_local};

    /// Time that is longer than it takes on a busy machine.
    const SOON: Duration = Duration::from_secs(20);
    const KEY: &str = "phc_0000000000000000000000000000000000000000001";

    async fn failing() {
        panic!("a mistake of ours");
    }

    /// Core with what is behind it, and the listener of its worker.
    struct TestCore {
        core: Rc<Core>,
        listener: Option<TcpListener>,
        addr: SocketAddr,
        running: Running,
        _dir: TempDir,
    }

    impl TestCore {
        async fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let (deps, running) = deps(dir.path()).await;
            add_project(dir.path()).await;
            let any = SocketAddr::from(([127, 0, 0, 1], 0));
            let listener = TcpListener::bind(any).unwrap();
            listener.set_nonblocking(true).unwrap();
            let process = ProcessState::new(ServerConfig::on(any), deps);
            Self {
                core: Core::new(Arc::new(process)),
                addr: listener.local_addr().unwrap(),
                listener: Some(listener),
                running,
                _dir: dir,
            }
        }

        /// Starts the worker, to be stopped by the sender.
        fn start(
            &mut self,
        ) -> (
            watch::Sender<StopPhase>,
            JoinHandle<Result<(), WorkerError>>,
        ) {
            let (stop, stopped) = watch::channel(StopPhase::Serving);
            let listener = self.listener.take().unwrap();
            let working = spawn_local(work(Rc::clone(&self.core), listener, stopped));
            (stop, working)
        }

        /// Posts events, and returns the response; empty if the connection was cut.
        async fn post(&self, events: &serde_json::Value) -> String {
            let body = serde_json::json!({ "api_key": KEY, "batch": events }).to_string();
            self.send("/batch/", &body).await
        }

        /// Posts a body, and returns the response likewise.
        async fn send(&self, target: &str, body: &str) -> String {
            let mut client = TcpStream::connect(self.addr).await.unwrap();
            let head = format!(
                "POST {target} HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n\
                 Connection: close\r\nContent-Length: {}\r\n\r\n",
                body.len()
            );
            client.write_all(head.as_bytes()).await.unwrap();
            client.write_all(body.as_bytes()).await.unwrap();
            let mut response = String::new();
            // Fails when the connection is reset.
            let _ = client.read_to_string(&mut response).await;
            response
        }

        async fn assert_stores(&self) {
            let response = self.post(&events(1, "short")).await;
            assert!(response.starts_with("HTTP/1.1 200"), "{response}");
        }
    }

    /// Adds a project with [`KEY`] to the catalog of [`deps`].
    async fn add_project(dir: &Path) {
        let url = format!("sqlite://{}?mode=rwc", dir.join("catalog.db").display());
        let catalog = Catalog::open(&url).await.unwrap();
        let options = BootstrapOptions {
            project_key: Some(KEY.to_owned()),
            ..BootstrapOptions::default()
        };
        bootstrap(&catalog, options).await.unwrap().unwrap();
    }

    fn events(count: usize, text: &str) -> serde_json::Value {
        let event = serde_json::json!({
            "event": "e", "distinct_id": "d", "properties": {"text": text}
        });
        serde_json::Value::Array(vec![event; count])
    }

    fn on_a_core(test: impl AsyncFnOnce()) {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        runtime(&ServerConfig::on(any)).unwrap().block_on(test());
    }

    /// Tells when the thread ends that it is kept on.
    struct OnThreadEnd(SyncSender<()>);

    impl Drop for OnThreadEnd {
        fn drop(&mut self) {
            let _ = self.0.send(());
        }
    }

    thread_local! {
        static ON_END: RefCell<Option<OnThreadEnd>> = const { RefCell::new(None) };
    }

    #[test]
    fn a_thread_of_the_offload_pool_ends_without_work_while_its_core_goes_on() {
        assert_eq!(OFFLOAD_KEEP_ALIVE, Duration::from_secs(1));
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let runtime = runtime(&ServerConfig::on(any)).unwrap();
        let (ends, ended) = sync_channel(1);
        runtime.block_on(async {
            let work = move || ON_END.set(Some(OnThreadEnd(ends)));
            tokio::task::spawn_blocking(work).await.unwrap();
        });
        assert_eq!(ended.recv_timeout(SOON), Ok(()));
        drop(runtime);
    }

    #[test]
    fn a_panic_of_a_request_ends_its_connection_alone() {
        on_a_core(async || {
            let mut test = TestCore::new().await;
            let (stop, working) = test.start();
            test.assert_stores().await;
            let core = Rc::clone(&test.core);
            // Parsed beside the core, it panics as it is submitted: the core's parser is taken.
            let taken = Box::new(core.parser.borrow_mut());
            let large = events(6, &"a".repeat(800 << 10));
            let response = timeout(SOON, test.post(&large)).await;
            assert_eq!(response.expect("it waits for ever"), "");
            drop(taken);
            assert!(!working.is_finished(), "a request ends the worker");
            test.assert_stores().await;
            assert!(test.core.detached.is_empty());
            // It holds nothing: the bytes in memory are those of no request.
            assert_eq!(test.core.process.budget.used(), 0);
            stop.send(StopPhase::Draining).unwrap();
            let ended = timeout(SOON, working)
                .await
                .expect("it waits for something");
            assert!(ended.unwrap().is_ok());
            test.running.stop();
        });
    }

    /// Regression: what a panic had left half done was what the next request began with.
    #[test]
    fn a_core_has_a_new_parser_after_a_panic() {
        on_a_core(async || {
            let mut test = TestCore::new().await;
            let (stop, working) = test.start();
            test.assert_stores().await;
            let core = Rc::clone(&test.core);
            let parser = || format!("{:?}", core.parser.borrow());
            let new = format!("{:?}", Parser::default());
            assert_ne!(parser(), new, "it keeps nothing");
            // It panics as it is decoded: the core's decoder is taken.
            let taken = Box::new(core.decoder.borrow_mut());
            let response = timeout(SOON, test.send("/e/?compression=gzip", "none")).await;
            assert_eq!(response.expect("it waits for ever"), "");
            drop(taken);
            assert_eq!(parser(), new);
            test.assert_stores().await;
            stop.send(StopPhase::Draining).unwrap();
            let ended = timeout(SOON, working).await;
            assert!(ended.expect("it waits for something").unwrap().is_ok());
            test.running.stop();
        });
    }

    #[test]
    fn a_panic_of_a_submission_whose_client_went_away_ends_it_alone() {
        on_a_core(async || {
            let mut test = TestCore::new().await;
            let (stop, working) = test.start();
            drop(test.core.detached.run_to_completion(failing()));
            test.assert_stores().await;
            assert!(test.core.detached.is_empty());
            stop.send(StopPhase::Draining).unwrap();
            let ended = timeout(SOON, working)
                .await
                .expect("it waits for something");
            assert!(ended.unwrap().is_ok());
            test.running.stop();
        });
    }

    #[test]
    fn a_panic_of_a_task_that_all_requests_wait_for_ends_the_worker() {
        on_a_core(async || {
            let mut test = TestCore::new().await;
            let mut tasks = background_tasks(&test.core);
            tasks.spawn_local(failing());
            let (_stop, stopped) = watch::channel(StopPhase::Serving);
            let listener = test.listener.take().unwrap();
            let working = work_beside(tasks, Rc::clone(&test.core), listener, stopped);
            let ended = timeout(SOON, working).await;
            let ended = ended.expect("it goes on, and requests wait for ever");
            assert!(matches!(ended, Err(WorkerError::Task(_))), "{ended:?}");
            test.running.stop();
        });
    }
}
