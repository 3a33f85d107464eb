//! Kills of a folder's run: load, and a kill under load.

use super::FolderRun;
use crate::clickhouse::ClickHouse;
use crate::crash::check::{self, Promise};
use crate::crash::kill::{Kill, Kind, Victim};
use crate::crash::power::victim_of;
use crate::crash::strace::Strace;
use crate::crash::subject::StartOutcome;
use crate::plan::{Mode, Plan};
use crate::run::run_observed;
use crate::stop::Stop;
use crate::summary::Summary;
use anyhow::{Context, Result, anyhow};
use std::time::Duration;

/// Longest wait for a fail point to be passed. Historical rows wait five seconds before they are
/// sent.
const REACH_MAX: Duration = Duration::from_secs(15);
/// Delay of the engine's kill where tracing is not allowed: about when live rows are inserted.
const UNTRACED_DELAY: Duration = Duration::from_millis(1_100);
/// Longest run of the generator; the kill stops it earlier.
const RUN_MAX: Duration = Duration::from_secs(3_600);
/// One random kill in this many reads the watermark first, which delays the kill.
const PROMISE_ONE_IN: u32 = 4;

impl FolderRun<'_> {
    /// Starts the server and kills it; then its disks lose their power, if they have one.
    pub(super) fn kill(&mut self, kill: &Kill) -> Result<()> {
        let said_before = self.subject.stderr_text()?.len();
        let up = self.subject.up(kill.fail_point().as_deref())?;
        let (kind, is_met) = match (up, kill.kind) {
            (StartOutcome::Killed, kind) => (kind, true),
            (StartOutcome::Running, Kind::Random(victim)) => {
                let power = self.power.as_ref();
                let victim = power.map_or(victim, |power| power.shared_by(victim));
                (Kind::Random(victim), self.at_random(kill, victim)?)
            }
            (StartOutcome::Running, kind @ Kind::At(point)) => {
                let reach_max = if point.at_start {
                    Duration::ZERO
                } else {
                    REACH_MAX
                };
                (kind, self.at_point(kill, reach_max, said_before)?)
            }
            (StartOutcome::Running, Kind::PartRename) => self.at_rename(kill)?,
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

    /// Loads the server and kills `victim`; returns true if it was running.
    fn at_random(&mut self, kill: &Kill, victim: Victim) -> Result<bool> {
        let plan = self.plan(kill)?;
        let stop = Stop::default();
        let this = &mut *self;
        let (ran, killed) = std::thread::scope(|scope| {
            let killing = scope.spawn(|| {
                std::thread::sleep(kill.delay);
                let promise = this.promise(kill);
                let cut = this.cut_power(kill, victim);
                let is_hit = this.subject.kill(victim);
                stop.ask();
                this.promises.extend(promise?);
                cut.map(|project| (project, is_hit))
            });
            let ran = run_observed(&plan, &stop, &mut |_| {});
            (ran, killing.join())
        });
        let killed = killed.map_err(|_panic| anyhow!("the thread that kills panicked"))?;
        let (project, is_hit) = killed?;
        self.projects.extend(project);
        if victim == Victim::Engine {
            // Clients of the capture endpoint do not notice.
            self.expect_no_refusal(kill, &ran?);
        }
        self.subject.reap(victim)?;
        Ok(is_hit)
    }

    /// Reads the watermark's promise while rows are in flight.
    fn promise(&self, kill: &Kill) -> Result<Option<Promise>> {
        if !kill.number.is_multiple_of(PROMISE_ONE_IN) {
            return Ok(None);
        }
        let clickhouse = ClickHouse::of(&self.subject.credentials()?);
        self.runtime
            .block_on(check::promise(&self.subject, &clickhouse))
    }

    /// Cuts the power under load. Returns the project created just before, if there is power to
    /// cut.
    fn cut_power(&self, kill: &Kill, victim: Victim) -> Result<Option<String>> {
        let Some(power) = &self.power else {
            return Ok(None);
        };
        let project = (victim != Victim::Engine).then(|| format!("Before kill {}", kill.number));
        if let Some(project) = &project {
            self.subject
                .operate(&["keys", "create", "--project", project])?;
        }
        // A sync in progress when the journal was given up may return success.
        self.subject.freeze(victim)?;
        power.cut(victim)?;
        Ok(project)
    }

    /// Cuts and restores the power of the victim's disks after a kill, before anything starts
    /// again.
    fn lose_power(&mut self, victim: Victim) -> Result<()> {
        let Some(power) = &self.power else {
            return Ok(());
        };
        let victim = power.shared_by(victim);
        self.subject.freeze(victim)?;
        power.cut(victim)?;
        // A process that shares a disk with the victim cannot go on.
        self.subject.kill(victim);
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

    /// Loads the server until it has killed itself. Returns true if it did, and its fail point is
    /// logged after `said_before` bytes.
    fn at_point(&mut self, kill: &Kill, reach_max: Duration, said_before: usize) -> Result<bool> {
        let plan = self.plan(kill)?;
        let stop = Stop::default();
        let subject = &mut self.subject;
        // The run may end with errors, as its server dies: only the ledger counts.
        let _ended = run_observed(&plan, &stop, &mut |progress| {
            if subject.ingest_has_ended().unwrap_or(true) || progress.elapsed >= reach_max {
                stop.ask();
            }
        });
        self.subject.kill(Victim::Ingest);
        self.subject.reap(Victim::Ingest)?;
        self.subject.is_at_fail_point(said_before)
    }

    /// Loads the server until its engine was killed at a rename; returns the actual kind of kill.
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
            self.subject.kill(Victim::Engine);
        }
        self.subject.reap(Victim::Engine)?;
        Ok((Kind::PartRename, is_killed && strace.met_inserted_part()?))
    }

    /// Load before a kill; the kill's number is the run's id.
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
}
