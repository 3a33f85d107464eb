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

mod child;
mod free_ports;
mod gateway;
mod shards;

pub use child::{PASSWORD, engine_process};
pub use gateway::{gateway_repeating, gateway_with_page};

use child::{DATA_DIR, DIRECT, LISTEN, MEMORY, NATIVE, PARENT, SHARDS, SOURCES, users_dir};
use free_ports::free_ports;
use std::io::{BufRead as _, BufReader};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::thread;

use crate::ReservedAddress;
use crate::supervisor::READY;

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
    /// Address of the engine itself, behind its gate; held over restarts.
    direct: Arc<ReservedAddress>,
    settings: ProcessSettings,
}

/// Settings of an engine, which it keeps over restarts.
#[derive(Clone)]
struct ProcessSettings {
    memory_bytes_max: u64,
    sources: &'static str,
    native_port: Option<u16>,
    /// Native addresses of all shards, separated by commas.
    shards: String,
}

impl Default for ProcessSettings {
    fn default() -> Self {
        Self {
            memory_bytes_max: 2 << 30,
            sources: "",
            native_port: None,
            shards: String::new(),
        }
    }
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

// === impl TestEngine ===

impl TestEngine {
    /// Starts a new engine, with 2 GiB of memory, on a free port and a new directory.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with(ProcessSettings::default(), None)
    }

    /// Starts a new engine with another memory limit, in bytes.
    #[must_use]
    pub fn start_with_memory(memory_bytes_max: u64) -> Self {
        let settings = ProcessSettings {
            memory_bytes_max,
            ..ProcessSettings::default()
        };
        Self::start_with(settings, None)
    }

    /// Starts a new engine with these sources open, separated by commas.
    #[must_use]
    pub fn start_with_sources(sources: &'static str) -> Self {
        let settings = ProcessSettings {
            sources,
            ..ProcessSettings::default()
        };
        Self::start_with(settings, None)
    }

    /// Starts a new engine that speaks the native protocol, too.
    #[must_use]
    pub fn start_with_native() -> Self {
        let settings = ProcessSettings {
            native_port: free_ports(1).pop(),
            ..ProcessSettings::default()
        };
        Self::start_with(settings, None)
    }

    /// Starts a new engine with `folder` as its process's working directory.
    #[must_use]
    pub fn start_in(folder: &Path) -> Self {
        Self::start_with(ProcessSettings::default(), Some(folder))
    }

    /// Starts a new engine on another address of this machine than loopback.
    #[must_use]
    pub fn start_on(ip: IpAddr) -> Self {
        Self::start_at(ip, ProcessSettings::default(), None)
    }

    fn start_with(settings: ProcessSettings, folder: Option<&Path>) -> Self {
        Self::start_at(IpAddr::from([127, 0, 0, 1]), settings, folder)
    }

    fn start_at(ip: IpAddr, settings: ProcessSettings, folder: Option<&Path>) -> Self {
        let data_dir = Arc::new(tempfile::tempdir().expect("a temporary directory"));
        let direct = ReservedAddress::of_loopback(0).expect("a free port");
        let listen = SocketAddr::new(ip, 0);
        let process = Process::start(data_dir, listen, Arc::new(direct), settings, folder);
        let url = format!("http://{}", process.address);
        Self {
            url,
            user: "millrace".into(),
            password: "test's password".into(),
            process: Some(process),
        }
    }

    /// The same engine by another user.
    #[must_use]
    pub fn by(&self, user: &str, password: &str) -> Self {
        Self {
            url: self.url.clone(),
            user: user.into(),
            password: password.into(),
            process: None,
        }
    }

    /// The engine itself, behind its gate, as the program's own connections reach it.
    #[must_use]
    pub fn direct(&self) -> Self {
        let process = self.process.as_ref();
        let direct = process.map(|process| format!("http://{}", process.direct.address()));
        Self {
            url: direct.unwrap_or_else(|| self.url.clone()),
            ..self.by(&self.user, &self.password)
        }
    }

    /// Port of the native protocol.
    #[must_use]
    pub fn native_port(&self) -> Option<u16> {
        self.process
            .as_ref()
            .and_then(|process| process.settings.native_port)
    }

    /// Folder of the engine's users; `None` for an external server.
    #[must_use]
    pub fn users_dir(&self) -> Option<PathBuf> {
        self.data_dir().map(users_dir)
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
        let data_dir = Arc::clone(&old.data_dir);
        let (settings, direct) = (old.settings.clone(), Arc::clone(&old.direct));
        let process = Process::start(data_dir, old.address, direct, settings, None);
        self.process = Some(process);
    }
}

// === impl Process ===

impl Process {
    fn start(
        data_dir: Arc<tempfile::TempDir>,
        listen: SocketAddr,
        direct: Arc<ReservedAddress>,
        settings: ProcessSettings,
        folder: Option<&Path>,
    ) -> Self {
        let mut command = command(data_dir.path(), listen, settings.memory_bytes_max);
        if let Some(folder) = folder {
            command.current_dir(folder);
        }
        if let Some(port) = settings.native_port {
            command.env(NATIVE, port.to_string());
        }
        let mut child = command
            .env(DIRECT, direct.address().port().to_string())
            .env(SOURCES, settings.sources)
            .env(SHARDS, &settings.shards)
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
            direct,
            settings,
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
