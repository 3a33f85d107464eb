//! The process that reads a source.

use super::{ARGUMENT, EXIT_OWN_FAULT};
use millrace_catalog::PLUGIN_SOURCE_BYTES_MAX;
use millrace_plugin_source::{Capabilities, Mistake, capabilities_of};
use rustix::process::{Resource, Rlimit, setrlimit};
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::process::ExitCode;

/// Memory that reading may take beside what the program has at its start: a tree of 5 MiB of
/// ordinary code has 300 MiB.
const MEMORY_BYTES_MAX: u64 = 640 << 20;
/// Time of a core that reading may take; ordinary code takes 0.2 s a MiB.
const CPU_SECONDS_MAX: u64 = 2;
/// The parser's stack: code of people needs some kilobytes of it.
const STACK_BYTES: usize = 4 << 20;
/// How nice it is to all that serves.
const NICE: i32 = 10;

/// Recognizes the arguments of a process that is to read a source.
pub fn is_asked_for(args: &[OsString]) -> bool {
    matches!(args, [_, asked] if asked == ARGUMENT)
}

/// Reads the source on standard input and writes what it can do to standard output.
pub fn child() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => crate::fail(EXIT_OWN_FAULT, &format!("plugin-source: {error}")),
    }
}

fn run() -> io::Result<()> {
    limit()?;
    let mut source = String::new();
    let bytes_max = u64::try_from(PLUGIN_SOURCE_BYTES_MAX).unwrap_or(u64::MAX);
    io::stdin().take(bytes_max).read_to_string(&mut source)?;
    let parser = std::thread::Builder::new().stack_size(STACK_BYTES);
    let parser = parser.spawn(move || -> io::Result<Result<Capabilities, Mistake>> {
        // From here on it needs no other thread, and nobody else's code shall have one.
        set(Resource::Nproc, 0)?;
        Ok(capabilities_of(&source))
    })?;
    let read = parser.join();
    let found = read.map_err(|_| io::Error::other("the parser panicked"))??;
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, &found)?;
    out.flush()
}

/// Takes away what reading a text does not need. What is open stays open.
fn limit() -> io::Result<()> {
    // Also below an administrator who has nothing else to do; it works all the same without.
    let _ = rustix::process::setpriority_process(None, NICE);
    let status = std::fs::read_to_string("/proc/self/status")?;
    let mapped = status.lines().find_map(|line| line.strip_prefix("VmSize:"));
    let mapped = mapped.and_then(|size| size.trim().strip_suffix(" kB"));
    let mapped: Option<u64> = mapped.and_then(|kib| kib.parse().ok());
    let mapped = mapped.ok_or_else(|| io::Error::other("/proc/self/status has no VmSize"))? << 10;
    // The allocator has mapped more than it uses: only what comes on top can be limited.
    set(Resource::As, mapped.saturating_add(MEMORY_BYTES_MAX))?;
    // At the first of both it gets SIGXCPU, which says why it ends; at the second SIGKILL, which may be
    // anybody's.
    let cpu = Rlimit {
        current: Some(CPU_SECONDS_MAX),
        maximum: Some(CPU_SECONDS_MAX + 1),
    };
    setrlimit(Resource::Cpu, cpu)?;
    set(Resource::Core, 0)?;
    set(Resource::Fsize, 0)?;
    set(Resource::Nofile, 0)
}

fn set(resource: Resource, most: u64) -> io::Result<()> {
    let limit = Rlimit {
        current: Some(most),
        maximum: Some(most),
    };
    Ok(setrlimit(resource, limit)?)
}
