//! A child process that listens somewhere, with a folder of its own.

use crate::process::wait_for_line;
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::{ChildStdout, Command, Stdio};
use tempfile::TempDir;

/// A running process; ended, and its folder removed, when dropped.
#[derive(Debug)]
pub struct Child {
    process: std::process::Child,
    folder: TempDir,
    url: String,
}

/// A command that runs a program on some CPUs, as `taskset` wants them.
#[must_use]
pub fn on_cpus(cpus: &str, program: &Path) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", cpus]).arg(program);
    command
}

impl Child {
    /// Starts it and waits until it has printed a URL: all that we start do so once they listen.
    ///
    /// # Errors
    /// There is no such program, or it ended before; then with what it had to say.
    pub fn start(mut command: Command, folder: TempDir) -> Result<Self> {
        let errors = std::fs::File::create(folder.path().join("stderr")).context("stderr")?;
        let mut process = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()
            .context("cannot run taskset")?;
        let output = process.stdout.take().context("stdout")?;
        // From here on dropping ends the process.
        let mut child = Self {
            process,
            folder,
            url: String::new(),
        };
        child.url = child.wait_for_url(output)?;
        Ok(child)
    }

    /// The process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Its folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The first URL that it printed.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    fn wait_for_url(&mut self, output: ChildStdout) -> Result<String> {
        let line = wait_for_line(output, |line| url_in(line).is_some())?;
        if let Some(url) = line.as_deref().and_then(url_in) {
            return Ok(url.to_owned());
        }
        let status = self.process.wait().context("wait")?;
        let errors = std::fs::read_to_string(self.folder().join("stderr")).unwrap_or_default();
        bail!("the server did not start ({status}):\n{errors}")
    }
}

impl Drop for Child {
    /// What it has not finished is of no use to anyone, so it is not asked to.
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
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
    fn a_process_that_ends_without_a_url_is_an_error_with_its_words() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo nothing here; echo sorry >&2; exit 3"]);
        let error = Child::start(command, tempfile::tempdir().unwrap()).unwrap_err();
        assert!(error.to_string().contains("sorry"), "{error}");
    }

    #[test]
    fn a_folder_goes_with_its_process() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo http://h:1 and more; exec sleep 600"]);
        let child = Child::start(command, tempfile::tempdir().unwrap()).unwrap();
        assert_eq!(child.url(), "http://h:1");
        let folder = child.folder().to_owned();
        drop(child);
        assert!(!folder.exists());
    }
}
