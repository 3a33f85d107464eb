//! One data folder, from its first start to its last comparison.

use super::Options;
use super::check::{self, Promise, compare};
use super::kill::{Kill, Kind, Victim};
use super::power::{Power, victim_of};
use super::report::Report;
use super::strace::Strace;
use super::subject::{Layout, Subject, Up};
use crate::clickhouse::ClickHouse;
use crate::ledger::Ledger;
use crate::plan::{Mode, Plan};
use crate::run::{Stop, run_observed};
use crate::summary::Summary;
use anyhow::{Context, Result, anyhow};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::runtime::Runtime;

/// How long a place may take to be passed. Historical rows wait five seconds before they are sent.
const REACH_MAX: Duration = Duration::from_secs(15);
/// When the engine is killed where we may not trace it: about when live rows are inserted.
const UNTRACED_DELAY: Duration = Duration::from_millis(1_100);
/// Longest run of the generator; it is stopped by the kill.
const RUN_MAX: Duration = Duration::from_secs(3_600);
/// One in so many random kills comes after a look at the watermark; the look delays it.
const PROMISE_ONE_IN: u32 = 4;
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

    fn kill(&mut self, kill: &Kill) -> Result<()> {
        let said_before = self.subject.said()?.len();
        let up = self.subject.up(kill.fail_point().as_deref())?;
        let (kind, is_met) = match (up, kill.kind) {
            (Up::Killed, kind) => (kind, true),
            (Up::Running, Kind::Random(victim)) => {
                let power = self.power.as_ref();
                let victim = power.map_or(victim, |power| power.shared_by(victim));
                (Kind::Random(victim), self.at_random(kill, victim)?)
            }
            (Up::Running, kind @ Kind::At(point)) => {
                let reach_max = if point.at_start {
                    Duration::ZERO
                } else {
                    REACH_MAX
                };
                (kind, self.at_point(kill, reach_max, said_before)?)
            }
            (Up::Running, Kind::PartRename) => self.at_rename(kill)?,
        };
        self.lose_power(victim_of(kind))?;
        self.report.killed(kind, is_met);
        self.report.historical_kills += u64::from(kill.historical);
        (self.say)(&if is_met {
            kill.to_string()
        } else {
            format!("{kill}: not met, killed anyway")
        });
        Ok(())
    }

    /// Loads the server and kills; whether there was somebody to be killed.
    fn at_random(&mut self, kill: &Kill, victim: Victim) -> Result<bool> {
        let plan = self.plan(kill)?;
        let stop = Stop::default();
        let this = &mut *self;
        let (ran, struck) = std::thread::scope(|scope| {
            let striking = scope.spawn(|| {
                std::thread::sleep(kill.delay);
                let promise = this.promise(kill);
                let cut = this.cut_power(kill, victim);
                let is_hit = this.subject.strike(victim);
                stop.ask();
                this.promises.extend(promise?);
                cut.map(|project| (project, is_hit))
            });
            let ran = run_observed(&plan, &stop, &mut |_| {});
            (ran, striking.join())
        });
        let struck = struck.map_err(|_panic| anyhow!("the thread that kills panicked"))?;
        let (project, is_hit) = struck?;
        self.projects.extend(project);
        if victim == Victim::Engine {
            // Whoever sends events does not notice.
            self.expect_no_refusal(kill, &ran?);
        }
        self.subject.reap(victim)?;
        Ok(is_hit)
    }

    /// What the watermark promises while rows are under way.
    fn promise(&self, kill: &Kill) -> Result<Option<Promise>> {
        if !kill.number.is_multiple_of(PROMISE_ONE_IN) {
            return Ok(None);
        }
        let clickhouse = ClickHouse::of(&self.subject.credentials()?);
        self.runtime
            .block_on(check::promise(&self.subject, &clickhouse))
    }

    /// Holds what was promised since the last time against what is there now that all is shipped.
    fn check_promises(&mut self, clickhouse: &ClickHouse) -> Result<()> {
        for promise in std::mem::take(&mut self.promises) {
            let broken = self.runtime.block_on(check::broken(&promise, clickhouse))?;
            self.report.wrongs.extend(broken);
            self.report.watermarks += 1;
        }
        Ok(())
    }

    /// Cuts the power under load; the project that was made just before, if there is power to cut.
    fn cut_power(&self, kill: &Kill, victim: Victim) -> Result<Option<String>> {
        let Some(power) = &self.power else {
            return Ok(None);
        };
        let project = (victim != Victim::Engine).then(|| format!("Before kill {}", kill.number));
        if let Some(project) = &project {
            self.subject
                .operate(&["keys", "create", "--project", project])?;
        }
        // A sync that was under way when the journal was given up may return success.
        self.subject.freeze(victim)?;
        power.cut(victim)?;
        Ok(project)
    }

    /// After a kill, and before anything is started again: cuts and restores the power of its disks.
    fn lose_power(&mut self, victim: Victim) -> Result<()> {
        let Some(power) = &self.power else {
            return Ok(());
        };
        let victim = power.shared_by(victim);
        self.subject.freeze(victim)?;
        power.cut(victim)?;
        // Who shares a disk with the killed one cannot go on.
        self.subject.strike(victim);
        self.subject.reap(victim)?;
        power.restore(victim)?;
        self.report.power_cuts += 1;
        Ok(())
    }

    fn expect_no_refusal(&mut self, kill: &Kill, summary: &Summary) {
        if summary.run.failed_requests > 0 {
            let wrong =
                format!("{kill}: requests failed though only the engine was killed\n{summary}");
            self.report.wrongs.push(wrong);
        }
    }

    /// Loads the server until it has killed itself; whether it did, and said so after so many bytes.
    fn at_point(&mut self, kill: &Kill, reach_max: Duration, said_before: usize) -> Result<bool> {
        let plan = self.plan(kill)?;
        let stop = Stop::default();
        let subject = &mut self.subject;
        // The run may end with errors, as its server dies under it: what counts is the ledger.
        let _ended = run_observed(&plan, &stop, &mut |progress| {
            if subject.ingest_has_ended().unwrap_or(true) || progress.elapsed >= reach_max {
                stop.ask();
            }
        });
        self.subject.strike(Victim::Ingest);
        self.subject.reap(Victim::Ingest)?;
        self.subject.is_at_fail_point(said_before)
    }

    /// Loads the server until its engine was killed at a rename; what kind of kill it was in the end.
    fn at_rename(&mut self, kill: &Kill) -> Result<(Kind, bool)> {
        self.runtime.block_on(self.subject.engine_answers())?;
        let pid = self.subject.engine_pid().context("there is no engine")?;
        let mut strace = match Strace::attach(pid, kill.nth, &self.dir)? {
            Ok(strace) => strace,
            Err(reason) => {
                let note = format!("NO KILLS AT RENAMES: strace may not attach: {reason}");
                (self.say)(&note);
                self.report.notes.insert(note);
                let delay = UNTRACED_DELAY;
                let is_hit = self.at_random(&Kill { delay, ..*kill }, Victim::Engine)?;
                return Ok((Kind::Random(Victim::Engine), is_hit));
            }
        };
        let plan = self.plan(kill)?;
        let stop = Stop::default();
        let ran = run_observed(&plan, &stop, &mut |progress| {
            if strace.has_ended().unwrap_or(true) || progress.elapsed >= REACH_MAX {
                stop.ask();
            }
        });
        self.expect_no_refusal(kill, &ran?);
        let is_killed = strace.has_ended()?;
        if !is_killed {
            self.subject.strike(Victim::Engine);
        }
        self.subject.reap(Victim::Engine)?;
        Ok((Kind::PartRename, is_killed && strace.met_inserted_part()?))
    }

    /// The load before a kill; the kill's number is the run's.
    fn plan(&self, kill: &Kill) -> Result<Plan> {
        let credentials = self.subject.credentials()?;
        Ok(Plan {
            mode: Mode::Open {
                events_per_second: self.options.events_per_second,
            },
            connections: 4,
            batch_events: 20,
            event_bytes: 400,
            historical_share: if kill.historical {
                1.0
            } else {
                self.options.historical_share
            },
            rejected_share: self.options.rejected_share,
            warm_up: Duration::ZERO,
            duration: RUN_MAX,
            timeout: Duration::from_secs(5),
            run_id: Some(kill.number),
            ledger: Some(self.ledger_path()),
            ..Plan::new(&credentials.ingest_url, &credentials.project_api_key)
        })
    }

    fn ledger_path(&self) -> PathBuf {
        self.dir.join("ledger")
    }

    /// What was acknowledged in the runs of these kills.
    fn ledger(&self, kills: &[Kill]) -> Result<Ledger> {
        let mut ledger = Ledger::read(&self.ledger_path())?;
        ledger
            .runs
            .retain(|run, _| kills.iter().any(|kill| kill.number == *run));
        Ok(ledger)
    }

    /// Compares what was acknowledged around these kills.
    fn check(&mut self, kills: &[Kill]) -> Result<()> {
        self.subject.up(None)?;
        let ledger = self.ledger(kills)?;
        let clickhouse = self.clickhouse()?;
        let verdict = self.runtime.block_on(compare(&ledger, &clickhouse))?;
        self.report.checks += 1;
        self.check_promises(&clickhouse)?;
        let projects = check::projects(&self.subject, &self.projects)?;
        self.report.wrongs.extend(projects);
        if !verdict.is_clean() {
            self.report
                .wrongs
                .push(explained(&verdict.to_string(), kills));
        }
        Ok(())
    }

    /// Compares all that was acknowledged once more, as a later kill may cost earlier rows; and looks
    /// at what else there is.
    fn finish(&mut self, kills: &[Kill]) -> Result<()> {
        self.subject.up(None)?;
        let clickhouse = self.clickhouse()?;
        let ledger = self.ledger(kills)?;
        let verdict = self.runtime.block_on(compare(&ledger, &clickhouse))?;
        if !verdict.is_clean() {
            self.report
                .wrongs
                .push(explained(&verdict.to_string(), kills));
        }
        self.report.acknowledged_events += verdict.acknowledged_events;
        let rejected = self
            .runtime
            .block_on(check::rejected(&self.subject, &clickhouse))?;
        self.report.rejected_events += rejected.events;
        self.report.wrongs.extend(rejected.wrong);
        self.report
            .wrongs
            .extend(check::leftovers(&self.subject.ingest_dir())?);
        self.report.resent_blocks += check::resent_blocks(&self.subject.said()?);
        self.report.starts.append(&mut self.subject.starts);
        self.report.folders += 1;
        Ok(())
    }

    fn clickhouse(&self) -> Result<ClickHouse> {
        let answers = self.subject.engine_answers();
        let mut clickhouse = self.runtime.block_on(answers)?;
        ClickHouse::ACCEPTED_AND_REJECTED.clone_into(&mut clickhouse.table);
        Ok(clickhouse)
    }
}

/// A verdict with the kills that it may be owed to. The runs in it are their numbers.
fn explained(verdict: &str, kills: &[Kill]) -> String {
    let kills: Vec<String> = kills
        .iter()
        .map(|kill| format!("run {:08x} ended with {kill}", kill.number))
        .collect();
    format!("{verdict}\nafter\n{}", kills.join("\n"))
}
