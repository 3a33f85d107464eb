//! Options that stages of an import share: staging folder, sources, target.

use crate::commands::Invocation;
use crate::config::Config;
use crate::connect;
use anyhow::{Context, bail};
use clap::Args;
use millrace_import::files::{SourceFile, find};
use millrace_import::plan::Plan;
use millrace_import::progress::Audience;
use millrace_import::send::server_url;
use millrace_import::staging::Staging;
use std::path::PathBuf;

/// Options of every stage.
#[derive(Args, Clone, Debug)]
pub struct Common {
    /// Folder that stages share; created if it does not exist
    #[arg(long, value_name = "DIR", default_value = "millrace-import")]
    staging: PathBuf,
    /// Print progress and result as lines of JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// Options of a single run, which are left out of follow-up commands.
pub(super) const SINGLE_RUN_OPTIONS: [&str; 5] = ["files", "rejects", "restart", "json", "wait"];

/// Files to import, and their mapping.
#[derive(Args, Clone, Debug)]
pub struct Sources {
    /// Files, folders, patterns such as 'exports/2024-*.json.gz', zip archives, or - for standard
    /// input; by default the files that `fetch` left in the staging folder
    #[arg(value_name = "FILE")]
    files: Vec<String>,
    /// Format of the files: captured, mixpanel, amplitude...; by default detected for each file
    #[arg(long, value_name = "FORMAT")]
    format: Option<String>,
    /// Mapping file: TOML that renames, drops, casts and sets fields
    #[arg(long, value_name = "FILE")]
    mapping: Option<PathBuf>,
}

impl Common {
    pub(super) fn open(&self) -> anyhow::Result<Staging> {
        Staging::open(&self.staging)
    }

    /// Opens the staging folder of an earlier stage.
    pub(super) fn existing(&self) -> anyhow::Result<Staging> {
        if !self.staging.exists() {
            bail!(
                "there is no folder {}; name that of `millrace import load` with --staging",
                self.staging.display()
            );
        }
        Staging::open(&self.staging)
    }

    pub(super) fn audience(&self) -> Audience {
        if self.json {
            Audience::Machine
        } else {
            Audience::Person
        }
    }
}

impl Sources {
    pub(super) fn plan(&self) -> anyhow::Result<Plan> {
        Plan::read(self.mapping.as_deref(), self.format.as_deref())
    }

    pub(super) fn files(
        &self,
        staging: &Staging,
        invocation: &Invocation,
    ) -> anyhow::Result<Vec<SourceFile>> {
        let files = if self.files.is_empty() {
            let data = staging.data();
            if !data.exists() {
                bail!(
                    "there is nothing to import: name files, or first get an export, which goes into {}:\n  {}",
                    data.display(),
                    invocation
                        .command("import fetch objects", &["json"])
                        .replacen("objects", "SOURCE", 1)
                );
            }
            find(&[data.to_string_lossy().into_owned()])?
        } else {
            find(&self.files)?
        };
        if files.is_empty() {
            bail!("there is no file in {}", self.files.join(", "));
        }
        Ok(files)
    }
}

/// Server and project that receive the events.
#[derive(Args, Clone, Debug)]
pub struct TargetArguments {
    /// URL to post events to, such as https://events.example.com; by default the server of
    /// --data-dir
    #[arg(long)]
    pub(super) url: Option<String>,
    /// Key of the project that gets the events; try an import with a separate project first
    #[arg(long, value_name = "KEY")]
    project_key: Option<String>,
}

impl TargetArguments {
    /// Resolves URL and project key; by default those of the running server of the data folder.
    pub(super) fn resolve(&self, config: &Config) -> anyhow::Result<(String, String)> {
        if let Some(url) = &self.url {
            server_url(url)?;
        }
        if let (Some(url), Some(key)) = (&self.url, &self.project_key) {
            return Ok((url.clone(), key.clone()));
        }
        let running = connect::running_credentials(config).context(
            "name the target of the events with --url and --project-key, or run the server here",
        )?;
        let url = self.url.clone().unwrap_or(running.ingest_url);
        if url.is_empty() {
            bail!("the server of the data folder accepts no events; name another with --url");
        }
        let key = self.project_key.clone().unwrap_or(running.project_api_key);
        Ok((url, key))
    }
}
