//! Test harness with a real engine, for any crate. Usage, in an integration test binary
//! (`tests/it/main.rs`):
//!
//! ```text
//! // Once, at the root of the binary.
//! millrace_embedded::engine_process!();
//! // One engine for the whole binary; each test uses a database of its own.
//! let engine = millrace_embedded::testing::shared();
//! // Or one that may be killed.
//! let own = millrace_embedded::testing::TestEngine::start();
//! ```
//!
//! The macro defines a hidden test, which the binary runs again in a child process; without the
//! child's environment it does nothing. With `MILLRACE_TEST_CLICKHOUSE_URL` (and `_USER`,
//! `_PASSWORD`), `shared` is that server instead.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "test support: it fails the test, and the environment is how the child is configured"
)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;

use tokio::sync::oneshot;

use crate::supervisor::READY;
use crate::{EngineOptions, announce, end_with_parent, find_library, run};

const DATA_DIR: &str = "MILLRACE_TEST_ENGINE_DATA_DIR";
const LISTEN: &str = "MILLRACE_TEST_ENGINE_LISTEN";
const MEMORY: &str = "MILLRACE_TEST_ENGINE_MEMORY";
const SOURCES: &str = "MILLRACE_TEST_ENGINE_SOURCES";
const PARENT: &str = "MILLRACE_TEST_ENGINE_PARENT";
/// Name of the test that [`engine_process!`](crate::engine_process) defines.
const PROCESS_TEST: &str = "engine_process";

/// Defines the hidden test that is the engine's process. Use it once, at the root of a test binary.
#[macro_export]
macro_rules! engine_process {
    () => {
        #[test]
        fn engine_process() {
            $crate::testing::engine_process();
        }
    };
}

/// A ClickHouse to test against.
pub struct TestEngine {
    /// `http://host:port`, without a slash at the end.
    pub url: String,
    /// Name of the user.
    pub user: String,
    /// Password of the user.
    pub password: String,
    process: Option<Process>,
}

struct Process {
    child: Child,
    /// Closed however this process ends, upon which the child ends too.
    stdin: Option<ChildStdin>,
    data_dir: Arc<tempfile::TempDir>,
    address: SocketAddr,
    memory_bytes_max: u64,
    sources: &'static str,
}

/// Engine shared by the tests of a binary: an external server if one is named, else started once.
pub fn shared() -> &'static TestEngine {
    static SHARED: OnceLock<TestEngine> = OnceLock::new();
    SHARED.get_or_init(|| external_server().unwrap_or_else(TestEngine::start))
}

/// External server of `MILLRACE_TEST_CLICKHOUSE_URL`, if that is set.
pub fn external_server() -> Option<TestEngine> {
    let url = std::env::var("MILLRACE_TEST_CLICKHOUSE_URL").ok()?;
    let user = std::env::var("MILLRACE_TEST_CLICKHOUSE_USER").unwrap_or_else(|_| "default".into());
    let password = std::env::var("MILLRACE_TEST_CLICKHOUSE_PASSWORD").unwrap_or_default();
    Some(TestEngine {
        url: url.trim_end_matches('/').into(),
        user,
        password,
        process: None,
    })
}

/// Starts a gateway that answers every request with status 200 and a page of its own, and returns
/// its URL.
pub fn gateway_with_page(page: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("a bound port");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || answer_with_page(stream, page));
        }
    });
    format!("http://{address}")
}

fn answer_with_page(mut stream: TcpStream, page: &str) {
    let mut request = vec![0; 64 << 10];
    if stream.read(&mut request).is_ok_and(|count| count > 0) {
        let length = page.len();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close");
        let _ = stream.write_all(format!("{head}\r\n\r\n{page}").as_bytes());
        // Read to the end, so that the answer is not lost with the connection.
        while stream.read(&mut request).is_ok_and(|count| count > 0) {}
    }
}

/// Starts a gateway before the server at `url` that caches: each request whose body contains `text`
/// is answered as the first of them was, and others by the server. Returns its URL.
pub fn gateway_repeating(url: &str, text: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("a bound port");
    let server = url.trim_start_matches("http://").trim_end_matches('/');
    let server = server.to_owned();
    let first = Arc::new(Mutex::new(None));
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (server, first) = (server.clone(), Arc::clone(&first));
            thread::spawn(move || repeat_answer(stream, &server, text, &first));
        }
    });
    format!("http://{address}")
}

fn repeat_answer(
    mut client: TcpStream,
    server: &str,
    text: &str,
    first: &Mutex<Option<Vec<u8>>>,
) -> Option<()> {
    let request = read_request(&mut client)?;
    let is_repeated = String::from_utf8_lossy(&request).contains(text);
    let mut first = is_repeated.then(|| first.lock().unwrap_or_else(PoisonError::into_inner));
    let kept = first.as_ref().and_then(|kept| (**kept).clone());
    let answer = match kept {
        Some(answer) => answer,
        None => {
            let mut upstream = TcpStream::connect(server).ok()?;
            upstream.write_all(&request).ok()?;
            let mut answer = Vec::new();
            upstream.read_to_end(&mut answer).ok()?;
            if let Some(first) = &mut first {
                **first = Some(answer.clone());
            }
            answer
        }
    };
    client.write_all(&answer).ok()
}

/// Reads a request to its end, and adds that the connection is closed after it.
fn read_request(client: &mut TcpStream) -> Option<Vec<u8>> {
    let (mut request, mut piece) = (Vec::new(), vec![0; 64 << 10]);
    loop {
        let end = request.windows(4).position(|it| it == b"\r\n\r\n");
        if let Some(end) = end {
            let head = String::from_utf8_lossy(request.get(..end)?).to_lowercase();
            let length = head
                .lines()
                .find_map(|it| it.strip_prefix("content-length: "));
            let length = length.map_or(Some(0), |length| length.parse::<usize>().ok())?;
            if request.len() >= end + 4 + length {
                drop(request.splice(end..end, *b"\r\nConnection: close"));
                return Some(request);
            }
        }
        let count = client.read(&mut piece).ok().filter(|count| *count > 0)?;
        request.extend_from_slice(piece.get(..count)?);
    }
}

// === impl TestEngine ===

impl TestEngine {
    /// Starts a new engine, with 2 GiB of memory, on a free port and a new directory.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with_memory(2 << 30)
    }

    /// Starts a new engine with another memory limit, in bytes.
    #[must_use]
    pub fn start_with_memory(memory_bytes_max: u64) -> Self {
        Self::start_with(memory_bytes_max, "", None)
    }

    /// Starts a new engine with these sources open, separated by commas.
    #[must_use]
    pub fn start_with_sources(sources: &'static str) -> Self {
        Self::start_with(2 << 30, sources, None)
    }

    /// Starts a new engine with `folder` as its process's working directory.
    #[must_use]
    pub fn start_in(folder: &Path) -> Self {
        Self::start_with(2 << 30, "", Some(folder))
    }

    fn start_with(memory_bytes_max: u64, sources: &'static str, folder: Option<&Path>) -> Self {
        let data_dir = Arc::new(tempfile::tempdir().expect("a temporary directory"));
        let process = Process::start(
            data_dir,
            SocketAddr::from(([127, 0, 0, 1], 0)),
            memory_bytes_max,
            sources,
            folder,
        );
        let url = format!("http://{}", process.address);
        Self {
            url,
            user: "millrace".into(),
            password: "test's password".into(),
            process: Some(process),
        }
    }

    /// Process id of the engine; `None` for an external server.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(|process| process.child.id())
    }

    /// Data directory of the engine; `None` for an external server.
    #[must_use]
    pub fn data_dir(&self) -> Option<&Path> {
        self.process.as_ref().map(|process| process.data_dir.path())
    }

    /// Kills the engine as a crash does. Only for one that was started here.
    pub fn kill9(&mut self) {
        let process = self
            .process
            .as_mut()
            .expect("an engine started by this test");
        process.child.kill().expect("the engine's process");
        process.child.wait().expect("the engine's process");
    }

    /// Stops the engine gracefully, and waits for its end.
    pub fn stop(&mut self) {
        let process = self
            .process
            .as_mut()
            .expect("an engine started by this test");
        drop(process.stdin.take());
        process.child.wait().expect("the engine's process");
    }

    /// Restarts the engine after [`kill9`](Self::kill9) or [`stop`](Self::stop), on the same port
    /// and directory.
    pub fn restart(&mut self) {
        let old = self.process.take().expect("an engine started by this test");
        self.process = Some(Process::start(
            Arc::clone(&old.data_dir),
            old.address,
            old.memory_bytes_max,
            old.sources,
            None,
        ));
    }
}

// === impl Process ===

impl Process {
    fn start(
        data_dir: Arc<tempfile::TempDir>,
        listen: SocketAddr,
        memory_bytes_max: u64,
        sources: &'static str,
        folder: Option<&Path>,
    ) -> Self {
        let mut command = command(data_dir.path(), listen, memory_bytes_max);
        if let Some(folder) = folder {
            command.current_dir(folder);
        }
        let mut child = command
            .env(SOURCES, sources)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the test binary runs again");
        let stdin = child.stdin.take();
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let address = lines
            .by_ref()
            .map_while(Result::ok)
            .find_map(|line| line.strip_prefix(READY).and_then(|address| address.parse().ok()))
            .unwrap_or_else(|| panic!("no engine: is `millrace_embedded::engine_process!()` at the root of this test binary?"));
        // Keep reading, so that the child never waits for its output to be read.
        thread::spawn(move || lines.for_each(drop));
        Self {
            child,
            stdin,
            data_dir,
            address,
            memory_bytes_max,
            sources,
        }
    }
}

/// Command line of an engine process, for the tests of a supervisor: it ends with its parent and on
/// SIGTERM.
pub fn supervised_command(data_dir: &Path, listen: SocketAddr) -> Command {
    let mut command = command(data_dir, listen, 2 << 30);
    command.env(PARENT, std::process::id().to_string());
    command
}

fn command(data_dir: &Path, listen: SocketAddr, memory_bytes_max: u64) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("the test binary"));
    command
        .args([PROCESS_TEST, "--exact", "--nocapture", "--test-threads=1"])
        .env(DATA_DIR, data_dir)
        .env(LISTEN, listen.to_string())
        .env(MEMORY, memory_bytes_max.to_string());
    command
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs the engine in the child process; called by the hidden test. Does nothing unless the harness
/// started this process.
pub fn engine_process() {
    let Some(data_dir) = std::env::var_os(DATA_DIR).map(PathBuf::from) else {
        return;
    };
    let text = |name| std::env::var(name).expect("set by the harness");
    let explicit = std::env::var_os("MILLRACE_LIBCHDB").map(PathBuf::from);
    let options = EngineOptions {
        library: find_library(explicit.as_deref()).unwrap_or_else(|error| panic!("{error}")),
        backup_dir: data_dir.join("backups"),
        data_dir,
        listen: text(LISTEN).parse().expect("an address"),
        user: "millrace".into(),
        password: "test's password".into(),
        memory_bytes_max: text(MEMORY).parse().expect("a number"),
        sources: std::env::var(SOURCES)
            .unwrap_or_default()
            .split_terminator(',')
            .map(|name| name.parse().expect("a source"))
            .collect(),
    };
    let parent = std::env::var(PARENT)
        .ok()
        .map(|pid| pid.parse().expect("a process id"));
    if let Some(pid) = parent {
        end_with_parent(pid).expect("the parent lives");
    }
    let ready = |address| {
        // libtest has written the test's name, without a line end.
        std::io::stdout()
            .write_all(b"\n")
            .expect("the parent reads");
        announce(address);
    };
    let end = async move {
        match parent {
            None => parent_gone().await,
            Some(_) => std::future::pending().await,
        }
    };
    run(options, ready, end).unwrap_or_else(|error| panic!("{error}"));
    // Returning to libtest would write the result to a parent that has ended.
    std::process::exit(0);
}

/// Resolves when the parent has closed this process's standard input, on purpose or by ending.
async fn parent_gone() {
    let (sender, gone) = oneshot::channel::<()>();
    thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        drop(sender);
    });
    let _ = gone.await;
}
