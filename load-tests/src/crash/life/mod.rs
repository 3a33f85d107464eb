//! One data folder, from its first start to its last comparison.
//!
//! | Module | Does |
//! |---|---|
//! | `kills` | loads the server, and kills it or cuts its power under load |
//! | `checks` | compares what was acknowledged and promised with what is there |

mod checks;
mod kills;

use super::Options;
use super::check::Promise;
use super::kill::Kill;
use super::power::Power;
use super::report::Report;
use super::subject::{Layout, Subject};
use crate::run::Stop;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use tokio::runtime::Runtime;

/// Merges fold duplicates within seconds and would hide them, so there are none, for good; nor is
/// there a limit to the parts that they leave.
const KEEP_ALL: &str = "MODIFY SETTING max_bytes_to_merge_at_max_space_in_pool = 1, \
    parts_to_delay_insert = 1000000, parts_to_throw_insert = 1000000";

/// A folder and the processes on it.
pub struct Life<'a> {
    options: &'a Options,
    dir: PathBuf,
    subject: Subject<'a>,
    /// Below the processes, which have files on it: dropped after them.
    power: Option<Power>,
    /// Projects that were made, and must stay: the catalog's share of what is promised.
    projects: Vec<String>,
    /// Watermarks that were published under load since the last comparison.
    promises: Vec<Promise>,
    runtime: Runtime,
    say: &'a (dyn Fn(&str) + Sync),
    report: Report,
}

impl<'a> Life<'a> {
    /// A life that has not begun.
    ///
    /// # Errors
    /// There is no runtime to be had, or no disk.
    pub fn new(
        options: &'a Options,
        layout: Layout,
        dir: &Path,
        say: &'a (dyn Fn(&str) + Sync),
    ) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("cannot start a runtime")?;
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

    /// Kills and compares in turn, until something is wrong or cannot go on; both are in the report.
    pub fn live(mut self, kills: &[Kill], stop: &Stop) -> Report {
        if let Err(error) = self.try_live(kills, stop) {
            self.report.starts.append(&mut self.subject.starts);
            self.report.failed(&error);
        }
        self.report
    }

    fn try_live(&mut self, kills: &[Kill], stop: &Stop) -> Result<()> {
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

    /// The first start.
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

    /// Lets the first project, which the load is of, import as much as the load brings.
    fn allow_imports(&self) -> Result<()> {
        let approve = ["migrations", "approve", "--team-id", "1"];
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
