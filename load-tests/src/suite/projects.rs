//! A catalog with many projects, created by the server's own commands.

use super::bench::Bench;
use super::server::{Contestant, Server, ServerOptions, sqlite_url};
use super::store::Store;
use crate::digits::counted;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// Interval of progress messages, in projects.
const SAY_EVERY: usize = 250;

/// File of a catalog, with the keys of its projects; removed on drop.
#[derive(Debug)]
pub struct Projects {
    /// One key of each project.
    pub keys: Vec<String>,
    file: PathBuf,
    _folder: TempDir,
}

impl Projects {
    /// Creates a catalog with `count` projects.
    ///
    /// # Errors
    /// The server does not start, or a command fails.
    pub fn make(bench: &mut Bench<'_>, count: usize) -> Result<Self> {
        let folder = bench.folder(Store::Memory)?;
        let file = folder.path().join("projects.db");
        let mut projects = Self {
            keys: Vec::with_capacity(count),
            file,
            _folder: folder,
        };
        // The first start creates the organization with its first project.
        let server = Server::start_with(bench, Contestant::OURS, projects.server_options())?;
        projects.keys.push(server.key.clone());
        drop(server);
        while projects.keys.len() < count {
            bench.check()?;
            let name = format!("load {}", projects.keys.len());
            projects.keys.push(projects.create(bench, &name)?);
            if projects.keys.len().is_multiple_of(SAY_EVERY) {
                let made = counted(projects.keys.len() as u64, "project");
                bench.say(&format!("  made {made}"));
            }
        }
        Ok(projects)
    }

    /// Options that give a server this catalog.
    #[must_use]
    pub fn server_options(&self) -> ServerOptions<'_> {
        ServerOptions {
            catalog: Some(&self.file),
            ..ServerOptions::default()
        }
    }

    fn create(&self, bench: &Bench<'_>, name: &str) -> Result<String> {
        let folder = self.file.parent().unwrap_or(Path::new("."));
        let output = Command::new(&bench.options.server)
            .args(["keys", "create", "--project", name])
            .args(["--log-level", "error"])
            .args(["--database-url", &sqlite_url(&self.file)])
            .arg("--data-dir")
            .arg(folder)
            .stdin(Stdio::null())
            .output()
            .context("cannot run the server's program")?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "no project was made: {errors}");
        let key = String::from_utf8(output.stdout).context("key")?;
        Ok(key.trim().to_owned())
    }
}
