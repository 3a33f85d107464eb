//! A data folder from its first start to its last comparison.
//!
//! | Module | Does |
//! |---|---|
//! | `kills` | loads the server, and kills it or cuts its power under load |
//! | `checks` | compares acknowledged events and promises with what is stored |

mod checks;
mod kills;

use super::check::Promise;
use super::kill::Kill;
use super::options::Layout;
use super::options::Options;
use super::power::Power;
use super::report::Report;
use super::subject::Subject;
use crate::runtime::current_thread_runtime;
use crate::stop::Stop;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use tokio::runtime::Runtime;

/// Table settings that stop merges for good, as merges fold duplicates within seconds and would
/// hide them; and that lift the limit on parts.
const KEEP_ALL: &str = "MODIFY SETTING max_bytes_to_merge_at_max_space_in_pool = 1, \
    parts_to_delay_insert = 1000000, parts_to_throw_insert = 1000000";

/// A data folder and the processes on it.
pub struct FolderRun<'a> {
    options: &'a Options,
    dir: PathBuf,
    subject: Subject<'a>,
    /// Disks with the processes' files; dropped after the processes.
    power: Option<Power>,
    /// Projects created by the run; the catalog must keep them.
    projects: Vec<String>,
    /// Watermarks published under load since the last comparison.
    promises: Vec<Promise>,
    runtime: Runtime,
    say: &'a (dyn Fn(&str) + Sync),
    report: Report,
}

impl<'a> FolderRun<'a> {
    /// A run that has not started.
    ///
    /// # Errors
    /// The runtime or a disk cannot be created.
    pub fn new(
        options: &'a Options,
        layout: Layout,
        dir: &Path,
        say: &'a (dyn Fn(&str) + Sync),
    ) -> Result<Self> {
        let runtime = current_thread_runtime()?;
        Ok(Self {
            options,
            dir: dir.to_owned(),
            subject: Subject::new(options, layout, dir),
            power: match options.power {
                Some(file_system) => Some(Power::new(file_system, layout, dir)?),
                None => None,
            },
            projects: Vec::new(),
            promises: Vec::new(),
            runtime,
            say,
            report: Report::new(options.seed),
        })
    }

    /// Kills and compares in turn until something is wrong or the run cannot go on; the report has
    /// both.
    pub fn run(mut self, kills: &[Kill], stop: &Stop) -> Report {
        if let Err(error) = self.try_run(kills, stop) {
            self.report.starts.append(&mut self.subject.starts);
            self.report.failed(&error);
        }
        self.report
    }

    fn try_run(&mut self, kills: &[Kill], stop: &Stop) -> Result<()> {
        self.begin()?;
        let mut done = 0;
        for several in kills.chunks(self.options.check_kills as usize) {
            for kill in several.iter().take_while(|_| !stop.is_asked()) {
                self.kill(kill).with_context(|| kill.to_string())?;
                done += 1;
            }
            self.check(several)?;
            if !self.report.wrongs.is_empty() {
                return Ok(());
            }
            if stop.is_asked() {
                break;
            }
        }
        self.finish(kills.get(..done).unwrap_or_default())
    }

    /// Starts the server for the first time and stops merges.
    fn begin(&mut self) -> Result<()> {
        self.subject.up(None)?;
        let clickhouse = self.runtime.block_on(self.subject.engine_answers())?;
        for table in ["events", "rejected_events"] {
            let sql = format!("ALTER TABLE millrace.{table} {KEEP_ALL}");
            let altered = clickhouse.rows(&sql, |_| Ok(()));
            self.runtime.block_on(altered)?;
        }
        self.allow_imports()
    }

    /// Approves imports of the first project, which gets the load, for as much as the load sends.
    fn allow_imports(&self) -> Result<()> {
        let approve = ["migrations", "approve", "--project-id", "1"];
        let total = ["--total-events", "1000000000000"];
        let rate = ["--events-per-minute", "1000000000"];
        let words = [&approve[..], &total, &rate].concat();
        self.subject.operate(&words)?;
        Ok(())
    }

    fn ledger_path(&self) -> PathBuf {
        self.dir.join("ledger")
    }
}
