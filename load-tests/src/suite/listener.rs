//! A child process that listens on a port, with a folder of its own.

use crate::child::{Child, Start, isolate};
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// A running process; on drop it is killed and its folder removed. Its unfinished work is of no
/// use, so it is not asked to end.
#[derive(Debug)]
pub struct Listener {
    child: Child,
    url: String,
    /// Dropped after the process.
    folder: TempDir,
}

/// Command that runs a program on the CPUs of a `taskset` list.
///
/// # Errors
/// The program's path is relative, and there is no working directory.
pub fn on_cpus(cpus: &str, program: &Path) -> Result<Command> {
    let program = std::path::absolute(program).context("the program's path")?;
    let mut command = Command::new("taskset");
    command.args(["-c", cpus]).arg(program);
    Ok(command)
}

impl Listener {
    /// Starts a process in its folder and waits until it has printed a URL, as all our servers do
    /// once they listen. It gets no settings but its arguments and the variables of the command.
    ///
    /// # Errors
    /// The program does not exist, or it ended before; the error quotes its standard error.
    pub fn start(mut command: Command, folder: TempDir) -> Result<Self> {
        let stderr = folder.path().join("stderr");
        isolate(&mut command, folder.path());
        let (child, line) = match Child::start(command, &stderr, "http://")? {
            Start::Up { child, line, .. } => (child, line),
            Start::Ended(status) => {
                let errors = std::fs::read_to_string(&stderr).unwrap_or_default();
                bail!("the server did not start ({status}):\n{errors}")
            }
        };
        let url = url_in(&line).with_context(|| format!("no URL in {line:?}"))?;
        Ok(Self {
            child,
            url: url.to_owned(),
            folder,
        })
    }

    /// Process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.pid().as_raw_nonzero().get().unsigned_abs()
    }

    /// Folder of the process.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The first URL that the process printed.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }
}

fn url_in(line: &str) -> Option<&str> {
    let mut words = line.split_ascii_whitespace();
    let url = words.find(|word| word.starts_with("http://"))?;
    Some(url.trim_end_matches([',', '.']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_found_in_a_sentence() {
        for (line, url) in [
            (
                "listening on http://127.0.0.1:1\n",
                Some("http://127.0.0.1:1"),
            ),
            ("It is at http://h:2, user u\n", Some("http://h:2")),
            ("It is at http://h:3.", Some("http://h:3")),
            ("Press Ctrl-C to stop.\n", None),
        ] {
            assert_eq!(url_in(line), url, "{line}");
        }
    }

    #[test]
    fn a_process_that_ends_without_a_url_is_an_error_with_its_standard_error() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo nothing here; echo sorry >&2; exit 3"]);
        let error = Listener::start(command, tempfile::tempdir().unwrap()).unwrap_err();
        assert!(error.to_string().contains("sorry"), "{error}");
    }

    #[test]
    fn a_folder_goes_with_its_process() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo http://h:1 and more; exec sleep 600"]);
        let listener = Listener::start(command, tempfile::tempdir().unwrap()).unwrap();
        assert_eq!(listener.url(), "http://h:1");
        let folder = listener.folder().to_owned();
        drop(listener);
        assert!(!folder.exists());
    }
}
