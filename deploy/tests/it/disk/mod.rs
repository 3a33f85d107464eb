//! Disks that are full, failing, read-only, of another user, or gone.
//!
//! Tests that mount are run again as the first process of namespaces of their own, so that nothing
//! stays mounted however they end. Where that is not allowed, they print so to standard error.

mod full;
mod io_errors;
mod unusable_folders;

use millrace_load::crash::disk::{Disk, FileSystem};
use millrace_load::namespace;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Prints to the terminal, as nobody sees the output of a test that passes.
pub fn print_to_stderr(text: &str) {
    let _ = writeln!(std::io::stderr(), "\n\n{text}\n\n");
}

/// Returns true in a process that may mount. Otherwise runs the test in one, and returns false once
/// it has passed.
pub fn is_in_mount_namespace(test: &str) -> bool {
    if namespace::is_own() {
        return true;
    }
    if let Some(reason) = namespace::refusal() {
        print_to_stderr(&format!("NOT TESTED: {test}: no namespaces here: {reason}"));
        return false;
    }
    let output = namespace::command(&std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    let all = said.join("\n");
    assert!(output.status.success(), "{all}");
    assert!(all.contains("1 passed"), "there is no {test}: {all}");
    for line in all.lines() {
        if line.starts_with("NOT TESTED") {
            print_to_stderr(line);
        } else if line.starts_with("MEASURED") {
            println!("{line}");
        }
    }
    false
}

/// Small file system; unmounted when dropped.
pub enum SmallDisk {
    Tmpfs(PathBuf),
    OnLoop(#[expect(dead_code, reason = "held for its drop")] Disk),
}

impl SmallDisk {
    /// Mounts a file system in memory.
    pub fn tmpfs(at: &Path, size: &str) -> Self {
        std::fs::create_dir_all(at).unwrap();
        let options = format!("size={size}");
        mount(&["-t", "tmpfs", "-o", &options, "tmpfs"], at);
        Self::Tmpfs(at.to_owned())
    }

    /// Mounts a file system from a file beside the mount point. Needs loop devices; prints so if
    /// there are none.
    pub fn on_loop(file_system: FileSystem, at: &Path, bytes: u64) -> Option<Self> {
        match Disk::make_of(file_system, &at.with_added_extension("disk"), at, bytes) {
            Ok(disk) => Some(Self::OnLoop(disk)),
            Err(error) => {
                print_to_stderr(&format!(
                    "NOT TESTED: no loop mounts of {file_system} here: {error:#}"
                ));
                None
            }
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        if let Self::Tmpfs(at) = self {
            let _ = Command::new("umount").arg("--lazy").arg(at).status();
        }
    }
}

/// Mounts with these options.
pub fn mount(options: &[&str], at: &Path) {
    let output = Command::new("mount")
        .args(options)
        .arg(at)
        .output()
        .unwrap();
    assert!(output.status.success(), "mount {options:?}: {output:?}");
}
