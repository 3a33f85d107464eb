//! Child process that parses one source.

use super::{ARGUMENT, EXIT_OWN_FAULT};
use crate::output;
use millrace_organizations::PLUGIN_SOURCE_BYTES_MAX;
use millrace_plugin_source::{Capabilities, SyntaxError, capabilities_of};
use rustix::process::{Resource, Rlimit, setrlimit};
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::process::ExitCode;

/// Memory limit above what the program has at its start: the tree of 5 MiB of ordinary code takes
/// 300 MiB.
const MEMORY_BYTES_MAX: u64 = 640 << 20;
/// CPU time limit; ordinary code takes 0.2 s a MiB.
const CPU_SECONDS_MAX: u64 = 2;
/// Size of the parser's stack; code that people write needs some kilobytes.
const STACK_BYTES: usize = 4 << 20;
/// Niceness of the process: everything that serves requests goes first.
const NICE: i32 = 10;

/// Returns true if these are the arguments of a process that is to parse a source.
pub fn is_asked_for(args: &[OsString]) -> bool {
    matches!(args, [_, asked] if asked == ARGUMENT)
}

/// Reads a source from standard input and writes its capabilities to standard output.
pub fn child() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => output::fail(EXIT_OWN_FAULT, &format!("plugin-source: {error}")),
    }
}

fn run() -> io::Result<()> {
    limit()?;
    let mut source = String::new();
    let bytes_max = u64::try_from(PLUGIN_SOURCE_BYTES_MAX).unwrap_or(u64::MAX);
    io::stdin().take(bytes_max).read_to_string(&mut source)?;
    let parser = std::thread::Builder::new().stack_size(STACK_BYTES);
    let parser = parser.spawn(move || -> io::Result<Result<Capabilities, SyntaxError>> {
        // From here on no other thread is needed, and an exploited parser must not get one.
        set(Resource::Nproc, 0)?;
        Ok(capabilities_of(&source))
    })?;
    let read = parser.join();
    let found = read.map_err(|_| io::Error::other("the parser panicked"))??;
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, &found)?;
    out.flush()
}

/// Limits the process to what parsing needs. Open files stay open.
fn limit() -> io::Result<()> {
    // Lower than other idle work, too; without the priority it works all the same.
    let _ = rustix::process::setpriority_process(None, NICE);
    let status = std::fs::read_to_string("/proc/self/status")?;
    let mapped = status.lines().find_map(|line| line.strip_prefix("VmSize:"));
    let mapped = mapped.and_then(|size| size.trim().strip_suffix(" kB"));
    let mapped: Option<u64> = mapped.and_then(|kib| kib.parse().ok());
    let mapped = mapped.ok_or_else(|| io::Error::other("/proc/self/status has no VmSize"))? << 10;
    // The allocator has mapped more than it uses: only what comes on top can be limited.
    set(Resource::As, mapped.saturating_add(MEMORY_BYTES_MAX))?;
    // At the soft limit it gets SIGXCPU, which tells the cause; at the hard limit SIGKILL, which
    // may have other causes.
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
