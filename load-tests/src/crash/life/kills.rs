//! The kills of a life: load, and an end in the midst of it.

use super::Life;
use crate::clickhouse::ClickHouse;
use crate::crash::check::{self, Promise};
use crate::crash::kill::{Kill, Kind, Victim};
use crate::crash::power::victim_of;
use crate::crash::strace::Strace;
use crate::crash::subject::Up;
use crate::plan::{Mode, Plan};
use crate::run::{Stop, run_observed};
use crate::summary::Summary;
use anyhow::{Context, Result, anyhow};
use std::time::Duration;

/// How long a place may take to be passed. Historical rows wait five seconds before they are sent.
const REACH_MAX: Duration = Duration::from_secs(15);
/// When the engine is killed where we may not trace it: about when live rows are inserted.
const UNTRACED_DELAY: Duration = Duration::from_millis(1_100);
/// Longest run of the generator; it is stopped by the kill.
const RUN_MAX: Duration = Duration::from_secs(3_600);
/// One in so many random kills comes after a look at the watermark; the look delays it.
const PROMISE_ONE_IN: u32 = 4;

impl Life<'_> {
    /// Starts the server and kills it; then its disks lose their power, if they have one.
    pub(super) fn kill(&mut self, kill: &Kill) -> Result<()> {
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
}
