//! A server attacked with everything that is known against it, beside a tenant who works.
//!
//! A server with its engine is started on an empty folder. The good tenant sends events, names users, exports and
//! asks the API all the time. Phases without and with an attack take turns, so that what the attack costs the good
//! tenant is a ratio within one run, which a slow or busy machine changes less than figures.
//!
//! - [`good`]: what the good tenant does, and knows the answers of.
//! - [`hostile`]: everything that is tried.
//! - [`bombs`], [`mutate`]: bodies that cost more than they weigh.
//! - [`subject`], [`watch`]: the processes; [`tenants`]: who uses them.
//! - [`outputs`]: what the operator is shown in the end.
//! - [`report`]: what came of it; [`bounds`]: how much of it there may be.
//!
//! Whatever is wrong is counted whatever the machine: an answer that is not right, an event lost or doubled, a
//! process that ended, a refusal that was none, memory beyond its bound. Times are judged by [`report::Report::slow`].

mod bombs;
mod bounds;
mod good;
mod hostile;
mod http;
mod mutate;
mod outputs;
pub mod report;
mod subject;
mod tally;
mod tenants;
mod watch;
pub mod weather;

pub use bounds::Bound;
pub use good::load::{Latency, Phase};
pub use hostile::task_names;
pub use tally::Took;

use crate::ledger::Ledger;
use crate::run::Stop;
use crate::verify::verify;
use anyhow::{Context, Result, anyhow, ensure};
use good::Good;
use hostile::Arsenal;
use report::{Memory, Report};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use subject::Subject;
use tally::Tally;
use tempfile::TempDir;
use tenants::Tenants;
use tokio::runtime::Runtime;
use watch::Watch;
use weather::{Forecast, Weather};

/// How long to wait for the next row that is still being shipped.
const SHIP_PATIENCE: Duration = Duration::from_secs(120);
/// After an attack, how soon memory is looked at.
const MEMORY_BACK: Duration = Duration::from_secs(5);
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// What is to be done, and with what.
#[derive(Clone, Debug)]
pub struct Options {
    /// The server's program.
    pub server: PathBuf,
    /// Its folder is made in here.
    pub dir: PathBuf,
    /// The fuzz targets' corpora.
    pub corpus: PathBuf,
    /// How long the good tenant is alone, each time.
    pub calm: Duration,
    /// How long it is not.
    pub attack: Duration,
    /// How often both take turns.
    pub rounds: u32,
    /// Only these of [`task_names`]; all if none are named.
    pub only: Vec<String>,
    /// Between two requests of one of the hostile tenant's tasks, about; some take several of it.
    pub pause: Duration,
    /// Decides what is tried.
    pub seed: u64,
}

impl Options {
    /// A minute of calm and attack in turn, for so long in all.
    #[must_use]
    pub fn new(server: PathBuf, dir: PathBuf, corpus: PathBuf, minutes: u32) -> Self {
        Self {
            server,
            dir,
            corpus,
            calm: Duration::from_secs(30),
            attack: Duration::from_secs(30),
            rounds: minutes,
            only: Vec::new(),
            pause: Duration::from_millis(20),
            seed: rand::random(),
        }
    }
}

/// Attacks for so long, unless stopped; `say` is told how it goes.
///
/// # Errors
/// The server does not start, or cannot be asked any more.
pub fn attack(options: &Options, stop: &Stop, say: &(dyn Fn(&str) + Sync)) -> Result<Report> {
    ensure!(options.rounds > 0, "there must be a round at least");
    let dir = TempDir::with_prefix_in("millrace-attack-", &options.dir).context("a folder")?;
    let report = attack_in(dir.path(), options, stop, say);
    if !report.as_ref().is_ok_and(Report::is_right) {
        say(&format!(
            "what is there is kept in {}",
            dir.keep().display()
        ));
    }
    report
}

/// The same in a folder.
fn attack_in(
    dir: &Path,
    options: &Options,
    stop: &Stop,
    say: &(dyn Fn(&str) + Sync),
) -> Result<Report> {
    let (forecast, tally) = (Forecast::default(), Arc::new(Tally::default()));
    let subject = Subject::start(options, dir)?;
    let tenants = Arc::new(Tenants::make(&subject)?);
    // Merges fold rows of one event, and would hide what is stored twice.
    let clickhouse = subject.clickhouse();
    runtime()?.block_on(clickhouse.execute("SYSTEM STOP MERGES millrace.events"))?;
    say("making bombs");
    let arsenal = Arc::new(Arsenal::new(options, &subject, &tenants, &tally)?);
    let good = Good::new(&subject, &tenants, &tally, &forecast)?;
    let watch = Watch::new(&subject, &tally, &forecast);
    let mut report = Report::new(options.seed);
    let run = Run {
        options,
        subject: &subject,
        good: &good,
        arsenal: &arsenal,
        forecast: &forecast,
        ledger: dir.join("ledger"),
        stop,
        say,
    };
    std::thread::scope(|scope| {
        let tasks = [
            scope.spawn(|| watch.look()),
            scope.spawn(|| good.name_persons().map(drop)),
            scope.spawn(|| good.export()),
            scope.spawn(|| good.ask()),
        ];
        let ran = run.phases(&mut report);
        forecast.set(Weather::Over);
        for task in tasks {
            task.join().map_err(|_| anyhow!("a task panicked"))??;
        }
        ran
    })?;
    watch.close();
    outputs::check(&subject, &tally)?;
    report.verdict = Some(run.verdict()?);
    report.persons = good.persons.seconds();
    report.exports = good.exports.seconds();
    report.answers = good.answers.seconds();
    report.watermark = watch.watermark.seconds();
    report.add(&tally, &options.only);
    Ok(report)
}

/// What phases need.
struct Run<'a> {
    options: &'a Options,
    subject: &'a Subject,
    good: &'a Good<'a>,
    arsenal: &'a Arc<Arsenal>,
    forecast: &'a Forecast,
    ledger: PathBuf,
    stop: &'a Stop,
    say: &'a (dyn Fn(&str) + Sync),
}

impl Run<'_> {
    /// Calm and attack in turn, and calm in the end.
    fn phases(&self, report: &mut Report) -> Result<()> {
        let mut calm_bytes = None;
        for round in 0..self.options.rounds {
            self.phase(report, Weather::Calm, round)?;
            let calm = *calm_bytes.get_or_insert(self.subject.memory_bytes("VmRSS")?);
            if self.stop.is_asked() {
                break;
            }
            self.phase(report, Weather::Attack, round)?;
            let back = self.memory_after(calm)?;
            (self.say)(&format!(
                "round {} of {}: {back}",
                round + 1,
                self.options.rounds
            ));
            report.memory.push(back);
        }
        self.phase(report, Weather::Calm, self.options.rounds)
    }

    fn phase(&self, report: &mut Report, weather: Weather, round: u32) -> Result<()> {
        self.forecast.set(weather);
        let duration = match weather {
            Weather::Attack => self.options.attack,
            _ => self.options.calm,
        };
        let load = || self.good.load(weather, duration, &self.ledger, self.stop);
        let phase = if weather == Weather::Attack {
            std::thread::scope(|scope| {
                let strike = scope.spawn(|| self.arsenal.strike(round, duration));
                let phase = load();
                let strike = strike.join().map_err(|_| anyhow!("an attack panicked"))?;
                strike.and(phase)
            })?
        } else {
            load()?
        };
        (self.say)(&phase.to_string());
        report.phases.push(phase);
        Ok(())
    }

    /// Memory after an attack, when it should be back.
    fn memory_after(&self, calm_bytes: u64) -> Result<Memory> {
        self.forecast.set(Weather::Settling);
        let ended = Instant::now();
        let at_end_bytes = self.subject.memory_bytes("VmRSS")?;
        let mut now_bytes = at_end_bytes;
        while ended.elapsed() < MEMORY_BACK {
            std::thread::sleep(LOOK_AGAIN);
            now_bytes = now_bytes.min(self.subject.memory_bytes("VmRSS")?);
        }
        Ok(Memory {
            calm_bytes,
            most_bytes: self.subject.memory_bytes("VmHWM")?,
            engine_most_bytes: self.subject.engine_most_bytes()?,
            at_end_bytes,
            after_bytes: now_bytes,
        })
    }

    /// Whether everything that was acknowledged is stored once.
    fn verdict(&self) -> Result<crate::Verdict> {
        let ledger = Ledger::read(&self.ledger)?;
        let clickhouse = self.subject.clickhouse();
        runtime()?.block_on(verify(&ledger, &clickhouse, SHIP_PATIENCE))
    }
}

/// Corpora beside a folder of the sources.
#[must_use]
pub fn corpus_in(root: &Path) -> PathBuf {
    root.join("ingest/fuzz/corpus")
}

fn runtime() -> Result<Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start a runtime")
}
