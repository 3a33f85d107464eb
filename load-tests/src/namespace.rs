//! Runs a program in namespaces of its own, so that its mounts and processes end with it.
//!
//! When the first process dies, however it ends, the kernel unmounts, frees loop devices and kills
//! the rest.

use std::path::Path;
use std::process::Command;

/// Command that runs a program as the first process of its own process and mount namespaces.
///
/// The program is killed when the thread that starts it ends. Interrupts reach it only from the
/// terminal.
#[must_use]
pub fn command(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command
        .args(["--pdeathsig", "KILL", "--", "unshare"])
        .args(["--mount", "--propagation", "private"])
        .args(["--pid", "--fork", "--kill-child", "--mount-proc"]);
    if !rustix::process::geteuid().is_root() {
        // Root in a user namespace may mount, too, but gets no loop devices.
        command.args(["--user", "--map-root-user"]);
    }
    command.arg("--").arg(program);
    command
}

/// Returns true if this process is the first of its namespace, so that its mounts end with it.
#[must_use]
pub fn is_own() -> bool {
    std::process::id() == 1
}

/// Reason why such namespaces cannot be created; `None` if they can.
#[must_use]
pub fn refusal() -> Option<String> {
    let output = command(Path::new("true")).output();
    match output {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(error) => Some(format!("setpriv: {error}")),
    }
}
