//! Disks that are full, failing, read-only, not ours, or gone.
//!
//! Tests that mount are run again as the first process of namespaces of their own, so that nothing stays
//! mounted however they end. Where that is not allowed, they say so on standard error.

mod broken;
mod failing;
mod full;

use millrace_load::crash::disk::{Disk, FileSystem};
use millrace_load::namespace;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Says something past the test's own output, which nobody sees when it passes.
pub fn say_loudly(text: &str) {
    let _ = writeln!(std::io::stderr(), "\n\n{text}\n\n");
}

/// Whether this process may mount: it is the test itself. If not, the test was run in another that may, and
/// is done.
pub fn is_where_mounts_go_with_us(test: &str) -> bool {
    if namespace::is_own() {
        return true;
    }
    if let Some(reason) = namespace::refusal() {
        say_loudly(&format!("NOT TESTED: {test}: no namespaces here: {reason}"));
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
            say_loudly(line);
        } else if line.starts_with("MEASURED") {
            println!("{line}");
        }
    }
    false
}

/// A small file system; unmounted when dropped.
pub enum SmallDisk {
    Tmpfs(PathBuf),
    OnLoop(#[expect(dead_code, reason = "held for its drop")] Disk),
}

impl SmallDisk {
    /// In memory.
    pub fn tmpfs(at: &Path, size: &str) -> Self {
        std::fs::create_dir_all(at).unwrap();
        let options = format!("size={size}");
        mount(&["-t", "tmpfs", "-o", &options, "tmpfs"], at);
        Self::Tmpfs(at.to_owned())
    }

    /// In a file beside the place where it is mounted. Needs loop devices; says so if there are none.
    pub fn on_loop(file_system: FileSystem, at: &Path, bytes: u64) -> Option<Self> {
        match Disk::make_of(file_system, &at.with_added_extension("disk"), at, bytes) {
            Ok(disk) => Some(Self::OnLoop(disk)),
            Err(error) => {
                say_loudly(&format!(
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

/// Mounts in a way.
pub fn mount(how: &[&str], at: &Path) {
    let output = Command::new("mount").args(how).arg(at).output().unwrap();
    assert!(output.status.success(), "mount {how:?}: {output:?}");
}
