//! A program run again in namespaces of its own, so that what it mounts and starts is gone with it, however
//! it ends: the kernel unmounts, frees loop devices and kills the rest when the first process dies.

use std::path::Path;
use std::process::Command;

/// A command for a program as the first process of its own process and mount namespaces.
///
/// It is killed when the thread that starts it ends. Interrupts reach it by the terminal alone.
#[must_use]
pub fn command(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command
        .args(["--pdeathsig", "KILL", "--", "unshare"])
        .args(["--mount", "--propagation", "private"])
        .args(["--pid", "--fork", "--kill-child", "--mount-proc"]);
    if !rustix::process::geteuid().is_root() {
        // Root in a namespace of users may mount, too, though no loop devices.
        command.args(["--user", "--map-root-user"]);
    }
    command.arg("--").arg(program);
    command
}

/// Whether this process is in there: the first of its namespace, so that mounts go with it.
#[must_use]
pub fn is_own() -> bool {
    std::process::id() == 1
}

/// Why there are no such namespaces to be had, if there are none.
#[must_use]
pub fn refusal() -> Option<String> {
    let output = command(Path::new("true")).output();
    match output {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(error) => Some(format!("setpriv: {error}")),
    }
}
