//! Process of an engine: what the hidden test runs.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::thread;

use tokio::sync::oneshot;

use crate::{
    ADMIN, EngineOptions, READER, UsersFile, UsersFileError, announce, end_with_parent,
    find_library, print_line, run,
};

pub(super) const DATA_DIR: &str = "MILLRACE_TEST_ENGINE_DATA_DIR";
pub(super) const LISTEN: &str = "MILLRACE_TEST_ENGINE_LISTEN";
pub(super) const MEMORY: &str = "MILLRACE_TEST_ENGINE_MEMORY";
pub(super) const SOURCES: &str = "MILLRACE_TEST_ENGINE_SOURCES";
pub(super) const NATIVE: &str = "MILLRACE_TEST_ENGINE_NATIVE";
pub(super) const DIRECT: &str = "MILLRACE_TEST_ENGINE_DIRECT";
pub(super) const SHARDS: &str = "MILLRACE_TEST_ENGINE_SHARDS";
pub(super) const PARENT: &str = "MILLRACE_TEST_ENGINE_PARENT";
/// Password of the users `admin` and `reader`.
pub const PASSWORD: &str = "a test's other password";

/// Runs the engine in the child process; called by the hidden test. Does nothing unless the harness
/// started this process.
pub fn engine_process() {
    let Some(data_dir) = std::env::var_os(DATA_DIR).map(PathBuf::from) else {
        return;
    };
    let parent = std::env::var(PARENT)
        .ok()
        .map(|pid| pid.parse().expect("a process id"));
    if let Some(pid) = parent {
        end_with_parent(pid).expect("the parent lives");
    }
    // Before the engine takes standard input.
    let gone = parent_gone();
    let ready = |address| {
        // libtest has written the test's name, without a line end.
        print_line("");
        announce(address);
    };
    let end = async move {
        match parent {
            None => drop(gone.await),
            Some(_) => std::future::pending().await,
        }
    };
    let Err(error) = run(&options(data_dir), ready, end);
    // Standard output is the engine's, so libtest cannot report this.
    eprintln!("{error}");
    std::process::exit(1);
}

fn options(data_dir: PathBuf) -> EngineOptions {
    let text = |name| std::env::var(name).expect("set by the harness");
    let explicit = std::env::var_os("MILLRACE_LIBCHDB").map(PathBuf::from);
    let users_dir = users_dir(&data_dir);
    let made = UsersFile::change(&users_dir, |users| {
        for name in [ADMIN, READER] {
            users.set_password(name, PASSWORD);
        }
        Ok::<_, UsersFileError>(())
    });
    made.expect("a writable folder");
    EngineOptions {
        library: find_library(explicit.as_deref()).unwrap_or_else(|error| panic!("{error}")),
        backup_dir: data_dir.join("backups"),
        data_dir,
        listen: text(LISTEN).parse().expect("an address"),
        native_port: std::env::var(NATIVE)
            .ok()
            .map(|port| port.parse().expect("a port")),
        direct_port: std::env::var(DIRECT).map_or(0, |port| port.parse().expect("a port")),
        user: "millrace".into(),
        password: "test's password".into(),
        networks: Vec::new(),
        users_dir: Some(users_dir),
        memory_bytes_max: text(MEMORY).parse().expect("a number"),
        sources: std::env::var(SOURCES)
            .unwrap_or_default()
            .split_terminator(',')
            .map(|name| name.parse().expect("a source"))
            .collect(),
        shards: std::env::var(SHARDS)
            .unwrap_or_default()
            .split_terminator(',')
            .map(|address| address.parse().expect("an address"))
            .collect(),
        is_alone: false,
    }
}

/// Folder of the users of an engine.
pub(super) fn users_dir(data_dir: &Path) -> PathBuf {
    data_dir.join("users")
}

/// Resolves when the parent has closed this process's standard input, on purpose or by ending.
fn parent_gone() -> oneshot::Receiver<()> {
    let (sender, gone) = oneshot::channel::<()>();
    let input = rustix::io::dup(std::io::stdin()).expect("standard input");
    thread::spawn(move || {
        let _ = std::fs::File::from(input).read_to_end(&mut Vec::new());
        drop(sender);
    });
    gone
}
