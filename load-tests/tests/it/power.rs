//! Loop devices are removed, however a run with power cuts ends.

use millrace_load::crash::disk::FileSystem;
use millrace_load::namespace;
use rustix::process::{Pid, Signal, kill_process};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Script of a server that never comes up.
const SERVER: &str = "#!/bin/sh\nexec sleep 1000\n";
const DEADLINE: Duration = Duration::from_secs(60);

/// Waits until loop devices on a folder's files exist, or are gone.
fn until_disks(dir: &Path, are_there: bool) {
    let started = Instant::now();
    let dir = dir.to_str().unwrap();
    loop {
        let output = Command::new("losetup")
            .args(["-l", "-O", "BACK-FILE"])
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        if text.contains(dir) == are_there {
            return;
        }
        assert!(started.elapsed() < DEADLINE, "{are_there}: {text}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn disks_are_gone_however_the_command_ends() {
    if let Some(reason) = namespace::refusal() {
        eprintln!("NOT TESTED: no namespaces here: {reason}");
        return;
    }
    let ways = [
        (Signal::TERM, FileSystem::Ext4),
        (Signal::KILL, FileSystem::Ext4),
        (Signal::KILL, FileSystem::Xfs),
    ];
    for (signal, file_system) in ways {
        let dir = TempDir::new().unwrap();
        let server = dir.path().join("server");
        std::fs::write(&server, SERVER).unwrap();
        std::fs::set_permissions(&server, PermissionsExt::from_mode(0o700)).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_millrace-load"))
            .args(["crash", "--power", "--kills", "1", "--layout", "apart"])
            .args(["--file-system", &file_system.to_string()])
            .arg("--server")
            .arg(&server)
            .arg("--dir")
            .arg(dir.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        if let Some(status) = ended_at_once(&mut command, dir.path()) {
            eprintln!("NOT TESTED: no loop mounts of {file_system} here: {status}");
            continue;
        }
        kill_process(Pid::from_child(&command), signal).unwrap();
        assert!(!command.wait().unwrap().success());
        until_disks(dir.path(), false);
    }
}

/// Exit status of a command that ended before it had its disks; `None` if it has them.
fn ended_at_once(
    command: &mut std::process::Child,
    dir: &Path,
) -> Option<std::process::ExitStatus> {
    let started = Instant::now();
    while started.elapsed() < DEADLINE {
        if let Some(status) = command.try_wait().unwrap() {
            return Some(status);
        }
        let folders = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
        if folders
            .map(|entry| entry.path())
            .any(|path| path.join("stderr").exists())
        {
            until_disks(dir, true);
            return None;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("neither an end nor a disk");
}
