//! A catalog with many projects, made with the server's own commands.

use super::bench::Bench;
use super::server::{Beside, Contestant, Server, Store, sqlite_url};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// How often is said how far it is.
const SAY_EVERY: usize = 250;

/// A catalog's file and the keys of its projects; the file is removed when dropped.
#[derive(Debug)]
pub struct Projects {
    /// Keys, one of each project.
    pub keys: Vec<String>,
    file: PathBuf,
    _folder: TempDir,
}

impl Projects {
    /// Fills a catalog.
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
        // The first start makes the organization, and the first project with it.
        let server = Server::start_beside(bench, Contestant::OURS, projects.beside())?;
        projects.keys.push(server.key.clone());
        drop(server);
        while projects.keys.len() < count {
            bench.check()?;
            let name = format!("load {}", projects.keys.len());
            projects.keys.push(projects.create(bench, &name)?);
            if projects.keys.len().is_multiple_of(SAY_EVERY) {
                bench.say(&format!("  made {} projects", projects.keys.len()));
            }
        }
        Ok(projects)
    }

    /// What a server is told of them.
    #[must_use]
    pub fn beside(&self) -> Beside<'_> {
        Beside {
            catalog: Some(&self.file),
            ..Beside::default()
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
