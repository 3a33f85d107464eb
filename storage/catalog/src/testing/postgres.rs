//! PostgreSQL cluster that lives as long as the test binary.
//!
//! It listens on a socket in a temporary directory only, and does not sync: nothing here outlives
//! the process. PostgreSQL refuses to run as root, so root hands it to the user `postgres`.
//!
//! A supervising shell stands between: the kernel tells it when the thread that started it is gone,
//! however that came about, and then it stops the server and removes the directory. The thread is
//! one that sleeps for ever, since each test has a thread of its own that ends with it.

use super::connect::execute;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Folder in which Debian puts the binaries; newer ones are preferred.
const BINARIES: &str = "/usr/lib/postgresql";
/// Initialises and starts a server in `$1` with the binaries of `$2`; prints `ready`, or an error.
const SUPERVISOR: &str = r#"
exec 2>&1
stop() { [ -n "$server" ] && kill -QUIT "$server" && wait "$server"; rm -rf "$1"; }
trap 'stop "$1"; exit' TERM
"$2/initdb" -D "$1/data" -U postgres -A trust --no-sync --no-instructions -E UTF8 --locale=C \
    >"$1/log" || { cat "$1/log"; stop "$1"; exit 1; }
"$2/postgres" -D "$1/data" -k "$1" -c listen_addresses= -c fsync=off -c full_page_writes=off \
    -c synchronous_commit=off -c max_connections=500 >>"$1/log" 2>&1 &
server=$!
until "$2/pg_isready" -q -h "$1"; do
    kill -0 "$server" 2>/dev/null || { cat "$1/log"; stop "$1"; exit 1; }
done
echo ready
wait "$server"
stop "$1"
"#;

/// Databases that may wait for their removal; any more are removed with the cluster.
const REMOVALS_MAX: usize = 1024;

/// Running cluster.
pub struct TestPostgres {
    directory: PathBuf,
    databases: AtomicU32,
    removals: SyncSender<String>,
}

impl TestPostgres {
    /// Cluster of this test binary, started by the first call.
    ///
    /// # Panics
    ///
    /// PostgreSQL is not installed or does not start; the message has its output.
    #[allow(clippy::panic, reason = "tests end here, with the reason")]
    pub fn start() -> &'static Self {
        static CLUSTER: OnceLock<TestPostgres> = OnceLock::new();
        CLUSTER.get_or_init(|| match Self::launch() {
            Ok(cluster) => cluster,
            Err(reason) => panic!("no PostgreSQL for tests: {reason}"),
        })
    }

    /// URL of a database. `name` must exist; `postgres` always does.
    #[must_use]
    pub fn url(&self, name: &str) -> String {
        let host = self.directory.display().to_string().replace('/', "%2F");
        format!("postgres://postgres@{host}/{name}")
    }

    /// Database name that nothing in this process has had.
    pub(super) fn next_name(&self) -> String {
        let number = self.databases.fetch_add(1, Ordering::Relaxed);
        format!("test_{number}")
    }

    /// Removes a database later, with its open connections. Each has some hundred files: removing
    /// all those of a test binary in the end would take long.
    pub(super) fn remove_later(&self, name: &str) {
        let _ = self.removals.try_send(name.to_owned());
    }

    fn launch() -> Result<Self, String> {
        let binaries = find_binaries()?;
        let directory = tempfile::Builder::new()
            .prefix("millrace-postgres-")
            .tempdir()
            .map_err(|error| error.to_string())?
            // The supervisor removes it.
            .keep();
        let arguments = supervisor_arguments(&directory, &binaries)?;
        let (send, receive) = sync_channel(1);
        std::thread::Builder::new()
            .name("postgres-keeper".to_owned())
            .spawn(move || supervise(&arguments, &send))
            .map_err(|error| error.to_string())?;
        wait_until_ready(&receive)?;
        let (removals, to_remove) = sync_channel(REMOVALS_MAX);
        let cluster = Self {
            directory,
            databases: AtomicU32::new(0),
            removals,
        };
        let url = cluster.url("postgres");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| error.to_string())?;
        std::thread::Builder::new()
            .name("postgres-remover".to_owned())
            .spawn(move || remove(&runtime, &url, &to_remove))
            .map_err(|error| error.to_string())?;
        Ok(cluster)
    }
}

/// Removes databases until the process ends.
fn remove(runtime: &tokio::runtime::Runtime, url: &str, names: &Receiver<String>) {
    for name in names {
        let drop = format!("DROP DATABASE {name} WITH (FORCE)");
        // Databases that cannot be removed go with the cluster.
        let _ = runtime.block_on(execute(url, &drop));
    }
}

/// Starts the supervisor, passes on its output, and sleeps until the process ends.
fn supervise(arguments: &[String], send: &SyncSender<String>) {
    let started = Command::new("setpriv")
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn();
    let mut supervisor = match started {
        Ok(supervisor) => supervisor,
        Err(error) => {
            let _ = send.send(format!(
                "setpriv (package util-linux) does not run: {error}"
            ));
            return;
        }
    };
    if let Some(output) = supervisor.stdout.take() {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            let ready = line == "ready";
            let _ = send.send(line);
            if ready {
                break;
            }
        }
    }
    let _ = supervisor.wait();
}

fn wait_until_ready(receive: &Receiver<String>) -> Result<(), String> {
    let mut said = String::new();
    for line in receive {
        if line == "ready" {
            return Ok(());
        }
        said.push_str(&line);
        said.push('\n');
    }
    Err(said)
}

/// Arguments of `setpriv`: the identity, the death signal, the shell and its parameters.
fn supervisor_arguments(directory: &Path, binaries: &Path) -> Result<Vec<String>, String> {
    let metadata = std::fs::metadata(directory).map_err(|error| error.to_string())?;
    let mut arguments = vec!["--pdeathsig=TERM".to_owned()];
    if metadata.uid() == 0 {
        let status = Command::new("chown")
            .arg("postgres")
            .arg(directory)
            .status();
        if !status.is_ok_and(|status| status.success()) {
            return Err("there is no user postgres; apt-get install postgresql".to_owned());
        }
        let identity = ["--reuid=postgres", "--regid=postgres", "--clear-groups"];
        arguments.extend(identity.map(str::to_owned));
    }
    let shell = ["--", "sh", "-c", SUPERVISOR, "keeper"];
    arguments.extend(shell.map(str::to_owned));
    arguments.push(directory.display().to_string());
    arguments.push(binaries.display().to_string());
    Ok(arguments)
}

/// Finds the newest version's `bin` directory.
fn find_binaries() -> Result<PathBuf, String> {
    let missing =
        || format!("{BINARIES}/<version>/bin/postgres is missing; apt-get install postgresql");
    let versions = std::fs::read_dir(BINARIES).map_err(|_| missing())?;
    versions
        .filter_map(Result::ok)
        .map(|version| version.path().join("bin"))
        .filter(|bin| bin.join("postgres").exists() && bin.join("initdb").exists())
        .max_by_key(|bin| {
            let version = bin.parent().and_then(Path::file_name);
            version.and_then(|version| version.to_str()?.parse::<u32>().ok())
        })
        .ok_or_else(missing)
}
